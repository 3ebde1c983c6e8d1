"""What a demonstration is given and what it yields."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Size = Literal["quick", "normal", "full"]


@dataclass(frozen=True)
class Row:
    """One line of the table: one measure of one method and one peer on one data set.

    Both are measured on the same splits, or with equally many evaluations.

    Parameters
    ----------
    method : str
        What is ours.
    data : str
        Data set with its size.
    measure : str
        What the scores measure.
    peer : str
        What it is compared with.
    score, peer_score : float or None
        The scores; None where only times are compared.
    seconds, peer_seconds : float
        CPU time.
    aim : float, default=inf
        Score that would be best: inf or -inf where larger or smaller is better.
    """

    method: str
    data: str
    measure: str
    peer: str
    score: float | None
    peer_score: float | None
    seconds: float
    peer_seconds: float
    aim: float = math.inf

    @property
    def ratio(self) -> float:
        """Our time in units of the peer's."""
        return self.seconds / self.peer_seconds if self.peer_seconds else math.inf

    @property
    def arrow(self) -> str:
        """Where a better score lies."""
        if self.score is None:
            return ""
        if math.isinf(self.aim):
            return "↑" if self.aim > 0 else "↓"
        return f"→ {self.aim:g}"

    @property
    def lead(self) -> int:
        """1 if our score is the better one as displayed, -1 if the peer's is, else 0."""
        if self.score is None or self.peer_score is None:
            return 0
        ours, theirs = (float(format_score(s)) for s in (self.score, self.peer_score))
        if math.isinf(self.aim):
            gap = (ours - theirs) * math.copysign(1, self.aim)
        else:
            gap = abs(theirs - self.aim) - abs(ours - self.aim)
        return (gap > 0) - (gap < 0)


@dataclass(frozen=True)
class Picture:
    """A figure and what to see in it.

    Parameters
    ----------
    name : str
        File name without its ending.
    title : str
        The question that it answers.
    sentence : str
        The answer, from the numbers of this run.
    figure : matplotlib.figure.Figure
        What was drawn.
    """

    name: str
    title: str
    sentence: str
    figure: Any


@dataclass(frozen=True)
class Missing:
    """A package that is not installed, with what is left out for it.

    Parameters
    ----------
    package : str
        Its name for pip.
    what : str
        What it would have brought.
    """

    package: str
    what: str


@dataclass(frozen=True)
class Setup:
    """How much to run, and how to tell how far it is.

    Parameters
    ----------
    size : {"quick", "normal", "full"}, default="normal"
        "quick" is for tests: it runs everything on very little data.
    pictures : bool, default=True
        Whether to draw.
    repeats : int, default=3
        How often to time each competitor at most; the least time counts.
    budget : float, default=0.5
        Seconds of CPU after which a competitor is not repeated.
    expect : callable
        Takes the number of steps to come.
    advance : callable
        Takes what was done in a step.
    """

    size: Size = "normal"
    pictures: bool = True
    repeats: int = 3
    budget: float = 0.5
    expect: Callable[[int], object] = lambda n: None
    advance: Callable[[str], object] = lambda text: None

    def pick(self, quick: Any, normal: Any, full: Any) -> Any:
        """Choose by the size."""
        return {"quick": quick, "normal": normal, "full": full}[self.size]


def format_score(score: float | None) -> str:
    """Write a score with three decimals, fewer where it is large.

    Parameters
    ----------
    score : float or None
        None where there is none.

    Returns
    -------
    str

    Examples
    --------
    >>> from skicml.demo._parts import format_score
    >>> format_score(0.43944), format_score(151.26), format_score(None)
    ('0.439', '151.3', '-')
    """
    if score is None:
        return "-"
    return f"{score:.3f}" if abs(score) < 100 else f"{score:.1f}"


def format_seconds(seconds: float) -> str:
    """Write a time with two or three digits and its unit.

    Parameters
    ----------
    seconds : float
        The time.

    Returns
    -------
    str

    Examples
    --------
    >>> from skicml.demo._parts import format_seconds
    >>> format_seconds(0.0321), format_seconds(1.5), format_seconds(83.2)
    ('32 ms', '1.5 s', '83 s')
    """
    unit, value = ("ms", 1000 * seconds) if seconds < 0.0995 else ("s", seconds)
    if value >= 9.95:
        return f"{value:.0f} {unit}"
    return f"{value:.1f} {unit}" if value >= 0.995 else f"{value:.2f} {unit}"


def format_ratio(ratio: float) -> str:
    """Write a ratio with two digits and without an exponent.

    Parameters
    ----------
    ratio : float
        Not negative.

    Returns
    -------
    str

    Examples
    --------
    >>> from skicml.demo._parts import format_ratio
    >>> format_ratio(0.01234), format_ratio(1.37), format_ratio(87.3)
    ('0.012', '1.4', '87')
    """
    if ratio >= 9.95 or not math.isfinite(ratio):
        return f"{ratio:.0f}"
    decimals = max(1, 1 - math.floor(math.log10(ratio))) if ratio > 0 else 1
    return f"{ratio:.{decimals}f}"
