"""Warnings that name the line of the user."""

from __future__ import annotations

import sys
import warnings

#: Packages between the user's call and the place that warns.
_OURS = ("skicml", "skicml_accel", "sklearn", "joblib", "contextlib")


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package and scikit-learn that led here.

    Decorators, pipelines and searches put a number of frames in between that differs
    from call to call, so that no fixed ``stacklevel`` finds it.

    Parameters
    ----------
    message : str
        What is the matter, and the remedy.
    category : type of Warning, default=UserWarning
        Its class.

    Examples
    --------
    >>> import warnings
    >>> from skicml.base import warn_user
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("Rows are constant. Remove them.")
    >>> str(caught[0].message)
    'Rows are constant. Remove them.'
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in _OURS
