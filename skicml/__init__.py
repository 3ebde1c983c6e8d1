"""Methods of machine-learning papers as scikit-learn estimators.

Sub-packages and estimators are imported on first use, so that ``import skicml`` stays
cheap.
"""

import importlib
from typing import Any

from skicml.__about__ import __version__

_PACKAGES = ("base", "neighbors", "optimize", "transport")

_HOMES = {
    "ENNRegressor": "skicml.neighbors",
    "LiftedGWAligner": "skicml.transport",
    "SRGWMatcher": "skicml.transport",
    "TuRBOENN": "skicml.optimize",
    "TuRBOENNSearchCV": "skicml.optimize",
    "minimize_turbo_enn": "skicml.optimize",
}

__all__ = ["__version__", *_PACKAGES, *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"skicml.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        # the next access finds it without this function
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
