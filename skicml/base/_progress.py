"""A progress bar for loops that the user waits for."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

logger = logging.getLogger("skicml")


class Progress:
    """Progress bar on the standard error stream, silent unless enabled.

    Parameters
    ----------
    total : int or None
        Steps to come; None if unknown.
    description : str
        What is going on, in a few words.
    enabled : bool, default=True
        False shows nothing, and imports nothing; usually ``verbose >= 1``.

    See Also
    --------
    SkicmlEstimator : Its ``set_callbacks`` takes scikit-learn's callbacks.

    Examples
    --------
    >>> from skicml.base import Progress
    >>> with Progress(2, "searching", enabled=False) as bar:
    ...     bar.advance(best=0.71)
    ...     bar.advance(best=0.93)
    """

    def __init__(
        self, total: int | None, description: str, enabled: bool = True
    ) -> None:
        self.total = total
        self.description = description
        self.enabled = enabled
        self._bar: Any = None

    def __enter__(self) -> Self:
        """Show the bar."""
        if self.enabled:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("{task.fields[shown]}"),
                # a console of its own, for another bar may be live in this process
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task(
                self.description, total=self.total, shown=""
            )
        return self

    def advance(self, n: int = 1, **fields: Any) -> None:
        """Count steps that are done, and show values beside the bar.

        Parameters
        ----------
        n : int, default=1
            Steps done since the last call.
        **fields : object
            Values to show, such as ``best=0.93``; floats with four digits.
        """
        if self._bar is not None:
            shown = "  ".join(
                f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                for name, value in fields.items()
            )
            self._bar.update(self._task, advance=n, shown=shown)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the bar as it stands; exceptions pass."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextlib.contextmanager
def audible(enabled: bool) -> Iterator[None]:
    """Show the lines of the logger ``skicml`` on the standard error stream.

    Parameters
    ----------
    enabled : bool
        Usually ``verbose >= 1``. Nothing is added where the user has set up logging.

    Examples
    --------
    >>> import logging
    >>> from skicml.base import audible
    >>> with audible(False):
    ...     logging.getLogger("skicml").info("nobody hears this")
    """
    if not enabled or (logger.isEnabledFor(logging.INFO) and logger.hasHandlers()):
        yield
        return
    handler = logging.StreamHandler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
