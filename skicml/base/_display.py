"""Axes to draw on."""

from __future__ import annotations

from typing import Any

from skicml.base._optional import optional_import


def check_axes(ax: Any = None, *, needed_by: str) -> Any:
    """Return the axes to draw on, new ones in a new figure if none are given.

    Parameters
    ----------
    ax : matplotlib.axes.Axes or None, default=None
        Axes of the caller.
    needed_by : str
        Who draws, for the error message.

    Returns
    -------
    matplotlib.axes.Axes
        ``ax`` itself, or the axes of a new figure.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    pyplot = optional_import("matplotlib.pyplot", needed_by=needed_by, extra="plot")
    if ax is not None:
        return ax
    _, new_ax = pyplot.subplots(layout="constrained")
    return new_ax
