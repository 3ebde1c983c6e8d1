"""Hold the benchmarks against ``targets.toml`` and tell what falls short.

``python compare_targets.py`` measures every target in a process of its own;
``--results FILE`` reads them from a run that asv has saved. Times are the least of a few
repeats where they are measured here, and asv's median where they are read.
"""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import os
import sys
import tomllib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
REPEATS = 5


def read_targets(path: Path = HERE / "targets.toml") -> list[dict[str, Any]]:
    """Tables of the targets file."""
    return tomllib.loads(path.read_text())["target"]


def find(name: str) -> tuple[Any, Callable[..., Any]]:
    """Benchmark by asv's name: the object with its setup, and what to call.

    Parameters
    ----------
    name : str
        ``module.function`` or ``module.Class.method``.
    """
    module_name, *path = name.split(".")
    owner: Any = importlib.import_module(f"benchmarks.{module_name}")
    if len(path) == 2:
        owner = getattr(owner, path[0])()
    return owner, getattr(owner, path[-1])


def compute_cache(name: str) -> Any:
    """Compute what all benchmarks of a class share."""
    return find(name)[0].setup_cache()


def measure(name: str, params: list[Any], cache: list[Any], repeats: int) -> float:
    """Run one benchmark here and now: seconds, bytes or its own value."""
    from asv_runner.benchmarks._maxrss import get_maxrss

    owner, call = find(name)
    setup = getattr(owner, "setup", lambda *_: None)
    if not isinstance(owner, type(sys)):
        params = [*cache, *params]
    what = call.__name__.split("_")[0]
    if what == "time":
        clock, times = owner.timer, []
        for _ in range(repeats):
            setup(*params)
            start = clock()
            call(*params)
            times.append(clock() - start)
        return min(times)
    setup(*params)
    value = call(*params)
    return float(get_maxrss() if what == "peakmem" else value)


class Measured:
    """Values measured now, each in a fresh process."""

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats
        self._caches: dict[str, list[Any]] = {}

    def __call__(self, name: str, params: list[Any]) -> float:
        """Measure one benchmark; what it skips raises NotImplementedError."""
        owner_name = name.rpartition(".")[0]
        if owner_name not in self._caches:
            cached = hasattr(find(name)[0], "setup_cache")
            self._caches[owner_name] = [_apart(compute_cache, name)] if cached else []
        return _apart(measure, name, params, self._caches[owner_name], self._repeats)


def _apart(function: Callable[..., Any], *args: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *args).result()


class Saved:
    """Values of a run that asv has saved."""

    def __init__(self, path: Path) -> None:
        from asv.results import Results

        self._results = Results.load(str(path))

    def __call__(self, name: str, params: list[Any]) -> float:
        """Read one value; NotImplementedError if the run has none."""
        if name not in self._results.get_all_result_keys():
            raise NotImplementedError("not in this run")
        choices = self._results.get_result_params(name)
        values = self._results.get_result_value(name, choices)
        wanted = tuple(repr(value) for value in params)
        for place, choice in enumerate(itertools.product(*choices)):
            if choice == wanted and values[place] is not None:
                return float(values[place])
        raise NotImplementedError("skipped or failed in this run")


def verdict(target: dict[str, Any], value: float) -> str:
    """Compare a value with its target."""
    low, high = (
        target.get("at_least", -float("inf")),
        target.get("at_most", float("inf")),
    )
    if not low <= value <= high:
        return "SHORT"
    goal = target.get("goal")
    if goal is None:
        return "met"
    reached = value >= goal if "at_least" in target else value <= goal
    return "goal" if reached else "met, not the goal"


def main(
    results: Annotated[
        Path | None, typer.Option(help="A results file of asv to read.")
    ] = None,
    full: Annotated[
        bool, typer.Option(help="Measure what takes minutes, too.")
    ] = False,
    only: Annotated[str, typer.Option(help="Part of the names to measure.")] = "",
    repeats: Annotated[int, typer.Option(help="Repeats of each timing.")] = REPEATS,
) -> None:
    """Hold the benchmarks against targets.toml; exit with 1 if one falls short."""
    if full:
        os.environ["SKICML_BENCH"] = "full"
    source = Measured(repeats) if results is None else Saved(results)
    table = Table("benchmark", "params", "value", "bounds", "goal", "verdict")
    short = False
    for target in read_targets():
        if only not in target["benchmark"]:
            continue
        params = target.get("params", [])
        try:
            if target.get("full", False) and not full and results is None:
                raise NotImplementedError("only with --full")
            value = source(target["benchmark"], params)
            if "above" in target:
                value -= source(target["above"], [])
            result = verdict(target, value)
            shown = f"{value:.4g}"
        except NotImplementedError as error:
            shown, result = "-", str(error)
        short = short or result == "SHORT"
        bounds = [str(target.get(key, "")) for key in ("at_least", "at_most")]
        table.add_row(
            target["benchmark"],
            ", ".join(map(str, params)),
            shown,
            " .. ".join(bounds),
            str(target.get("goal", "")),
            result,
        )
    Console().print(table)
    raise typer.Exit(int(short))


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    typer.run(main)
