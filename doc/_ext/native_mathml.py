"""Math as MathML, which browsers draw by themselves: no script, no font, no network."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _translate(node: nodes.Element, as_block: bool) -> str:
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("math: %s in %s", error, node.astext(), location=node)
        return ""


def _visit_inline(self: Any, node: nodes.Element) -> None:
    self.body.append(_translate(node, as_block=False))
    raise nodes.SkipNode


def _visit_block(self: Any, node: nodes.Element) -> None:
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(_translate(node, as_block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer; ``html_math_renderer`` chooses it."""
    app.add_html_math_renderer(
        "native_mathml", (_visit_inline, None), (_visit_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
