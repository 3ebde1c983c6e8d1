"""A number for each pair of spaces."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from skicml.base import check_generator


def with_seed(params: dict[str, Any]) -> dict[str, Any]:
    """Replace a shared generator by a number, which is the same for each pair."""
    seed = params.get("random_state")
    if seed is None or isinstance(seed, Integral):
        return params
    drawn = check_generator(seed).integers(2**31)
    return {**params, "random_state": int(drawn)}


def symmetric_table(
    spaces: Sequence[Any],
    value: Callable[[Any, Any], float],
    *,
    diagonal: bool,
    n_jobs: int | None,
) -> np.ndarray:
    """Symmetric matrix of a function of two spaces.

    Parameters
    ----------
    spaces : sequence
        What is compared.
    value : callable
        ``value(space, other)``; can be pickled.
    diagonal : bool
        Whether it is asked for a space with itself, where the matrix is else zero.
    n_jobs : int or None
        Processes over pairs, as in joblib.

    Returns
    -------
    float64 array of shape (n_spaces, n_spaces)
        The values.

    Raises
    ------
    ValueError
        If there are no spaces.
    """
    n = len(spaces)
    if n == 0:
        raise ValueError("There are no spaces to compare. Pass one at least.")
    pairs = [
        pair
        for pair in itertools.combinations_with_replacement(range(n), 2)
        if diagonal or pair[0] != pair[1]
    ]
    found = Parallel(n_jobs=n_jobs)(
        delayed(value)(spaces[i], spaces[j]) for i, j in pairs
    )
    table = np.zeros((n, n))
    for (i, j), x in zip(pairs, found, strict=True):
        table[i, j] = table[j, i] = x
    return table
