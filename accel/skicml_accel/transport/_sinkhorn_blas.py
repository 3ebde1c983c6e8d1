"""The operations of :mod:`skicml_accel.transport._sinkhorn` with NumPy alone.

Blocks of rows of the kernel come from one matrix product, with the potentials folded in
as two more columns, and stay in the cache while they are exponentiated in place, summed
along the rows, and added to the column sums by a matrix-vector product.

Contract: NumPy arrays or torch tensors on the CPU, float32 or float64, any strides.
Temporaries: a block of 1 MiB of the kernel, or one row, and copies of the factors with
two more columns. Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from skicml_accel._chunks import row_chunks
from skicml_accel._namespaces import array_kind
from skicml_accel._types import Array
from skicml_accel.transport._sinkhorn import (
    BLOCK_BYTES,
    check_factors,
    log_weights,
    logsumexp,
)

#: Bytes of a block of the kernel, which shall stay in the cache.
TILE_BYTES = 2**20


def sinkhorn_pass(
    left: Array,
    right: Array,
    p: Array,
    q: Array,
    a: Array,
    b: Array,
    *,
    jacobi: bool = False,
    chunk_bytes: int | None = None,
) -> tuple[Array, Array]:
    """See :func:`skicml_accel.transport.sinkhorn_pass`."""
    check_factors("sinkhorn_pass", left, right, p=p, q=q, a=a, b=b)
    return on_host(
        _sinkhorn_pass,
        left,
        right,
        p,
        q,
        a,
        b,
        jacobi=jacobi,
        chunk_bytes=chunk_bytes,
    )


def _sinkhorn_pass(
    left: np.ndarray,
    right: np.ndarray,
    p: np.ndarray,
    q: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    *,
    jacobi: bool,
    chunk_bytes: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    columns = np.column_stack([right, np.ones_like(q), q])
    potential = np.empty_like(p)
    total = np.zeros(right.shape[0])
    # the exponential of a bad guess leaves the range, which is looked at below
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for rows in tiles(left, right, chunk_bytes, TILE_BYTES):
            block = left[rows]
            ones = np.ones((block.shape[0], 1), block.dtype)
            kernel = np.column_stack([block, p[rows], ones]) @ columns.T
            np.exp(kernel, out=kernel)
            sums = kernel @ b
            potential[rows] = p[rows] - np.log(sums)
            bad = np.flatnonzero(~((sums > least_row(sums.dtype)) & np.isfinite(sums)))
            if bad.size:
                z = block[bad] @ right.T + q
                potential[rows.start + bad] = -logsumexp(np, z + log_weights(b), 1)
                if not jacobi:
                    kernel[bad] = np.exp(z + potential[rows.start + bad, None])
                    sums[bad] = 1
            total += (a[rows] if jacobi else a[rows] / sums) @ kernel
    settled = (total > least_column(left.dtype)) & np.isfinite(total)
    log_c = np.log(total, where=settled, out=np.zeros_like(total))
    log_c = log_c.astype(left.dtype, copy=False)
    known = p if jacobi else potential
    settle_columns(left, right, known, q, a, log_c, settled, chunk_bytes)
    return potential, log_c


def least_row(dtype: np.dtype) -> float:
    """Give the smallest sum of a row to which terms below the range add nothing."""
    return float(np.finfo(dtype).tiny) ** 0.5


def least_column(dtype: np.dtype) -> float:
    """Give the same for a column, whose terms are divided by sums of rows."""
    return least_row(dtype) / float(np.finfo(dtype).eps)


def settle_columns(
    left: np.ndarray,
    right: np.ndarray,
    p: np.ndarray,
    q: np.ndarray,
    a: np.ndarray,
    log_c: np.ndarray,
    settled: np.ndarray,
    chunk_bytes: int | None,
) -> None:
    """Sum again, shifted by their largest term, the columns that left the range.

    ``log_c`` (m,) is written where ``settled`` (m,) is False.
    """
    empty = np.flatnonzero(~settled)
    bias = p + log_weights(a)
    for part in tiles(right[empty], left, chunk_bytes, TILE_BYTES):
        at = empty[part]
        log_c[at] = q[at] + logsumexp(np, right[at] @ left.T + bias, 1)


def plan_contract(
    left: Array,
    right: Array,
    bias: Array,
    values: Array,
    *,
    guess: Array | None = None,
    chunk_bytes: int | None = None,
) -> Array:
    """See :func:`skicml_accel.transport.plan_contract`."""
    del guess  # the largest term is looked up, which costs less than the exponential
    check_factors("plan_contract", left, right, q=bias)
    return on_host(_plan_contract, left, right, bias, values, chunk_bytes=chunk_bytes)


def _plan_contract(
    left: np.ndarray,
    right: np.ndarray,
    bias: np.ndarray,
    values: np.ndarray,
    *,
    chunk_bytes: int | None,
) -> np.ndarray:
    out = np.empty((left.shape[0], values.shape[1]), left.dtype)
    for rows in tiles(left, right, chunk_bytes, BLOCK_BYTES):
        z = left[rows] @ right.T
        z += bias
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        np.divide(z @ values, z.sum(axis=1, keepdims=True), out=out[rows])
    return out


def plan_argmax(
    left: Array, right: Array, bias: Array, *, chunk_bytes: int | None = None
) -> Array:
    """See :func:`skicml_accel.transport.plan_argmax`."""
    check_factors("plan_argmax", left, right, q=bias)
    return on_host(_plan_argmax, left, right, bias, chunk_bytes=chunk_bytes)


def _plan_argmax(
    left: np.ndarray, right: np.ndarray, bias: np.ndarray, *, chunk_bytes: int | None
) -> np.ndarray:
    out = np.empty(left.shape[0], np.int64)
    for rows in tiles(left, right, chunk_bytes, BLOCK_BYTES):
        z = left[rows] @ right.T
        z += bias
        np.argmax(z, axis=1, out=out[rows])
    return out


def tiles(
    left: np.ndarray, right: np.ndarray, chunk_bytes: int | None, most: int
) -> Iterator[slice]:
    """Slices of the rows whose part of the kernel stays within ``most`` bytes."""
    budget = most if chunk_bytes is None else min(most, chunk_bytes)
    return row_chunks(left.shape[0], right.shape[0] * left.dtype.itemsize, budget)


def on_host(run: Callable[..., Any], *arrays: Array, **options: Any) -> Any:
    """Run NumPy code on torch tensors of the CPU, whose memory it shares."""
    if array_kind(arrays[0]) != "torch":
        return run(*arrays, **options)
    import torch

    host = (x if x is None else x.numpy() for x in arrays)
    found = run(*host, **options)
    if isinstance(found, tuple):
        return tuple(x if x is None else torch.from_numpy(x) for x in found)
    return torch.from_numpy(found)
