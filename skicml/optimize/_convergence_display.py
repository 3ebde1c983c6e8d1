"""Picture of a search: every evaluation, and the best so far."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from skicml.base import check_axes

# blue and gray of a palette that color-blind readers can tell apart
_BEST_COLOR = "#0072B2"
_POINT_COLOR = "#7F7F7F"


class ConvergenceDisplay:
    """Best score so far against the number of evaluations.

    A curve that has been flat for long says that the budget is large enough, or that
    the space misses the good settings; one that still rises asks for more evaluations.

    Parameters
    ----------
    scores : array-like of shape (n_evaluations,)
        Scores in the order of evaluation, larger is better; NaN marks a failure.
    score_name : str, default="score"
        Label of the vertical axis.

    Attributes
    ----------
    best : float64 array of shape (n_evaluations,)
        Running maximum of the scores; NaN before the first success.
    ax_, figure_ : matplotlib.axes.Axes, matplotlib.figure.Figure
        What was drawn on; set by :meth:`plot`.

    See Also
    --------
    TuRBOENNSearchCV.plot_convergence : Draws the search at hand.

    Examples
    --------
    >>> from skicml.optimize import ConvergenceDisplay
    >>> display = ConvergenceDisplay([0.6, 0.5, float("nan"), 0.8])
    >>> display.best
    array([0.6, 0.6, 0.6, 0.8])
    >>> ax = display.plot().ax_
    """

    def __init__(self, scores: Any, *, score_name: str = "score") -> None:
        self.scores = np.asarray(scores, dtype=np.float64)
        self.score_name = score_name
        self.best = np.fmax.accumulate(self.scores)

    @classmethod
    def from_estimator(cls, search: Any, *, ax: Any = None) -> Self:
        """Draw a search that was fitted or interrupted.

        Parameters
        ----------
        search : estimator with ``cv_results_``
            Such as :class:`~skicml.optimize.TuRBOENNSearchCV` or scikit-learn's
            RandomizedSearchCV. With several metrics the one that ``refit`` names is
            drawn, else the first.
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        ValueError
            If there are no results.
        """
        results = getattr(search, "cv_results_", None)
        if results is None:
            raise ValueError(
                f"This {type(search).__name__} has no results to draw. Call fit first."
            )
        names = [key[10:] for key in results if key.startswith("mean_test_")]
        name = search.refit if search.refit in names else names[0]
        label = "mean cross-validated score" if name == "score" else f"mean {name}"
        return cls(results[f"mean_test_{name}"], score_name=label).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        ConvergenceDisplay
            Itself.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = check_axes(ax, needed_by=type(self).__name__)
        evaluation = np.arange(1, self.scores.size + 1)
        ok = np.isfinite(self.scores)
        ax.plot(
            evaluation[ok],
            self.scores[ok],
            "o",
            color=_POINT_COLOR,
            alpha=0.5,
            markersize=4,
            label="evaluation",
        )
        if not ok.all():
            ax.plot(
                evaluation[~ok],
                np.zeros(np.count_nonzero(~ok)),
                "x",
                color="black",
                # the lower edge, wherever the scores are
                transform=ax.get_xaxis_transform(),
                clip_on=False,
                label="failed",
            )
        ax.step(
            evaluation, self.best, where="post", color=_BEST_COLOR, label="best so far"
        )
        ax.set(xlabel="evaluations", ylabel=self.score_name)
        ax.legend(loc="lower right")
        self.ax_ = ax
        self.figure_ = ax.figure
        return self
