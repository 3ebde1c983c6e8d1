"""The console command ``skicml``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skicml._methods import METHODS, Method, find_method

if TYPE_CHECKING:
    from rich.console import Console

    from skicml.demo import Report, Setup

_ABOUT = "Methods of machine-learning papers as scikit-learn estimators."

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # a plain traceback says all there is to say
    pretty_exceptions_enable=False,
)

#: Width of the tables where the output is a file or a pipe.
_WIDE = 160

#: Seconds of CPU after which ``bench`` does not repeat a competitor.
_BUDGET = 2.0

#: Exit codes: as of the shell for Ctrl-C, as of the parser for a wrong argument.
_FAILED, _MISUSED, _INTERRUPTED = 1, 2, 130

_Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="A method of `skicml list`, or the beginning of its name; all if left out.",
        show_default=False,
    ),
]


@app.callback(invoke_without_command=True, help=_ABOUT)
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.")
    ] = False,
) -> None:
    """Answer options that belong to no command.

    Parameters
    ----------
    version : bool, default=False
        Show the version and leave.
    """
    if version:
        from skicml import __version__

        typer.echo(f"skicml {__version__}")
        raise typer.Exit


@app.command("list")
def list_methods() -> None:
    """List the methods, the papers they come from, and which are ready."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("method", "what for", "paper (ICML 2026)", "arXiv", "status"):
        table.add_column(column, no_wrap=column in ("method", "arXiv", "status"))
    for method in METHODS:
        style = "" if method.ready else "dim"
        table.add_row(
            Text(method.name, "bold" if method.ready else style),
            Text(method.task, style),
            Text(method.paper, style),
            Text(method.arxiv or "-", style),
            Text("ready", "green") if method.ready else Text("planned", style),
        )
    _stdout().print(table)


@app.command(
    help="Show what the methods do on real data, beside what one would use otherwise."
)
def demo(
    name: _Name = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            file_okay=False,
            help="Folder for the pictures and index.html.",
        ),
    ] = Path("demo_output"),
    full: Annotated[
        bool, typer.Option("--full", help="More data and more runs; minutes longer.")
    ] = False,
) -> None:
    """Run demonstrations, print their table, and write their pictures and a page.

    Parameters
    ----------
    name : str or None, default=None
        A method, or the beginning of its name; None means all that are ready.
    output : Path, default="demo_output"
        Folder for the pictures and ``index.html``.
    full : bool, default=False
        Whether to take more data and more runs.
    """
    methods = _chosen(name)
    console = _stdout()
    can_draw = find_spec("matplotlib") is not None
    if not can_draw:
        console.print(
            "Pictures are left out, because matplotlib is not installed. Add it with: "
            "pip install 'skicml[plot]'",
            markup=False,
        )
    from skicml.demo import Setup

    setup = Setup(size="full" if full else "normal", pictures=can_draw)
    report = _run(methods, setup, console, output)
    if output.joinpath("index.html").exists():
        console.print(
            f"Table and {len(report.pictures)} pictures: "
            f"{output.joinpath('index.html').resolve()}",
            markup=False,
            soft_wrap=True,
        )
    _leave(report)


@app.command(
    help="Measure methods and their peers side by side, repeatedly, without pictures."
)
def bench(
    name: _Name = None,
    repeats: Annotated[
        int,
        typer.Option(
            min=1,
            help="Times that each competitor runs, the least of which counts; one that "
            f"has taken {_BUDGET:g} s is not repeated.",
        ),
    ] = 3,
) -> None:
    """Print the table of the demonstrations, with times of repeated runs.

    Parameters
    ----------
    name : str or None, default=None
        A method, or the beginning of its name; None means all that are ready.
    repeats : int, default=3
        Times that each competitor runs at most.
    """
    methods = _chosen(name)
    from skicml.demo import Setup

    setup = Setup(pictures=False, repeats=repeats, budget=_BUDGET)
    _leave(_run(methods, setup, _stdout(), None))


@app.command()
def doctor() -> None:
    """Show versions, devices, threads, and which kernels can run on this machine."""
    from skicml.demo._doctor import examine

    console = _stdout()
    with console.status("looking around"):
        tables = examine()
    console.print(*tables)


def _run(
    methods: list[Method], setup: Setup, console: Console, output: Path | None
) -> Report:
    """Run demonstrations and print what they measured."""
    from skicml.demo import run
    from skicml.demo._page import notices
    from skicml.demo._table import make_table

    report = run(methods, setup, output=output)
    if report.rows:
        console.print(make_table(report.rows, console.width))
    console.print(
        f"{report.machine}. It took {report.seconds:.0f} s.",
        markup=False,
        highlight=False,
    )
    for error in report.failures.values():
        from rich.traceback import Traceback

        console.print(Traceback.from_exception(type(error), error, error.__traceback__))
    for sentence in notices(report):
        console.print(sentence, markup=False)
    return report


def _leave(report: Report) -> None:
    """End with the exit code that says how it went."""
    if report.interrupted:
        raise typer.Exit(_INTERRUPTED)
    if report.failures:
        raise typer.Exit(_FAILED)


def _chosen(name: str | None) -> list[Method]:
    """Methods to run, or the end of the program with one sentence."""
    if name is None:
        return [method for method in METHODS if method.ready and method.demo]
    try:
        return [find_method(name)]
    except ValueError as error:
        typer.echo(error, err=True)
        raise typer.Exit(_MISUSED) from None


def _stdout() -> Console:
    """Console for results, wide where there is no terminal to tell its width."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)
