"""The table of a run, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skicml.demo._parts import Row, format_ratio, format_score, format_seconds

COLUMNS = (
    "method",
    "data",
    "measure",
    "our score",
    "peer's score",
    "peer",
    "our time",
    "peer's time",
    "ratio",
)

_NARROW = 100

#: What stands below the table, for readers who were not there.
CAPTION = (
    "Scores on the same splits, or after equally many evaluations from the same seeds "
    "(best of so many, mean of so many runs); the better one is bold. Times are CPU in "
    "one thread, the least of the repeats; the ratio is our time over the peer's, so "
    "below 1 we are faster. Peers: KNeighborsRegressor, GaussianProcessRegressor and "
    "RandomizedSearchCV of scikit-learn, differential_evolution of SciPy, "
    "entropic_gromov_wasserstein and gromov_wasserstein of POT."
)


def cells(row: Row) -> tuple[str, ...]:
    """Write a row in the order of ``COLUMNS``.

    Parameters
    ----------
    row : Row
        What was measured.

    Returns
    -------
    tuple of str
    """
    return (
        row.method,
        row.data,
        f"{row.measure} {row.arrow}".strip(),
        format_score(row.score),
        format_score(row.peer_score),
        row.peer,
        format_seconds(row.seconds),
        format_seconds(row.peer_seconds),
        format_ratio(row.ratio),
    )


def make_table(rows: Sequence[Row], width: int) -> Any:
    """Lay out rows for the terminal.

    Parameters
    ----------
    rows : sequence of Row
        What was measured; rows of a method stand together.
    width : int
        Columns of the terminal; below 100 measure and peer share a column.

    Returns
    -------
    rich.table.Table
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    narrow = width < _NARROW
    table = Table(
        box=box.SIMPLE_HEAD,
        caption=CAPTION,
        caption_justify="left",
        collapse_padding=True,
        pad_edge=False,
        show_edge=False,
    )
    # a method has a line of its own, which saves the width of a column
    for column in COLUMNS[1:]:
        if is_number(column):
            # numbers stay whole, and their titles take two lines
            title = column.replace(" ", "\n")
            table.add_column(title, justify="right", no_wrap=True)
        elif column == "data":
            table.add_column("method\ndata", overflow="fold")
        elif not narrow or column == "measure":
            table.add_column("measure\nvs peer" if narrow else column, overflow="fold")
    for place, row in enumerate(rows):
        if place == 0 or rows[place - 1].method != row.method:
            if place:
                table.add_section()
            table.add_row(Text(row.method, "bold", no_wrap=True))
        shown = dict(zip(COLUMNS, map(Text, cells(row)), strict=True))
        del shown["method"]
        shown["data"].pad_left(0 if narrow else 2)
        if row.lead:
            shown["our score" if row.lead > 0 else "peer's score"].stylize("bold")
        if narrow:
            shown["measure"].append(f"\nvs {shown.pop('peer').plain}")
        table.add_row(*shown.values())
    return table


def is_number(column: str) -> bool:
    """Say whether a column of the table holds numbers.

    Parameters
    ----------
    column : str
        One of ``COLUMNS``.

    Returns
    -------
    bool
    """
    return column.endswith(("score", "time", "ratio"))
