"""How the benchmarks measure: CPU time, interleaved, and what a quick run leaves out."""

from __future__ import annotations

import importlib
import math
import os
import time
from collections.abc import Callable
from typing import Any

#: Settings of every timed class, see ``doc/dev/benchmarks.rst``.
REPEAT = (3, 10, 20.0)
TIMEOUT = 120
#: Comparisons of quality run whole optimizations, and may take this long.
LONG_TIMEOUT = 3600


def only_in_full_run() -> None:
    """Skip what takes minutes unless ``SKICML_BENCH=full`` asks for it."""
    if not is_full_run():
        raise NotImplementedError("takes minutes; run with SKICML_BENCH=full")


def is_full_run() -> bool:
    """Tell whether ``SKICML_BENCH=full`` is set."""
    return os.environ.get("SKICML_BENCH") == "full"


def peer(module: str) -> Any:
    """Import a package of the bench extra; without it the benchmark is skipped."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise NotImplementedError(
            f"needs {module}; install it with: pip install 'skicml[bench]'"
        ) from error


def cpu_times(
    *actions: Callable[[], Any], repeats: int = 7, warm_up: int = 1
) -> list[float]:
    """Least CPU seconds of each action; they take turns, so that load hits all alike.

    Parameters
    ----------
    *actions : callable
        Called without arguments.
    repeats : int, default=7
        Timed calls of each.
    warm_up : int, default=1
        Calls of each before that: compilation, lazy imports, caches.

    Returns
    -------
    list of float
        One for each action.
    """
    for _ in range(warm_up):
        for action in actions:
            action()
    best = [math.inf] * len(actions)
    for _ in range(repeats):
        for place, action in enumerate(actions):
            start = time.process_time()
            action()
            best[place] = min(best[place], time.process_time() - start)
    return best


def ratio(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    repeats: int = 7,
    warm_up: int = 1,
) -> float:
    """Least CPU time of ours over that of theirs."""
    first, second = cpu_times(ours, theirs, repeats=repeats, warm_up=warm_up)
    return first / second


def require(quality_is_equal: bool, what: str) -> None:
    """Refuse to compare the speed of unequal results."""
    if not quality_is_equal:
        raise RuntimeError(f"results differ, so their times do not compare: {what}")
