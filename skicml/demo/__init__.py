"""What the methods do on real data, beside what one would use otherwise.

One module for each method. Its function ``show(setup)`` yields :class:`Row`,
:class:`Picture` and :class:`Missing` as it goes, so that an interruption keeps what is
finished; ``skicml._methods`` lists it, and the rest of this package runs it, prints the
table and writes the page.
"""

from skicml.demo._parts import Missing, Picture, Row, Setup
from skicml.demo._run import Report, run

__all__ = ["Missing", "Picture", "Report", "Row", "Setup", "run"]
