"""The loop of an iterative method, seen by callbacks, a progress bar and a history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from skicml.base._progress import Progress

Attributes = dict[str, Any]


class Step:
    """One iteration; made by :func:`iterate`.

    Parameters
    ----------
    number : int
        Counted from 0.

    Attributes
    ----------
    values : dict of str to float
        What was logged.
    state : callable or None
        Returns the fitted attributes as they would be if the loop ended here, for
        callbacks that need a fitted estimator.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.values: dict[str, Any] = {}
        self.state: Callable[[], Attributes] | None = None

    def log(self, **values: float) -> None:
        """Record numbers of this iteration; they go to the history and the bar.

        Parameters
        ----------
        **values : float
            Such as ``objective=0.3``.
        """
        self.values.update({name: float(value) for name, value in values.items()})


class iterate:
    """Loop that tells callbacks of each iteration and lets them end it.

    Parameters
    ----------
    estimator : estimator or None
        Whose ``fit`` loops, decorated with ``validated_fit(iterative=True)``; None
        outside of an estimator.
    max_iter : int
        Greatest number of iterations.
    task : str, default="iteration"
        Name of an iteration, for callbacks and the bar.
    X, y : array-like or None, default=None
        Data of the fit, for callbacks.
    verbose : int, default=0
        From 1 on a progress bar is shown on the standard error stream.

    Attributes
    ----------
    history : dict of str to ndarray
        Each logged value over the finished iterations, float64; NaN where an iteration
        did not log it.
    n_iter : int
        Iterations that were finished.

    See Also
    --------
    Progress : The bar by itself.

    Notes
    -----
    The loop ends by itself after ``max_iter`` iterations or when a callback returns
    True. An iteration left by ``break`` or an exception counts if it has logged.

    Examples
    --------
    >>> from skicml.base import iterate
    >>> loop = iterate(None, 10)
    >>> for step in loop:
    ...     step.log(error=2.0**-step.number)
    ...     if step.number == 2:
    ...         break
    >>> loop.history
    {'error': array([1.  , 0.5 , 0.25])}
    """

    def __init__(
        self,
        estimator: Any,
        max_iter: int,
        task: str = "iteration",
        *,
        X: Any = None,
        y: Any = None,
        verbose: int = 0,
    ) -> None:
        self.max_iter = max_iter
        self.task = task
        self._estimator = estimator
        self._data = {"X": X, "y": y}
        self._verbose = verbose
        self._finished: list[dict[str, float]] = []

    @property
    def n_iter(self) -> int:
        """Iterations that were finished."""
        return len(self._finished)

    @property
    def history(self) -> dict[str, np.ndarray]:
        """Logged values over the finished iterations."""
        names = dict.fromkeys(name for values in self._finished for name in values)
        return {
            name: np.array([values.get(name, np.nan) for values in self._finished])
            for name in names
        }

    def __iter__(self) -> Iterator[Step]:
        """Yield the iterations."""
        root = getattr(self._estimator, "_callback_fit_ctx", None)
        with Progress(self.max_iter, self.task, enabled=self._verbose >= 1) as bar:
            for number in range(self.max_iter):
                context = root and root.subcontext(task_name=self.task)
                if context is not None:
                    context.call_on_fit_task_begin(
                        estimator=self._estimator, **self._data
                    )
                step = Step(number)
                try:
                    yield step
                except GeneratorExit:
                    # the loop was left: by a break behind its log, or by an exception
                    if step.values:
                        self._end(step, context, bar)
                    raise
                if self._end(step, context, bar):
                    return

    def _end(self, step: Step, context: Any, bar: Progress) -> bool:
        """Close an iteration; True if a callback wants the loop to end."""
        self._finished.append(step.values)
        bar.advance(**step.values)
        if context is None:
            return False
        return context.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=step.state,
            **self._data,
        )
