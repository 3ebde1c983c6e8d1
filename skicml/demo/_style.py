"""How the pictures look."""

from __future__ import annotations

from typing import Any

#: Colors of Okabe and Ito, told apart by color-blind readers; gray for what is left.
OURS, PEER, OTHER, THIRD = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GRAY = "#767676"


def new_figure(n_panels: int = 1, *, width: float = 5.6, height: float = 3.9) -> Any:
    """Make a figure with panels side by side, without a window.

    Parameters
    ----------
    n_panels : int, default=1
        How many.
    width, height : float, default=5.6, 3.9
        Of each panel, in inches.

    Returns
    -------
    figure : matplotlib.figure.Figure
    axes : list of matplotlib.axes.Axes
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_panels, height), layout="constrained")
    axes = list(figure.subplots(1, n_panels, squeeze=False)[0])
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#E4E4E4", linewidth=0.8)
        ax.set_axisbelow(True)
    return figure, axes


def draw_best_so_far(
    ax: Any, best: Any, *, color: str, label: str, style: str = "-"
) -> None:
    """Draw the mean over seeds of the best so far, and the range of the seeds.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    best : array of shape (n_seeds, n_evaluations)
        Best value of each run up to each evaluation.
    color, label, style : str
        Look and name of the line.
    """
    import numpy as np

    best = np.asarray(best)
    evaluation = np.arange(1, best.shape[1] + 1)
    ax.plot(evaluation, best.mean(axis=0), style, color=color, label=label)
    ax.fill_between(
        evaluation,
        best.min(axis=0),
        best.max(axis=0),
        color=color,
        alpha=0.15,
        linewidth=0,
    )
