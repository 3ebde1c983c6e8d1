"""Kernels of nearest-neighbor methods."""

from skicml_accel.neighbors._enn import (
    enn_loo_log_likelihood,
    enn_loo_profile,
    enn_posterior,
    enn_precision,
)
from skicml_accel.neighbors._knn import knn, knn_estimate_bytes

__all__ = [
    "enn_loo_log_likelihood",
    "enn_loo_profile",
    "enn_posterior",
    "enn_precision",
    "knn",
    "knn_estimate_bytes",
]
