"""The operations of :mod:`skicml_accel.transport._cost` with SciPy's distances.

Contract: NumPy arrays or torch tensors on the CPU, float32 or float64, any strides.
Temporaries: a block of 1 MiB of costs in double precision, or one row, and its copy in
the dtype of the input. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import cdist

from skicml_accel._chunks import row_chunks
from skicml_accel._types import Array
from skicml_accel.transport._cost import TILE_BYTES, check_rows
from skicml_accel.transport._sinkhorn_blas import on_host

#: Writes sums of differences of some rows to all others.
Fill = Callable[[np.ndarray, np.ndarray], None]


def cost_block(
    X: Array, Y: Array, *, cost: str = "euclidean", parameter: float = 1.0
) -> Array:
    """See :func:`skicml_accel.transport.cost_block`."""
    check_rows("cost_block", X, Y, cost)
    return on_host(block_with, X, Y, filler=filler, cost=cost, parameter=parameter)


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
        filler=filler,
        cost=cost,
        parameter=parameter,
        chunk_bytes=chunk_bytes,
    )


def filler(Y: np.ndarray, cost: str) -> Fill:
    """Distances of rows to Y, squared unless the cost is "cityblock"."""
    metric = "cityblock" if cost == "cityblock" else "sqeuclidean"

    def fill(rows: np.ndarray, out: np.ndarray) -> None:
        out[:] = cdist(rows, Y, metric)

    return fill


def block_with(
    X: np.ndarray,
    Y: np.ndarray,
    *,
    filler: Callable[[np.ndarray, str], Fill],
    cost: str,
    parameter: float,
) -> np.ndarray:
    """Make the whole matrix with a given way to sum differences."""
    out = np.empty((X.shape[0], Y.shape[0]), X.dtype)
    fill = filler(Y, cost)
    for rows in row_chunks(X.shape[0], Y.shape[0] * X.itemsize, TILE_BYTES):
        fill(X[rows], out[rows])
        _finish(out[rows], cost, parameter)
    return out


def matvec_with(
    X: np.ndarray,
    Y: np.ndarray,
    V: np.ndarray,
    weights: np.ndarray | None,
    *,
    filler: Callable[[np.ndarray, str], Fill],
    cost: str,
    parameter: float,
    chunk_bytes: int | None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Multiply block by block with a given way to sum differences."""
    n, m = X.shape[0], Y.shape[0]
    product = np.empty((n, V.shape[1]), X.dtype)
    squared = None if weights is None else np.empty(n, X.dtype)
    fill = filler(Y, cost)
    budget = TILE_BYTES if chunk_bytes is None else min(TILE_BYTES, chunk_bytes)
    buffer = None
    for rows in row_chunks(n, m * X.itemsize, budget):
        if buffer is None:
            buffer = np.empty((rows.stop - rows.start, m), X.dtype)
        block = buffer[: rows.stop - rows.start]
        fill(X[rows], block)
        _finish(block, cost, parameter)
        np.matmul(block, V, out=product[rows])
        if squared is not None:
            block *= block
            squared[rows] = block @ weights
    return product, squared


def _finish(block: np.ndarray, cost: str, parameter: float) -> None:
    """Turn sums of differences into costs, in place."""
    if cost == "euclidean":
        np.sqrt(block, out=block)
    elif cost == "power":
        np.power(block, parameter / 2, out=block)
    elif cost == "gaussian":
        block *= -0.5 / parameter**2
        np.expm1(block, out=block)
        block *= -2
