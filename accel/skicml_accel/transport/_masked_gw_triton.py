"""Masks and masked costs on a CUDA device, in one pass over the pairs.

Contract: torch tensors on one CUDA device, float32 or float64, any strides. Reads 2 n^2
numbers and writes 3 n^2, no temporaries but contiguous copies. Deterministic.
"""

# Types of compiled functions are the compiler's business.
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import torch
import triton
import triton.language as tl

from skicml_accel._types import Array
from skicml_accel.transport._masked_gw import PENALTIES, check_mask

BLOCK = 1024


def mask_update(
    residual: Array, cost: Array, *, lam: float, penalty: str = "quadratic"
) -> Array:
    """See :func:`skicml_accel.transport.mask_update`."""
    check_mask("mask_update", residual, cost, lam, penalty)
    out = torch.empty(
        (3, *residual.shape), dtype=residual.dtype, device=residual.device
    )
    size = residual.numel()
    if size:
        # a tensor: numbers given to a kernel are single precision
        price = torch.full((1,), lam, dtype=residual.dtype, device=residual.device)
        _mask_kernel[(triton.cdiv(size, BLOCK),)](
            residual.contiguous(),
            cost.contiguous(),
            price,
            *out,
            size,
            RULE=PENALTIES.index(penalty),
            BLOCK=BLOCK,
        )
    return out


@triton.jit
def _mask_kernel(
    residual,
    cost,
    price,
    mask,
    first,
    second,
    size,
    RULE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # 64-bit offsets: matrices may have more than 2**31 entries
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    r = tl.load(residual + place, mask=inside, other=0.0)
    c = tl.load(cost + place, mask=inside, other=0.0)
    lam = tl.load(price)
    if RULE == 0:
        w = tl.maximum(1.0 - r / lam, 0.0)
    elif RULE == 1:
        share = lam / (lam + r)
        w = share * share
    else:
        w = tl.where(r <= lam, 1.0, 0.0).to(r.dtype)
    tl.store(mask + place, w, mask=inside)
    tl.store(first + place, w * c, mask=inside)
    tl.store(second + place, w * c * c, mask=inside)
