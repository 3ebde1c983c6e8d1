"""The page that shows a run: its table, and its pictures with a sentence each."""

from __future__ import annotations

from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from skicml.demo._parts import Picture, Row
from skicml.demo._table import CAPTION, COLUMNS, cells, is_number

if TYPE_CHECKING:
    from skicml.demo._run import Report

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>skicml: the methods at work</title>
<style>
  :root { color-scheme: light; --ink: #1c1c1c; --soft: #5c5c5c; --line: #dcdcdc; }
  body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: #fff;
         max-width: 76rem; margin: 2rem auto; padding: 0 1.25rem; }
  h1 { font-size: 1.7rem; margin-bottom: .2rem; }
  h2 { font-size: 1.15rem; margin: 0 0 .5rem; }
  p, figcaption { max-width: 62rem; }
  .soft, caption, figcaption { color: var(--soft); }
  .notice { border-left: 4px solid #d55e00; padding-left: .75rem; }
  .scroll { overflow-x: auto; }
  table { border-collapse: collapse; width: 100%; font-size: .9rem;
          font-variant-numeric: tabular-nums; }
  caption { caption-side: bottom; text-align: left; padding-top: .6rem; }
  th, td { padding: .35rem .6rem; text-align: left; vertical-align: top; }
  th { border-bottom: 2px solid var(--ink); }
  td { border-bottom: 1px solid var(--line); }
  .number { text-align: right; }
  td:not(:nth-child(3)) { white-space: nowrap; }
  .first td { border-top: 2px solid var(--soft); }
  .pictures { display: grid; gap: 1.5rem; margin-top: 2rem;
              grid-template-columns: repeat(auto-fit, minmax(min(100%, 32rem), 1fr)); }
  figure { margin: 0; border: 1px solid var(--line); border-radius: 8px;
           padding: 1rem; }
  img { max-width: 100%; height: auto; display: block; margin: auto; }
  figcaption { margin-top: .6rem; }
</style>
</head>
<body>
<h1>skicml: the methods at work</h1>
<p class="soft">$machine. The run took $seconds s.</p>
$notices
<div class="scroll">
$table
</div>
<div class="pictures">
$pictures
</div>
</body>
</html>
""")

_FIGURE = Template("""\
<figure>
<h2>$title</h2>
<img src="$name.png" alt="$title $sentence">
<figcaption>$sentence</figcaption>
</figure>""")


def write_page(report: Report, folder: Path) -> Path:
    """Write ``index.html`` beside the pictures.

    Parameters
    ----------
    report : Report
        What to show; its pictures are in the folder already.
    folder : Path
        Where to write.

    Returns
    -------
    Path
        The page.
    """
    page = folder / "index.html"
    page.write_text(
        _PAGE.substitute(
            machine=escape(report.machine),
            seconds=f"{report.seconds:.0f}",
            notices="\n".join(
                f'<p class="notice">{escape(text)}</p>' for text in notices(report)
            ),
            table=_table(report.rows),
            pictures="\n".join(map(_figure, report.pictures)),
        ),
        encoding="utf-8",
    )
    return page


def notices(report: Report) -> list[str]:
    """Say what the run left out, and why.

    Parameters
    ----------
    report : Report
        The run.

    Returns
    -------
    list of str
        One sentence or two each.
    """
    said = [
        f"{name} broke off with {type(error).__name__}: {error}"
        for name, error in report.failures.items()
    ]
    if report.interrupted:
        said.append("The run was interrupted; what was finished by then is shown.")
    said += [
        f"Left out: {missing.what}, because {missing.package} is not installed. "
        f"Add it with: pip install {missing.package}"
        for missing in report.missing
    ]
    return said


def _figure(picture: Picture) -> str:
    return _FIGURE.substitute(
        name=escape(picture.name),
        title=escape(picture.title),
        sentence=escape(picture.sentence),
    )


def _table(rows: list[Row]) -> str:
    if not rows:
        return ""
    numeric = [is_number(name) for name in COLUMNS]
    head = "".join(
        f'<th scope="col"{_class(number)}>{escape(name)}</th>'
        for name, number in zip(COLUMNS, numeric, strict=True)
    )
    lines = []
    for place, row in enumerate(rows):
        shown = [escape(cell) for cell in cells(row)]
        if row.lead:
            winner = 3 if row.lead > 0 else 4
            shown[winner] = f"<b>{shown[winner]}</b>"
        line = "".join(
            f"<td{_class(number)}>{cell}</td>"
            for cell, number in zip(shown, numeric, strict=True)
        )
        first = place and rows[place - 1].method != row.method
        lines.append(f'<tr class="first">{line}</tr>' if first else f"<tr>{line}</tr>")
    return (
        f"<table><caption>{escape(CAPTION)}</caption>"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(lines)
        + "\n</tbody></table>"
    )


def _class(numeric: bool) -> str:
    return ' class="number"' if numeric else ""
