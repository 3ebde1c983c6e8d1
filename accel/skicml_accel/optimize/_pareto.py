"""Non-dominated sorting of candidates by two scores."""

from __future__ import annotations

import numpy as np

from skicml_accel._registry import op
from skicml_accel._types import Array


@op
def pareto_fronts_2d(mu: Array, sigma: Array, *, q: int | None = None) -> Array:
    """Give each point its front among points that are better in one of two scores.

    A point is dominated if another is at least as large in both scores and larger in
    one. Front 0 is not dominated; front f + 1 is what is not dominated once fronts
    0 to f are taken away. Equal points share a front.

    Parameters
    ----------
    mu, sigma : ndarray of shape (m,)
        Scores, both to be maximized; finite.
    q : int or None, default=None
        Stop when the fronts numbered so far hold at least q points; the others get
        the next number. None numbers all.

    Returns
    -------
    ndarray of shape (m,)
        Front of each point, int64.

    Notes
    -----
    O(m log m) to sort, then O(m) for each front. Plain NumPy.
    """
    mu, sigma = np.asarray(mu), np.asarray(sigma)
    front = np.zeros(mu.shape[0], np.int64)
    left = np.lexsort((-sigma, -mu))
    number, placed = 0, 0
    wanted = left.size if q is None else min(q, left.size)
    while placed < wanted:
        m, s = mu[left], sigma[left]
        best_before = np.concatenate(([-np.inf], np.maximum.accumulate(s)[:-1]))
        free = s > best_before
        # an equal point stands right behind its twin and shares its fate
        new = np.concatenate(([True], (m[1:] != m[:-1]) | (s[1:] != s[:-1])))
        free = free[new][np.cumsum(new) - 1]
        front[left[free]] = number
        placed += int(free.sum())
        left = left[~free]
        number += 1
    front[left] = number
    return front
