"""Compiled differences for :mod:`skicml_accel.transport._cost`, otherwise as with SciPy.

A row is held against the transposed other table, column by column, so that the
compiler makes vectors of it; the row of sums stays in the first cache.

Contract: float32 or float64, any strides. 3 n m d flops. Temporaries as
:func:`skicml_accel.transport.cost_block_matvec_estimate_bytes` says. Deterministic.
"""

# Types of compiled functions are the compiler's business.
# mypy: disable-error-code="no-untyped-def, call-arg"
from __future__ import annotations

import numba
import numpy as np

from skicml_accel._chunks import thread_rows
from skicml_accel._types import Array
from skicml_accel.transport._cost import check_rows
from skicml_accel.transport._cost_scipy import Fill, block_with, matvec_with
from skicml_accel.transport._sinkhorn_blas import on_host

#: Columns of which a row of sums is made at a time.
STRIP = 1024


@numba.njit(cache=True, nogil=True, boundscheck=False, fastmath={"contract"})
def _sum_differences(rows, table, out, absolute):
    d, m = table.shape
    for start in range(0, m, STRIP):
        stop = min(start + STRIP, m)
        for i in range(rows.shape[0]):
            sums = out[i, start:stop]
            sums[:] = 0
            # four columns at a time: the sums are loaded and stored less often
            column = 0
            while column + 4 <= d and not absolute:
                x0, x1 = rows[i, column], rows[i, column + 1]
                x2, x3 = rows[i, column + 2], rows[i, column + 3]
                t0 = table[column, start:stop]
                t1 = table[column + 1, start:stop]
                t2 = table[column + 2, start:stop]
                t3 = table[column + 3, start:stop]
                for j in range(stop - start):
                    g0, g1, g2, g3 = x0 - t0[j], x1 - t1[j], x2 - t2[j], x3 - t3[j]
                    sums[j] += (g0 * g0 + g1 * g1) + (g2 * g2 + g3 * g3)
                column += 4
            while column < d:
                x = rows[i, column]
                t = table[column, start:stop]
                if absolute:
                    for j in range(stop - start):
                        sums[j] += abs(x - t[j])
                else:
                    for j in range(stop - start):
                        gap = x - t[j]
                        sums[j] += gap * gap
                column += 1


def _filler(Y: np.ndarray, cost: str) -> Fill:
    dtype = Y.dtype.newbyteorder("=")
    table = np.ascontiguousarray(Y.T, dtype)
    absolute = cost == "cityblock"

    def fill(rows: np.ndarray, out: np.ndarray) -> None:
        rows = np.ascontiguousarray(rows, dtype)

        def run(part: slice) -> None:
            _sum_differences(rows[part], table, out[part], absolute)

        thread_rows(rows.shape[0], max(1, 100_000 // table.shape[1]), run)

    return fill


def cost_block(
    X: Array, Y: Array, *, cost: str = "euclidean", parameter: float = 1.0
) -> Array:
    """See :func:`skicml_accel.transport.cost_block`."""
    check_rows("cost_block", X, Y, cost)
    return on_host(block_with, X, Y, filler=_filler, cost=cost, parameter=parameter)


def cost_block_matvec(
    X: Array,
    Y: Array,
    V: Array,
    *,
    cost: str = "euclidean",
    parameter: float = 1.0,
    weights: Array | None = None,
    chunk_bytes: int | None = None,
) -> tuple[Array, Array | None]:
    """See :func:`skicml_accel.transport.cost_block_matvec`."""
    check_rows("cost_block_matvec", X, Y, cost, V=V, weights=weights)
    return on_host(
        matvec_with,
        X,
        Y,
        V,
        weights,
        filler=_filler,
        cost=cost,
        parameter=parameter,
        chunk_bytes=chunk_bytes,
    )
