"""Contractions of :mod:`skicml_accel.transport._masked_gw` with plans of few entries.

Vertices of the polytope of plans have at most n + m - 1 entries, and so have most plans
that a conditional gradient passes. Products with them cost their entries times a row.

Contract: NumPy arrays or torch tensors on the CPU, any strides. With z entries
2 n^2 m * 3 + 6 z m flops for the gradient and 6 z (m + n) for residuals. Temporaries as
those of the reference. Deterministic.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from skicml_accel._types import Array
from skicml_accel.transport._masked_gw import check_masked, check_pairs
from skicml_accel.transport._sinkhorn_blas import on_host


def masked_gw_grad(source: Array, target: Array, plan: Array) -> Array:
    """See :func:`skicml_accel.transport.masked_gw_grad`."""
    check_masked("masked_gw_grad", source, target, plan)
    return on_host(_gradient, source, target, plan)


def pair_residual(target: Array, plan: Array, cost: Array, weights: Array) -> Array:
    """See :func:`skicml_accel.transport.pair_residual`."""
    check_pairs("pair_residual", target, plan, cost, weights)
    return on_host(_residual, target, plan, cost, weights)


def _gradient(source: np.ndarray, target: np.ndarray, plan: np.ndarray) -> np.ndarray:
    sparse = csr_array(plan)
    total = source[1] @ (sparse @ target[1])
    total *= -2
    total += source[2] @ (sparse @ target[0])
    total += source[0] @ (sparse @ target[2])
    total *= 2
    return total


def _residual(
    target: np.ndarray, plan: np.ndarray, cost: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    sparse = csr_array(plan / weights[:, None])

    def both_sides(moment: np.ndarray) -> np.ndarray:
        return sparse @ (sparse @ moment).T

    total = both_sides(target[0])
    total *= cost
    total -= 2 * both_sides(target[1])
    total *= cost
    total += both_sides(target[2])
    mean = (total + total.T) / 2
    return np.maximum(mean, 0, out=mean)
