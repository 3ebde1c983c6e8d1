"""Optimization of expensive functions and of hyperparameters."""

from skicml.optimize._convergence_display import ConvergenceDisplay
from skicml.optimize._minimize import minimize_turbo_enn
from skicml.optimize._search_cv import TuRBOENNSearchCV
from skicml.optimize._turbo_enn import TuRBOENN

__all__ = ["ConvergenceDisplay", "TuRBOENN", "TuRBOENNSearchCV", "minimize_turbo_enn"]
