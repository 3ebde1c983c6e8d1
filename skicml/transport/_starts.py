"""Where the alternating minimization begins."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from skicml.base import to_host, to_like
from skicml.transport._egw_solver import Spaces
from skicml_accel._namespaces import namespace_of
from skicml_accel._types import Array

#: An isometry maps each axis to plus or minus itself; so many axes are tried.
SIGNED_AXES = 3

INITS = ("auto", "random", "sign", "zero")


def starts(
    init: Any, spaces: Spaces, n_init: int, rng: np.random.Generator
) -> Iterator[Array]:
    """Yield the starts that ``init`` and ``n_init`` ask for, in order.

    Parameters
    ----------
    init : {"auto", "zero", "random", "sign"} or int array of shape (n,)
        As in :class:`LiftedGWAligner`.
    spaces : Spaces
        What is matched.
    n_init : int
        How many for "auto" and "random"; "zero" and a matching are one, "sign" all
        combinations.
    rng : Generator
        Draws those of "random".

    Yields
    ------
    array of shape (D, E)
        A start of gamma.
    """
    if not isinstance(init, str):
        yield of_matching(init, spaces)
    elif init == "zero":
        yield zero(spaces)
    elif init == "sign":
        yield from signs(spaces)
    elif init == "random":
        for _ in range(n_init):
            yield random(spaces, rng)
    else:
        draws = (random(spaces, rng) for _ in itertools.count())
        all_starts = itertools.chain([zero(spaces)], signs(spaces), draws)
        yield from itertools.islice(all_starts, n_init)


def zero(spaces: Spaces) -> Array:
    """Match by the distance to the center, as the independent plan does."""
    xp = namespace_of(spaces.U)
    return xp.zeros_like(spaces.signs)


def signs(spaces: Spaces) -> Iterator[Array]:
    """Match axes to plus or minus the axes of the same rank."""
    xp = namespace_of(spaces.U)
    n_axes = min(SIGNED_AXES, *spaces.signs.shape)
    scale = np.sqrt(_moments(xp, spaces.U, spaces.a) * _moments(xp, spaces.W, spaces.b))
    for pattern in itertools.product((1.0, -1.0), repeat=n_axes):
        gamma = np.zeros(spaces.signs.shape)
        np.fill_diagonal(gamma[:n_axes, :n_axes], np.multiply(pattern, scale[:n_axes]))
        yield to_like(gamma, spaces.U)


def _moments(xp: Any, U: Array, a: Array) -> np.ndarray:
    moments = to_host(xp.sum(a[:, None] * U * U, axis=0))
    return np.pad(moments, (0, max(0, SIGNED_AXES - moments.size)))[:SIGNED_AXES]


def random(spaces: Spaces, rng: np.random.Generator) -> Array:
    """Draw a matrix of about the size that a plan can give."""
    size = (float(spaces.a @ spaces.s) * float(spaces.b @ spaces.t)) ** 0.5
    return to_like(size * (rng.random(spaces.signs.shape) - 0.5), spaces.U)


def of_matching(matching: Any, spaces: Spaces) -> Array:
    """Couple each row of the source to one of the target."""
    matching = np.asarray(to_host(matching))
    n, m = spaces.U.shape[0], spaces.W.shape[0]
    if matching.shape != (n,) or matching.dtype.kind not in "iu":
        raise ValueError(
            f"init must be one of {', '.join(map(repr, INITS))} or an integer array of "
            f"shape ({n},) with the target row of each source row, got an array of "
            f"dtype {matching.dtype} and shape {matching.shape}."
        )
    if matching.min() < 0 or matching.max() >= m:
        raise ValueError(
            f"init matches rows {matching.min()} to {matching.max()} of the target, "
            f"which has rows 0 to {m - 1}."
        )
    xp = namespace_of(spaces.U)
    index = xp.asarray(matching, dtype=xp.int64, device=spaces.U.device)
    image = xp.take(spaces.W, index, axis=0)
    return spaces.signs * (spaces.U.T @ (spaces.a[:, None] * image))
