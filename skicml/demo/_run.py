"""Run demonstrations one after another and keep what they yield."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skicml._methods import Method
from skicml.demo._clock import one_thread
from skicml.demo._machine import describe_machine
from skicml.demo._page import write_page
from skicml.demo._parts import Missing, Picture, Row, Setup

logger = logging.getLogger("skicml")

_DOTS_PER_INCH = 144


@dataclass
class Report:
    """What a run has brought.

    Parameters
    ----------
    rows : list of Row
        Lines of the table.
    pictures : list of Picture
        What was drawn, each also a file ``<name>.png`` of the output folder.
    missing : list of Missing
        Packages that are not installed, and what was left out for it.
    failures : dict of str to Exception
        Methods that broke off, with the reason.
    interrupted : bool
        Whether the user ended the run.
    seconds : float
        How long it took by the clock on the wall.
    machine : str
        Where and with what it ran.
    """

    rows: list[Row] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)
    interrupted: bool = False
    seconds: float = 0.0
    machine: str = ""


def run(
    methods: Sequence[Method],
    setup: Setup,
    *,
    output: Path | None = None,
    console: Any = None,
) -> Report:
    """Show methods, with a progress bar for each.

    Parameters
    ----------
    methods : sequence of Method
        What to show, in this order.
    setup : Setup
        How much to run.
    output : Path or None, default=None
        Folder for the pictures and ``index.html``, made if it is not there; None
        writes nothing.
    console : rich.console.Console or None, default=None
        Where to show the progress; None means the standard error stream.

    Returns
    -------
    Report
        Also after Ctrl-C, with all that was finished by then.
    """
    from rich import progress
    from rich.console import Console

    report = Report(machine=describe_machine())
    start = time.monotonic()
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    with progress.Progress(
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[done]}"),
        console=console or Console(stderr=True),
        # each refresh is CPU time of this process too
        refresh_per_second=4,
    ) as bars:
        tasks = [
            bars.add_task(m.name, total=None, start=False, done="") for m in methods
        ]
        for method, task in zip(methods, tasks, strict=True):
            bars.start_task(task)
            try:
                _show(method, _watched(setup, bars, task), report, output)
            except KeyboardInterrupt:
                report.interrupted = True
            # one method that breaks off must not cost the others; the caller shows it
            except Exception as error:
                logger.debug("%s failed", method.name, exc_info=True)
                report.failures[method.name] = error
            finally:
                bars.stop_task(task)
                report.seconds = time.monotonic() - start
            if output is not None:
                write_page(report, output)
            if report.interrupted:
                break
            bars.update(task, done="failed" if method.name in report.failures else "")
    return report


def _watched(setup: Setup, bars: Any, task: Any) -> Setup:
    """Let a bar follow the steps of a demonstration."""
    return replace(
        setup,
        expect=lambda n: bars.update(task, total=n),
        advance=lambda text: bars.update(task, advance=1, done=text),
    )


def _show(method: Method, setup: Setup, report: Report, output: Path | None) -> None:
    # imported before the threads are counted: libraries loaded later have their own
    module = importlib.import_module(f"skicml.demo.{method.demo}")
    with one_thread():
        for item in module.show(setup):
            if isinstance(item, Row):
                report.rows.append(item)
            elif isinstance(item, Missing):
                if item not in report.missing:
                    report.missing.append(item)
            elif output is not None:
                item.figure.savefig(output / f"{item.name}.png", dpi=_DOTS_PER_INCH)
                report.pictures.append(item)
