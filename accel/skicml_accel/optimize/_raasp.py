"""Candidates of a trust region that differ from its center in a few coordinates."""

from __future__ import annotations

import functools

import numpy as np
from scipy.stats import qmc

from skicml_accel._registry import op
from skicml_accel._types import Array

SOBOL_BITS = 30


@op
def raasp(
    center: Array,
    lower: Array,
    upper: Array,
    *,
    n_candidates: int,
    n_perturb: int = 20,
    rng: np.random.Generator,
) -> Array:
    """Redraw a random few coordinates of a point inside a box (RAASP sampling).

    Each candidate copies the center; every coordinate is redrawn with probability
    ``min(n_perturb / d, 1)``, at least one in each candidate. The new values are
    points of a randomly shifted Sobol sequence in the box.

    Parameters
    ----------
    center, lower, upper : ndarray of shape (d,)
        The point and its box, float64.
    n_candidates : int
        How many candidates to draw, m.
    n_perturb : int, default=20
        Expected number of coordinates to redraw.
    rng : numpy.random.Generator
        Source of all randomness; drawn on the host so that devices agree.

    Returns
    -------
    ndarray of shape (m, d)
        Candidates inside the box wherever they differ from the center.

    Notes
    -----
    O(m d) time and memory. Source: Rashidi, Johnstonbaugh and Gao, "Cylindrical
    Thompson Sampling for High-Dimensional Bayesian Optimization", AISTATS 2024.
    """
    d = center.shape[0]
    candidates = lower + (upper - lower) * _low_discrepancy(n_candidates, d, rng)
    if n_perturb < d:
        kept = rng.random((n_candidates, d)) >= n_perturb / d
        untouched = np.flatnonzero(kept.all(axis=1))
        kept[untouched, rng.integers(d, size=untouched.size)] = False
        candidates = np.where(kept, center, candidates)
    return candidates


def _low_discrepancy(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Points of the unit cube: Sobol, randomized, and uniform beyond its largest d.

    A random shift flips bits of each coordinate and the columns are dealt out anew,
    since some pairs of them fill their square badly, which must not hit the same
    coordinates in every call. Unlike a full scramble this costs no more than the
    points themselves.
    """
    if d > qmc.Sobol.MAXDIM:
        return rng.random((m, d))
    shift = rng.integers(2**SOBOL_BITS, size=d, dtype=np.uint32)
    points = _sobol((m - 1).bit_length(), d)[:m, rng.permutation(d)]
    return ((points ^ shift) + 0.5) * 2.0**-SOBOL_BITS


@functools.lru_cache(maxsize=8)
def _sobol(log2_m: int, d: int) -> np.ndarray:
    """First 2**log2_m points of the Sobol sequence as whole numbers."""
    sampler = qmc.Sobol(d, scramble=False, bits=SOBOL_BITS)
    return (sampler.random_base2(log2_m) * 2**SOBOL_BITS).astype(np.uint32)
