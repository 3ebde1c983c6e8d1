"""One pass over the pairs for :func:`skicml_accel.transport.mask_update`.

Contract: NumPy arrays or torch tensors on the CPU, any strides. 5 n^2 flops; reads 2 n^2
numbers and writes 3 n^2. No temporaries. Deterministic.
"""

# Types of compiled functions are the compiler's business.
# mypy: disable-error-code="no-untyped-def, call-arg"
from __future__ import annotations

import numba
import numpy as np

from skicml_accel._chunks import thread_rows
from skicml_accel._types import Array
from skicml_accel.transport._masked_gw import PENALTIES, check_mask
from skicml_accel.transport._sinkhorn_blas import on_host

#: Pairs from which a second thread pays.
MIN_PAIRS = 200_000


def mask_update(
    residual: Array, cost: Array, *, lam: float, penalty: str = "quadratic"
) -> Array:
    """See :func:`skicml_accel.transport.mask_update`."""
    check_mask("mask_update", residual, cost, lam, penalty)
    return on_host(_update, residual, cost, lam=lam, penalty=penalty)


def _update(
    residual: np.ndarray, cost: np.ndarray, *, lam: float, penalty: str
) -> np.ndarray:
    dtype = residual.dtype.newbyteorder("=")
    residual = np.ascontiguousarray(residual, dtype)
    cost = np.ascontiguousarray(cost, dtype)
    out = np.empty((3, *residual.shape), dtype)
    rule = PENALTIES.index(penalty)
    scale = dtype.type(lam)

    def run(rows: slice) -> None:
        _fill(residual[rows], cost[rows], scale, rule, out[:, rows])

    thread_rows(residual.shape[0], max(1, MIN_PAIRS // max(1, cost.shape[1])), run)
    return out


@numba.njit(cache=True, nogil=True, boundscheck=False)
def _fill(residual, cost, lam, rule, out):
    one = type(lam)(1)
    zero = type(lam)(0)
    for i in range(residual.shape[0]):
        for k in range(residual.shape[1]):
            r, c = residual[i, k], cost[i, k]
            if rule == 0:
                w = max(zero, one - r / lam)
            elif rule == 1:
                share = lam / (lam + r)
                w = share * share
            else:
                w = one if r <= lam else zero
            out[0, i, k] = w
            out[1, i, k] = w * c
            out[2, i, k] = w * c * c
