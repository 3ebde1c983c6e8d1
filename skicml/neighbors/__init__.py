"""Estimators that predict from nearest neighbors."""

from skicml.neighbors._enn import ENNRegressor

__all__ = ["ENNRegressor"]
