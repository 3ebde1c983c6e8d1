r"""Starts of :class:`SRGWMatcher`: plans that corrupted pairs do not mislead.

Profiles compare the costs of a row with those of another as sets. The best plan for
them is a start, or is first refined by Gromov-Wasserstein with Welsch's loss
:math:`1 - e^{-(c - c')^2 / 2 h^2}`, which saturates: a pair that is far off costs the
same however far. With Gaussian bumps around levels :math:`\ell` at the distance h,

.. math::
    e^{-(c - c')^2 / 2 h^2} \propto \sum_\ell e^{-(c - \ell)^2 / h^2}
    e^{-(c' - \ell)^2 / h^2}

up to 1.5 %, so that its gradient is a sum of products of matrices as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from skicml.transport._srgw_solver import Problem
from skicml.transport._transport_steps import best_vertex, conditional_gradient
from skicml_accel.transport import cost_block, masked_gw_grad

#: Starts by name; "auto" chooses among them.
INITS = ("auto", "tlb", "welsch", "density", "product", "gw", "random")
#: Entries of a plan up to which "auto" takes more than the profile.
AUTO_ENTRIES = 250_000
#: Quantiles of a profile.
N_QUANTILES = 64
#: Bandwidths of Welsch's loss, in units of the costs, and of the density of a profile.
BANDWIDTHS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18)
PROFILE_BANDWIDTH = 0.3
#: Lines of the search for one bandwidth, and of plain Gromov-Wasserstein.
WELSCH_STEPS = 20
GW_STEPS = 1_000
#: Bumps reach as far as this many bandwidths.
REACH = 2.7


def names_of(init: str, n_entries: int, binary: bool, n_init: int | None) -> list[str]:
    """List the starts that a name stands for, best first, then random ones."""
    if init != "auto":
        names = [init]
    elif n_entries <= AUTO_ENTRIES:
        names = ["welsch", "density", "tlb", "product"]
    else:
        names = ["tlb"]
    if binary and "gw" not in names:
        names.append("gw")
    if n_init is None:
        return names
    return (names + ["random"] * n_init)[:n_init]


def plan_of(name: str, problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Start by name.

    Parameters
    ----------
    name : str
        One of :data:`INITS` but "auto".
    problem : Problem
        The spaces, float64 arrays of NumPy.
    rng : Generator
        For "random".

    Returns
    -------
    array of shape (n, m)
        A plan.
    """
    a, b = problem.a, problem.b
    if name == "product":
        return a[:, None] * b[None, :]
    if name == "gw":
        return conditional_gradient(
            lambda T: masked_gw_grad(*problem.whole, T),
            a[:, None] * b[None, :],
            a,
            b,
            GW_STEPS,
        )
    if name == "tlb":
        return _by_quantiles(problem)
    if name == "density":
        first = _by_density(problem)
    elif name == "random":
        first = best_vertex(rng.random((a.shape[0], b.shape[0])), a, b)
    else:
        first = _by_quantiles(problem)
    return _with_welsch_loss(problem, first)


def _by_quantiles(problem: Problem) -> np.ndarray:
    """Plan for the mean difference of the quantiles of rows."""
    profiles = _quantiles(problem.Cx, problem.a), _quantiles(problem.Cy, problem.b)
    distance = cost_block(*profiles, cost="cityblock")
    return best_vertex(distance, problem.a, problem.b)


def _quantiles(C: np.ndarray, weights: np.ndarray) -> np.ndarray:
    levels = np.linspace(0, 1, N_QUANTILES)
    out = np.empty((C.shape[0], N_QUANTILES))
    for row, values in zip(out, C, strict=True):
        order = np.argsort(values)
        mass = np.cumsum(weights[order])
        # the last level meets all of the mass, however it was rounded
        place = np.searchsorted(mass, levels * mass[-1])
        row[:] = values[order[np.minimum(place, C.shape[0] - 1)]]
    return out


def _by_density(problem: Problem) -> np.ndarray:
    """Plan for the squared difference of the densities of the costs of rows."""
    h = PROFILE_BANDWIDTH
    levels = _levels(problem, h)
    densities = [
        np.stack([np.exp(-(((C - level) / h) ** 2)) @ w for level in levels], axis=1)
        for C, w in ((problem.Cx, problem.a), (problem.Cy, problem.b))
    ]
    distance = cost_block(*densities, cost="sqeuclidean")
    return best_vertex(distance, problem.a, problem.b)


def _with_welsch_loss(problem: Problem, plan: np.ndarray) -> np.ndarray:
    """Refine a plan while the loss narrows."""
    for h in BANDWIDTHS:
        levels = _levels(problem, h)

        def gradient(T: np.ndarray, h: float = h, levels: np.ndarray = levels):
            total = np.zeros(T.shape)
            for level in levels:
                left = np.exp(-(((problem.Cx - level) / h) ** 2))
                right = np.exp(-(((problem.Cy - level) / h) ** 2))
                total -= 2 * (left @ (T @ right))
            return total

        plan = conditional_gradient(gradient, plan, problem.a, problem.b, WELSCH_STEPS)
    return plan


def _levels(problem: Problem, h: float) -> np.ndarray:
    """Centers of the bumps that reach costs of both spaces."""
    spans = [np.unique(C) for C in (problem.Cx, problem.Cy)]
    lowest = min(span[0] for span in spans)
    highest = max(span[-1] for span in spans)
    levels = lowest + h * np.arange(int((highest - lowest) / h) + 2)
    near = [_distance_to(levels, span) <= REACH * h for span in spans]
    return levels[near[0] & near[1]]


def _distance_to(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Distance of points to the nearest of sorted values."""
    place = np.searchsorted(values, points).clip(1, max(1, len(values) - 1))
    below, above = values[place - 1], values[np.minimum(place, len(values) - 1)]
    return np.minimum(np.abs(points - below), np.abs(points - above))


def starts(
    names: list[str], problem: Problem, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Make the plans one by one, when they are asked for."""
    for name in names:
        yield plan_of(name, problem, rng)
