"""What every estimator of skicml is built from."""

from skicml.base._device import (
    is_device_array,
    move_to,
    resolve_device,
    to_device,
    to_host,
    to_like,
)
from skicml.base._display import check_axes
from skicml.base._estimator import SkicmlEstimator, validated_fit
from skicml.base._iterate import Step, iterate
from skicml.base._optional import optional_import
from skicml.base._progress import Progress, audible
from skicml.base._random import RANDOM_STATE, check_generator
from skicml.base._validation import check_same_home, check_weights, check_X, check_X_y
from skicml.base._warn import warn_user

__all__ = [
    "RANDOM_STATE",
    "Progress",
    "SkicmlEstimator",
    "Step",
    "audible",
    "check_X",
    "check_X_y",
    "check_axes",
    "check_generator",
    "check_same_home",
    "check_weights",
    "is_device_array",
    "iterate",
    "move_to",
    "optional_import",
    "resolve_device",
    "to_device",
    "to_host",
    "to_like",
    "validated_fit",
    "warn_user",
]
