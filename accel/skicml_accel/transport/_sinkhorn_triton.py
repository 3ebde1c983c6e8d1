r"""Sinkhorn passes and plan products on a CUDA device: no matrix in memory.

A program holds a tile of rows and streams over the columns, as attention kernels do: it
keeps the largest exponent so far, the sum of exponentials relative to it and, for
products, their weighted sum of values. A pass launches it twice with the roles of rows
and columns exchanged. That takes twice the exponentials of a fused pass and no atomic
additions, so that results are deterministic.

Contract: torch tensors on one CUDA device, float32, any strides, up to 64 factors and
64 values. 4 n m d flops and 2 n m exponentials a pass, 2 n m (d + k) and n m for a
product; products in single precision, not TF32, which would change exponents. Reads
the columns n / 32 times, of which the L2 cache serves most. Temporaries: copies of the
factors with columns padded to a power of two, and one vector a side.
"""

# Types of compiled functions are the compiler's business.
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from skicml_accel._types import Array
from skicml_accel.transport._sinkhorn import check_factors, log_weights

NUM_WARPS = 4


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
    del chunk_bytes  # there are no temporaries to bound
    left, right = padded(left), padded(right)
    rows = -_stream(left, right, q + log_weights(b), None)
    known = p if jacobi else rows
    return rows, q + _stream(right, left, known + log_weights(a), None)


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
    check_factors("plan_contract", left, right, q=bias, p=guess)
    del chunk_bytes, guess  # no temporaries; the largest exponent is found on the way
    found = _stream(padded(left), padded(right), bias, padded(values))
    return found[:, : values.shape[1]]


def padded(table: Array) -> Array:
    """Give a table a power of two of columns, at least 16, with zeros, contiguous."""
    width = max(16, triton.next_power_of_2(table.shape[1]))
    return torch.nn.functional.pad(table, (0, width - table.shape[1])).contiguous()


def tile(depth: int, averages: bool) -> int:
    """Rows and columns of a tile that fits into the registers."""
    return 64 if depth <= 32 and not averages else 32


def _stream(left: Array, right: Array, bias: Array, values: Array | None) -> Array:
    """Log-sum-exp of each row (n,), or the mean of ``values`` under its softmax."""
    n, depth = left.shape
    out = left.new_empty(n if values is None else (n, values.shape[1]))
    if n == 0:
        return out
    block = tile(depth, values is not None)
    _stream_kernel[(triton.cdiv(n, block),)](
        left,
        right,
        bias.contiguous(),
        right if values is None else values,
        out,
        n,
        right.shape[0],
        DEPTH=depth,
        WIDTH=16 if values is None else values.shape[1],
        AVERAGES=values is not None,
        BLOCK_M=block,
        BLOCK_N=block,
        num_warps=NUM_WARPS,
    )
    return out


@triton.jit
def _stream_kernel(
    left,
    right,
    bias,
    values,
    out,
    n,
    m,
    DEPTH: tl.constexpr,
    WIDTH: tl.constexpr,
    AVERAGES: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    factors = tl.arange(0, DEPTH)
    columns = tl.arange(0, WIDTH)
    # 64-bit offsets: tables may have more than 2**31 entries
    at = rows.to(tl.int64)[:, None]
    inside = (rows < n)[:, None]
    x = tl.load(left + at * DEPTH + factors[None, :], mask=inside, other=0.0)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    mean = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    for start in range(0, m, BLOCK_N):
        other = start + tl.arange(0, BLOCK_N)
        there = other < m
        place = other.to(tl.int64)
        y = tl.load(
            right + place[None, :] * DEPTH + factors[:, None],
            mask=there[None, :],
            other=0.0,
        )
        shift = tl.load(bias + other, mask=there, other=float("-inf"))
        z = tl.dot(x, y, input_precision="ieee") + shift[None, :]
        higher = tl.maximum(top, tl.max(z, axis=1))
        # while only columns without weight were seen there is nothing to rescale
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weight = tl.exp(z - base[:, None])
        decay = tl.exp(top - base)
        total = total * decay + tl.sum(weight, axis=1)
        if AVERAGES:
            v = tl.load(
                values + place[:, None] * WIDTH + columns[None, :],
                mask=there[:, None],
                other=0.0,
            )
            mean = mean * decay[:, None] + tl.dot(weight, v, input_precision="ieee")
        top = higher
    if AVERAGES:
        tl.store(
            out + at * WIDTH + columns[None, :], mean / total[:, None], mask=inside
        )
    else:
        tl.store(out + rows, tl.log(total) + top, mask=rows < n)
