"""The trust region of TuRBO as a small automaton (arXiv 1910.01739)."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class TrustRegion:
    """Side length of a cube that grows after successes and shrinks after failures.

    Parameters
    ----------
    n_dims : int
        Free coordinates of the unit cube.
    length : float
        Side length, in units of the unit cube.
    length_min, length_max : float
        It ends below the first and never exceeds the second.
    """

    n_dims: int
    length: float
    length_min: float
    length_max: float
    successes: int = 0
    failures: int = 0

    #: Improvements in a row after which the region doubles.
    success_tolerance = 3

    def update(self, improved: bool, batch_size: int) -> None:
        """Count one round of ``batch_size`` evaluations.

        Parameters
        ----------
        improved : bool
            Whether the round bettered the incumbent by more than a thousandth of the
            range of the values seen before it.
        batch_size : int
            Evaluations of the round; the more, the fewer failures are tolerated.
        """
        if improved:
            self.successes, self.failures = self.successes + 1, 0
        else:
            self.successes, self.failures = 0, self.failures + 1
        if self.successes >= self.success_tolerance:
            self.length = min(2 * self.length, self.length_max)
            self.successes = 0
        if self.failures >= self.failure_tolerance(batch_size):
            self.length /= 2
            self.failures = 0

    def failure_tolerance(self, batch_size: int) -> int:
        """Return the rounds without improvement after which the region halves."""
        return math.ceil(max(4 / batch_size, self.n_dims / batch_size))

    @property
    def collapsed(self) -> bool:
        """Whether the region is too small to go on."""
        return self.length < self.length_min
