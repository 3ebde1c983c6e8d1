r"""Steps of a plan on a quadratic function :math:`\langle L(T), T \rangle`, L linear.

Given is its gradient, ``gradient(T)`` = 2 L(T), which is linear in the plan too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import linear_sum_assignment

from skicml.transport._egw_solver import dense_pass
from skicml.transport._sinkhorn import sinkhorn
from skicml_accel._namespaces import namespace_of
from skicml_accel._types import Array

#: Pivots of the network simplex, which stops without an answer at POT's default.
MAX_PIVOTS = 10**8
#: Slope towards the best vertex, in units of the gradient's entries, that is none.
FLAT = 1e-13
#: Logarithm of the smallest share of an entry that can grow again.
LOWEST_LOG = -60.0
#: Doublings of epsilon before a proximal step gives up.
MAX_DOUBLINGS = 12
SINKHORN_PASSES = 200
#: Relative decrease of the function that ends the proximal steps.
SETTLED = 1e-6

Gradient = Callable[[Array], Array]


def best_vertex(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Plan of least cost, exactly.

    Parameters
    ----------
    cost : array of shape (n, m)
        Finite.
    a, b : arrays of shapes (n,) and (m,)
        Marginals, of equal sums.

    Returns
    -------
    float64 array of shape (n, m)
        At most n + m - 1 entries are not zero.
    """
    plan = np.zeros(cost.shape)
    if cost.shape[0] == cost.shape[1] and np.ptp(a) == np.ptp(b) == 0:
        # equal masses: an assignment, which is found much faster
        rows, columns = linear_sum_assignment(cost)
        plan[rows, columns] = a
        return plan
    from ot.lp import emd

    lowest = cost.min()
    return emd(a, b, cost - lowest, numItermax=MAX_PIVOTS, check_marginals=False)


def conditional_gradient(
    gradient: Gradient, plan: np.ndarray, a: np.ndarray, b: np.ndarray, max_iter: int
) -> np.ndarray:
    """Descend along lines to vertices, each line to its minimum.

    Parameters
    ----------
    gradient : callable
        Gradient at a plan.
    plan : array of shape (n, m)
        Start, of marginals a and b.
    a, b : arrays of shapes (n,) and (m,)
        Marginals.
    max_iter : int
        Greatest number of lines.

    Returns
    -------
    array of shape (n, m)
        A plan of the same marginals and no larger value.
    """
    G = gradient(plan)
    for _ in range(max_iter):
        vertex = best_vertex(G, a, b)
        slope = float(np.vdot(G, vertex) - np.vdot(G, plan))
        if slope >= -FLAT * np.abs(G).max():
            break
        # in place, and without the way to the vertex: most memory of a fit is here
        change = gradient(vertex)
        change -= G
        curvature = float(np.vdot(change, vertex) - np.vdot(change, plan)) / 2
        share = min(1.0, -slope / (2 * curvature)) if curvature > 0 else 1.0
        if share < 1.0:
            vertex *= share
            vertex += (1 - share) * plan
            change *= share
        plan = vertex
        G += change
    return plan


def proximal_sinkhorn(
    gradient: Gradient,
    plan: Array,
    a: Array,
    b: Array,
    max_iter: int,
    *,
    epsilon: float,
    tol: float,
) -> Array:
    """Descend by entropic transport that stays near the last plan.

    Each step minimizes the linearized function plus epsilon times the divergence from
    the last plan. A step that does not descend is repeated with twice the epsilon.

    Parameters
    ----------
    gradient : callable
        Gradient at a plan.
    plan : array of shape (n, m)
        Start, of marginals a and b; of any library.
    a, b : arrays of shapes (n,) and (m,)
        Marginals.
    max_iter : int
        Greatest number of steps.
    epsilon : float
        In units of the largest entry of the gradient.
    tol : float
        Error of the marginals at which Sinkhorn's iteration stops; what is left is
        rounded away.

    Returns
    -------
    array of shape (n, m)
        A plan of the same marginals and no larger value.
    """
    xp = namespace_of(plan)
    G = gradient(plan)
    value = float(xp.sum(G * plan))
    independent = a[:, None] * b[None, :]
    for _ in range(max_iter):
        eps = epsilon * float(xp.max(xp.abs(G)))
        if not eps > 0:
            break
        share = xp.log(xp.clip(plan / independent, min=float(np.exp(LOWEST_LOG))))
        for _ in range(MAX_DOUBLINGS):
            trial = _entropic(share - G / eps, a, b, tol)
            G_trial = gradient(trial)
            lower = float(xp.sum(G_trial * trial))
            if lower < value:
                break
            eps *= 2
        else:
            break
        settled = value - lower <= SETTLED * abs(value)
        plan, G, value = trial, G_trial, lower
        if settled:
            break
    return plan


def _entropic(z: Array, a: Array, b: Array, tol: float) -> Array:
    """Plan a b exp(z + p + q) with exact marginals."""
    xp = namespace_of(z)
    z = z - xp.max(z)
    p, q, _, _ = sinkhorn(
        lambda p, q, jacobi: dense_pass(z, p, q, a, b, jacobi),
        xp.zeros_like(a),
        xp.zeros_like(b),
        a,
        b,
        tol=tol,
        max_iter=SINKHORN_PASSES,
    )
    exponent = xp.clip(z + p[:, None] + q[None, :], max=-float(np.log(1e-30)))
    return rounded(a[:, None] * b[None, :] * xp.exp(exponent), a, b)


def rounded(plan: Array, a: Array, b: Array) -> Array:
    """Nearby plan with exact marginals (Altschuler, Weed and Rigollet, 2017)."""
    xp = namespace_of(plan)
    tiny = float(xp.finfo(plan.dtype).smallest_normal)
    rows = xp.clip(xp.sum(plan, axis=1), min=tiny)
    plan = plan * xp.clip(a / rows, max=1.0)[:, None]
    columns = xp.clip(xp.sum(plan, axis=0), min=tiny)
    plan = plan * xp.clip(b / columns, max=1.0)[None, :]
    rows = xp.clip(a - xp.sum(plan, axis=1), min=0)
    columns = xp.clip(b - xp.sum(plan, axis=0), min=0)
    total = float(xp.sum(columns))
    # in single precision rounding may leave one side nothing to fill
    if not total > tiny:
        return plan
    return plan + rows[:, None] * (columns / total)[None, :]
