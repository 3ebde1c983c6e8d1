"""Array kernels behind skicml; they know nothing of estimators."""

from skicml_accel._registry import OPS, use_implementation

__all__ = ["OPS", "use_implementation"]
