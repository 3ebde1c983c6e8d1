"""Times that can be compared: one thread, interleaved, the least of some repeats."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from skicml.demo._parts import Setup

T = TypeVar("T")

_THREADS = "SKICML_NUM_THREADS"


class Timed(NamedTuple, Generic[T]):
    """Result of a call and the time that it took.

    Parameters
    ----------
    result : object
        What the first call returned.
    seconds : float
        Least CPU time of the calls.
    """

    result: T
    seconds: float


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Hold this process to one thread, ours and those of the libraries.

    CPU time is then the time on an idle machine, so that what else is running does
    not blur a comparison.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        with threadpool_limits(1):
            yield
    finally:
        if before is None:
            del os.environ[_THREADS]
        else:
            os.environ[_THREADS] = before


def race(setup: Setup, runners: Mapping[str, Callable[[], T]]) -> dict[str, Timed[T]]:
    """Run each competitor in turn, and again until its budget is spent.

    Parameters
    ----------
    setup : Setup
        Repeats and budget. One step is reported for each competitor.
    runners : mapping of str to callable
        Calls that do the same work each time.

    Returns
    -------
    dict of str to Timed
        First result and least CPU time of each.
    """
    first: dict[str, T] = {}
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for repeat in range(setup.repeats):
        for name, runner in runners.items():
            if repeat and sum(seconds[name]) > setup.budget:
                continue
            start = time.process_time()
            result = runner()
            seconds[name].append(time.process_time() - start)
            if not repeat:
                first[name] = result
                setup.advance(name)
    return {name: Timed(first[name], min(seconds[name])) for name in runners}
