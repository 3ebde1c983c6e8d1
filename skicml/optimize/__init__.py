"""Optimization of expensive functions and of hyperparameters."""

from skicml.optimize._minimize import minimize_turbo_enn
from skicml.optimize._turbo_enn import TuRBOENN

__all__ = ["TuRBOENN", "minimize_turbo_enn"]
