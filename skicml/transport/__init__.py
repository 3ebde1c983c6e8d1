"""Optimal transport between spaces that share no coordinates."""

from skicml.transport._egw_loss import egw_loss, pairwise_egw
from skicml.transport._gw_flows import gw_barycenter, gw_gradient_flow
from skicml.transport._lifted_gw import LiftedGWAligner
from skicml.transport._srgw import MaskCollapseWarning, SRGWMatcher
from skicml.transport._srgw_distance import pairwise_srgw, srgw_distance

__all__ = [
    "LiftedGWAligner",
    "MaskCollapseWarning",
    "SRGWMatcher",
    "egw_loss",
    "gw_barycenter",
    "gw_gradient_flow",
    "pairwise_egw",
    "pairwise_srgw",
    "srgw_distance",
]
