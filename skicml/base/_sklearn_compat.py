"""The one file that names private or experimental parts of scikit-learn."""

from sklearn.base import _fit_context as fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.utils._array_api import _convert_to_numpy as convert_to_numpy
from sklearn.utils._array_api import _max_precision_float_dtype as widest_float
from sklearn.utils._param_validation import (
    HasMethods,
    Hidden,
    Interval,
    InvalidParameterError,
    Options,
    StrOptions,
)
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import _check_y as check_y
from sklearn.utils.validation import validate_data

__all__ = [
    "CallbackSupportMixin",
    "HasMethods",
    "Hidden",
    "Interval",
    "InvalidParameterError",
    "Options",
    "StrOptions",
    "check_sample_weight",
    "check_y",
    "convert_to_numpy",
    "fit_context",
    "validate_data",
    "widest_float",
]
