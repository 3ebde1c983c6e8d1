"""A directive that shows a Markdown file of the repository."""

from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from markdown_it import MarkdownIt
from sphinx.application import Sphinx


class MarkdownFile(Directive):
    """Render a Markdown file below its first heading, which the page replaces."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        """Return the file as one block of HTML."""
        env = self.state.document.settings.env
        _, path = env.relfn2path(self.arguments[0])
        env.note_dependency(path)
        text = Path(path).read_text(encoding="utf-8")
        if text.startswith("# "):
            text = text.partition("\n")[2]
        html = MarkdownIt("commonmark").enable("table").render(text)
        # the table style of the theme goes by this class
        html = html.replace("<table>", '<table class="table">')
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("markdown-file", MarkdownFile)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
