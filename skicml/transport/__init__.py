"""Optimal transport between spaces that share no coordinates."""

from skicml.transport._egw_loss import egw_loss, pairwise_egw
from skicml.transport._gw_flows import gw_barycenter, gw_gradient_flow
from skicml.transport._lifted_gw import LiftedGWAligner

__all__ = [
    "LiftedGWAligner",
    "egw_loss",
    "gw_barycenter",
    "gw_gradient_flow",
    "pairwise_egw",
]
