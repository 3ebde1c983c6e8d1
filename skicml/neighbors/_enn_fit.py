"""Fit of the two variances of epistemic nearest neighbors; functions of arrays.

All of it works on a few hundred held-out rows in float64 on the host, whatever the
library and device of the data. Source: arXiv 2506.12818; the profile search is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from skicml_accel._namespaces import namespace_of
from skicml_accel._types import Array
from skicml_accel.neighbors import enn_loo_log_likelihood, enn_loo_profile

#: Ratios searched, as powers of ten times the median squared distance.
RATIO_DECADES = np.linspace(-4, 4, 60)
N_BRACKETS = 3
#: Each zoom cuts a bracket in so many steps and keeps two of them.
N_STEPS, N_ZOOMS = 6, 5


class HeldOut(NamedTuple):
    """Held-out rows with their nearest other rows, in units of the spread of y.

    ``squared_distance``, ``y_neighbors``, ``mass`` and ``y_var_neighbors`` have shape
    (p, k), ``y`` and ``weight`` (p,); the optional ones are None.
    """

    squared_distance: np.ndarray
    y_neighbors: np.ndarray
    y: np.ndarray
    mass: np.ndarray | None = None
    weight: np.ndarray | None = None
    y_var_neighbors: np.ndarray | None = None

    def log_likelihood(
        self, a: float | np.ndarray, b: float | np.ndarray
    ) -> np.ndarray:
        """Leave-one-out log likelihood of pairs of variances, arrays of shape (c,)."""
        return enn_loo_log_likelihood(
            self.squared_distance,
            self.y_neighbors,
            self.y,
            epistemic_scale=np.atleast_1d(np.asarray(a, float)),
            aleatoric_variance=np.atleast_1d(np.asarray(b, float)),
            y_var_neighbors=self.y_var_neighbors,
            mass=self.mass,
            weight=self.weight,
        )


def fit_profile(
    held_out: HeldOut, previous: tuple[float, float] | None = None
) -> tuple[float, float, float]:
    """Maximize the leave-one-out likelihood, the epistemic scale in closed form.

    Parameters
    ----------
    held_out : HeldOut
        Rows to predict from the others.
    previous : tuple of (a, b) or None, default=None
        Kept if nothing better is found.

    Returns
    -------
    epistemic_scale, aleatoric_variance, log_likelihood : float
        (1, 0) where y is constant.
    """
    if _is_constant(held_out):
        return 1.0, 0.0, float(held_out.log_likelihood(1.0, 0.0)[0])
    ratio = _best_ratios(held_out)
    a, _ = _profile(held_out, ratio)
    pairs = list(zip(a, a * ratio, strict=True))
    if previous is not None:
        pairs.append(previous)
    best = _best_of(held_out, pairs)
    if held_out.y_var_neighbors is not None:
        best = _best_of(held_out, [best[:2], _polish(held_out, best[:2])])
    return best


def fit_random(
    held_out: HeldOut,
    n_candidates: int,
    rng: np.random.Generator,
    previous: tuple[float, float] | None = None,
) -> tuple[float, float, float]:
    """Take the best of random pairs, log-uniform in 1e-3 to 1e3 as in the paper's code.

    Parameters
    ----------
    held_out : HeldOut
        Rows to predict from the others.
    n_candidates : int
        Pairs to draw.
    rng : numpy.random.Generator
        Source of the pairs.
    previous : tuple of (a, b) or None, default=None
        One more candidate.

    Returns
    -------
    epistemic_scale, aleatoric_variance, log_likelihood : float
        (1, 0) where y is constant.
    """
    pairs = list(map(tuple, 10 ** rng.uniform(-3, 3, (n_candidates, 2))))
    if _is_constant(held_out):
        pairs = [(1.0, 0.0)]
    elif previous is not None:
        pairs.append(previous)
    return _best_of(held_out, pairs)


def fit_one(
    held_out: HeldOut, *, a: float | None = None, b: float | None = None
) -> tuple[float, float, float]:
    """Maximize the leave-one-out likelihood over one variance, the other given.

    Parameters
    ----------
    held_out : HeldOut
        Rows to predict from the others.
    a, b : float or None
        The variances; exactly one is None.

    Returns
    -------
    epistemic_scale, aleatoric_variance, log_likelihood : float
    """
    if _is_constant(held_out):
        pair = (1.0 if a is None else a, 0.0 if b is None else b)
        return _best_of(held_out, [pair])
    unit = np.median(held_out.squared_distance)
    grid = 10 ** np.linspace(-8, 6, 141) / (unit if a is None and unit > 0 else 1.0)

    def pairs(free: np.ndarray) -> list[tuple[float, float]]:
        return [(v, b) if a is None else (a, v) for v in free]  # type: ignore[misc]

    first = _best_of(held_out, pairs(grid))
    top = first[0] if a is None else first[1]
    step = grid[1] / grid[0]
    fine = top * step ** np.linspace(-1, 1, 101)
    zero = [] if a is None else [0.0]
    return _best_of(held_out, pairs(np.concatenate((fine, zero))))


def _is_constant(held_out: HeldOut) -> bool:
    y = held_out.y_neighbors
    return bool(np.all(y == y.flat[0]) and np.all(held_out.y == y.flat[0]))


def _best_of(
    held_out: HeldOut, pairs: list[tuple[float, float]]
) -> tuple[float, float, float]:
    a, b = np.array(pairs, dtype=float).T
    value = held_out.log_likelihood(a, b)
    best = int(np.argmax(value))
    return float(a[best]), float(b[best]), float(value[best])


def _profile(held_out: HeldOut, ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return enn_loo_profile(
        held_out.squared_distance,
        held_out.y_neighbors,
        held_out.y,
        ratio=ratio,
        mass=held_out.mass,
        weight=held_out.weight,
    )


def _best_ratios(held_out: HeldOut) -> np.ndarray:
    """Ratios of the variances at the best maxima: a grid, then zooms."""
    distances = held_out.squared_distance
    unit = np.median(distances)
    if not unit > 0:
        unit = distances.max(initial=0.0) or 1.0
    # zero itself would divide by zero where rows repeat
    grid = unit * np.concatenate(([1e-12], 10**RATIO_DECADES))
    _, value = _profile(held_out, grid)
    padded = np.concatenate(([-np.inf], value, [-np.inf]))
    peak = (value >= padded[:-2]) & (value >= padded[2:])
    tops = np.flatnonzero(peak)
    tops = tops[np.argsort(-value[tops], kind="stable")][:N_BRACKETS]
    low = np.log(grid[np.maximum(tops - 1, 0)])
    high = np.log(grid[np.minimum(tops + 1, grid.size - 1)])
    for _ in range(N_ZOOMS):
        # all brackets in one call: each keeps the two steps around its best point
        steps = np.linspace(low, high, N_STEPS + 1, axis=1)
        _, value = _profile(held_out, np.exp(steps[:, 1:-1].ravel()))
        best = 1 + value.reshape(low.size, -1).argmax(axis=1)
        rows = np.arange(low.size)
        low, high = steps[rows, best - 1], steps[rows, best + 1]
    return np.concatenate((np.exp((low + high) / 2), grid[tops]))


def _polish(held_out: HeldOut, start: tuple[float, float]) -> tuple[float, float]:
    """Climb from a pair in both log variances, for observations of known variance."""
    found = minimize(
        lambda log: -held_out.log_likelihood(*np.exp(log))[0],
        np.log(np.maximum(start, 1e-12)),
        method="Nelder-Mead",
        options={"xatol": 1e-4, "fatol": 1e-6, "maxiter": 200},
    )
    return float(np.exp(found.x[0])), float(np.exp(found.x[1]))


def truncate_mass(mass: Array, total: float) -> Array:
    """Cut the masses of neighbors, nearest first, where they reach ``total``.

    Parameters
    ----------
    mass : array of shape (m, k)
        Weight of each neighbor, nearest first.
    total : float
        Mass to keep in each row.

    Returns
    -------
    array of shape (m, k)
        The last neighbor counted in part, those behind it not at all.
    """
    xp = namespace_of(mass)
    before = xp.cumulative_sum(mass, axis=1) - mass
    left = total - before
    return xp.minimum(xp.clip(left, min=0), mass)


def draw_held_out(
    weight: np.ndarray | None,
    n_rows: int,
    n_wanted: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Choose rows to hold out, in proportion to their weight and without repetition.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,) or None
        Positive; None means one each.
    n_rows : int
        Rows to choose from.
    n_wanted : int
        Total weight to hold out.
    rng : numpy.random.Generator
        Source of the choice.

    Returns
    -------
    index : ndarray of int
        Chosen rows, in increasing order.
    count : ndarray or None
        How often each counts; None means once each.
    """
    if weight is None:
        if n_rows <= n_wanted:
            return np.arange(n_rows), None
        return np.sort(rng.choice(n_rows, n_wanted, replace=False, shuffle=False)), None
    if weight.sum() <= n_wanted:
        return np.arange(n_rows), weight
    # equal steps through the mass of the shuffled rows: a row of weight w is met as
    # often as w rows of weight one would be
    order = rng.permutation(n_rows)
    edges = np.cumsum(weight[order])
    steps = (rng.random() + np.arange(n_wanted)) * (edges[-1] / n_wanted)
    hit = order[np.minimum(np.searchsorted(edges, steps, side="right"), n_rows - 1)]
    index, count = np.unique(hit, return_counts=True)
    return index, count.astype(float)
