r"""Sinkhorn's algorithm in the log domain, symmetrized and then extrapolated.

Between spaces that resemble each other the averaged updates
:math:`p \leftarrow (p + p')/2`, :math:`q \leftarrow (q + q')/2` contract within a few
passes (Feydy et al., 2019). Where they do not, one turns to the alternating updates with
Anderson's extrapolation (Anderson, 1965), which takes the square root of their number of
passes or fewer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from skicml_accel._namespaces import namespace_of
from skicml_accel._types import Array

#: The averaged updates go on while the error falls at least by this factor a pass,
#: which they are given a few passes to reach.
CONTRACTION = 0.5
FREE_PASSES = 3
#: Iterates that the extrapolation remembers, and how much larger than the best the
#: error may become before it starts afresh.
MEMORY = 6
WORSE = 2.0

Pass = Callable[[Array, Array, bool], tuple[Array, Array]]


def sinkhorn(
    iterate: Pass, p: Array, q: Array, a: Array, b: Array, *, tol: float, max_iter: int
) -> tuple[Array, Array, float, int]:
    """Scale a kernel until its marginals are right.

    Parameters
    ----------
    iterate : callable
        ``iterate(p, q, jacobi)``, as :func:`skicml_accel.transport.sinkhorn_pass`.
    p, q : arrays of shapes (n,) and (m,)
        Start.
    a, b : arrays of shapes (n,) and (m,)
        Marginals.
    tol : float
        Sum of absolute errors of the marginals to stop at.
    max_iter : int
        Greatest number of passes.

    Returns
    -------
    p, q : arrays of shapes (n,) and (m,)
        Potentials whose plan has exact row sums; the best found.
    error : float
        Bound of the errors of its column sums.
    n_iter : int
        Passes.
    """
    last = float("inf")
    for n_iter in range(1, max_iter + 1):
        rows, log_c = iterate(p, q, True)
        error = _error(a, p - rows) + _error(b, log_c)
        if error < tol or n_iter == max_iter:
            return rows, q, error, n_iter
        if n_iter > FREE_PASSES and not error < CONTRACTION * last:
            break
        last = error
        p, q = (p + rows) / 2, q - log_c / 2
    p, q, error, more = _alternate(iterate, rows, q, b, tol, max_iter - n_iter)
    return p, q, error, n_iter + more


def _alternate(
    iterate: Pass, p: Array, q: Array, b: Array, tol: float, max_iter: int
) -> tuple[Array, Array, float, int]:
    """Alternating updates, extrapolated."""
    history: list[tuple[Array, Array]] = []
    best: tuple[float, Array, Array, Array] | None = None
    for n_iter in range(1, max_iter + 1):
        p, log_c = iterate(p, q, False)
        error = _error(b, log_c)
        if error < tol:
            return p, q, error, n_iter
        if best is not None and history and not error < WORSE * best[0]:
            # an extrapolation too far: a plain step from the best point instead
            _, p, q, log_c = best
            history = []
            q = q - log_c
            continue
        # plain steps, which never increase the error, may leave it as it is for long
        if best is None or not history or error < best[0]:
            best = error, p, q, log_c
        # a constant in q is one in p: extrapolated, it would grow without end
        history = [*history, (q, b @ log_c - log_c)][-MEMORY:]
        q = _extrapolate(history, b)
    assert best is not None
    return best[1], best[2], best[0], max_iter


def _extrapolate(history: list[tuple[Array, Array]], weights: Array) -> Array:
    """Anderson's next iterate from pairs of an iterate and its residual."""
    point, residual = history[-1]
    if len(history) == 1:
        return point + residual
    xp = namespace_of(point)
    steps = xp.stack([y[0] - x[0] for x, y in itertools.pairwise(history)], axis=1)
    changes = xp.stack([y[1] - x[1] for x, y in itertools.pairwise(history)], axis=1)
    mix = _least_squares(xp, changes, residual, weights)
    return point + residual - (steps + changes) @ mix


def _least_squares(xp: Any, A: Array, y: Array, weights: Array) -> Array:
    """Weighted least squares in double precision, ridged against equal columns."""
    dtype = A.dtype
    A, y, weights = (xp.astype(x, xp.float64) for x in (A, y, weights))
    weighted = weights[:, None] * A
    normal = A.T @ weighted
    trace = float(xp.sum(weighted * A))
    ridge = 1e-8 * trace * xp.eye(A.shape[1], dtype=xp.float64, device=A.device)
    if not 0 < trace < float("inf"):
        return xp.zeros(A.shape[1], dtype=dtype, device=A.device)
    return xp.astype(xp.linalg.solve(normal + ridge, weighted.T @ y), dtype)


def _error(weights: Array, log_ratio: Array) -> float:
    """Sum of absolute errors of marginals whose relative error is known."""
    xp = namespace_of(weights)
    # far from the solution a column may hold more than all of the mass
    relative = xp.expm1(xp.clip(log_ratio, max=80.0))
    return float(xp.sum(weights * xp.abs(relative)))
