"""Kernels of optimal transport."""

from skicml_accel.transport._cost import (
    cost_block,
    cost_block_matvec,
    cost_block_matvec_estimate_bytes,
)
from skicml_accel.transport._masked_gw import (
    mask_update,
    masked_gw_estimate_bytes,
    masked_gw_grad,
    pair_residual,
)
from skicml_accel.transport._sinkhorn import (
    plan_argmax,
    plan_contract,
    plan_contract_estimate_bytes,
    sinkhorn_pass,
    sinkhorn_pass_estimate_bytes,
)

__all__ = [
    "cost_block",
    "cost_block_matvec",
    "cost_block_matvec_estimate_bytes",
    "mask_update",
    "masked_gw_estimate_bytes",
    "masked_gw_grad",
    "pair_residual",
    "plan_argmax",
    "plan_contract",
    "plan_contract_estimate_bytes",
    "sinkhorn_pass",
    "sinkhorn_pass_estimate_bytes",
]
