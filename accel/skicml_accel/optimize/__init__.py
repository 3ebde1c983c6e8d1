"""Kernels of black-box optimization."""

from skicml_accel.optimize._pareto import pareto_fronts_2d
from skicml_accel.optimize._raasp import raasp

__all__ = ["pareto_fronts_2d", "raasp"]
