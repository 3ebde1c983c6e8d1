"""Compiled leave-one-out profile of epistemic nearest neighbors.

Contract: float64 NumPy. 8 r p k flops, temporaries of a few r p numbers. The innermost
loop runs over held-out rows, which vectorizes without reordering any sum: the result
has the bits of the NumPy implementation.
"""

# Types of compiled functions are the compiler's business.
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numba
import numpy as np

from skicml_accel._types import Array
from skicml_accel.neighbors._enn import profile_from_sums


def enn_loo_profile(
    squared_distance: Array,
    y_neighbors: Array,
    y: Array,
    *,
    ratio: Array,
    mass: Array | None = None,
    weight: Array | None = None,
) -> tuple[Array, Array]:
    """See :func:`skicml_accel.neighbors.enn_loo_profile`."""
    if mass is None:
        mass = np.ones_like(squared_distance)
    distances, targets, counts = (
        np.ascontiguousarray(a.T) for a in (squared_distance, y_neighbors, mass)
    )
    total, weighted = _sums(distances, targets, counts, ratio)
    return profile_from_sums(total, weighted, y, ratio, weight)


@numba.njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def _sums(squared_distance, y_neighbors, mass, ratio):
    """Add up precisions over neighbors, the first axis of all three tables."""
    k, n_rows = squared_distance.shape
    total = np.zeros((ratio.size, n_rows))
    weighted = np.zeros((ratio.size, n_rows))
    for r in range(ratio.size):
        rho = ratio[r]
        totals, sums = total[r], weighted[r]
        for i in range(k):
            distance, y, count = squared_distance[i], y_neighbors[i], mass[i]
            for p in range(n_rows):
                precision = count[p] / (distance[p] + rho)
                totals[p] += precision
                sums[p] += precision * y[p]
    return total, weighted
