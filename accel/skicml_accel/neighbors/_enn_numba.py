"""Compiled leave-one-out profile of epistemic nearest neighbors.

Contract: float64 NumPy. 8 r p k flops, no temporaries beside the output.
Deterministic.
"""

# Types of compiled functions are the compiler's business.
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numba
import numpy as np

from skicml_accel._types import Array
from skicml_accel.neighbors._enn import EPS


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
    if weight is None:
        weight = np.ones_like(y)
    return _profile(squared_distance, y_neighbors, y, ratio, mass, weight)


@numba.njit(
    cache=True,
    nogil=True,
    boundscheck=False,
    error_model="numpy",
    # sums may be reordered to use vectors; NaN and infinity keep their meaning
    fastmath={"reassoc", "contract", "nsz"},
)
def _profile(squared_distance, y_neighbors, y, ratio, mass, weight):
    n_rows, k = squared_distance.shape
    scale = np.empty(ratio.size)
    log_likelihood = np.empty(ratio.size)
    spread = np.empty(n_rows)
    error = np.empty(n_rows)
    weight_sum = weight.sum()
    for r in range(ratio.size):
        rho = ratio[r]
        best = 0.0
        for p in range(n_rows):
            total = 0.0
            mean = 0.0
            for i in range(k):
                precision = mass[p, i] / (squared_distance[p, i] + rho)
                total += precision
                mean += precision * y_neighbors[p, i]
            spread[p] = 1 / total + rho
            error[p] = (y[p] - mean / total) ** 2
            best += weight[p] * error[p] / spread[p]
        best /= weight_sum
        # a NaN must not pass, which max() might let it
        if not best > EPS:
            best = EPS
        value = 0.0
        for p in range(n_rows):
            variance = best * spread[p]
            term = np.log(2 * np.pi * variance) + error[p] / variance
            value -= 0.5 * weight[p] * term
        scale[r] = best
        # isfinite() subtracts its argument from itself, which reordering cancels
        log_likelihood[r] = value if -np.inf < value < np.inf else -np.inf
    return scale, log_likelihood
