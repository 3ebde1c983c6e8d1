"""One stream of random numbers per fit."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

#: Constraint of a ``random_state`` parameter, for ``_parameter_constraints``.
RANDOM_STATE = ["random_state", np.random.Generator]


def check_generator(
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> np.random.Generator:
    """Turn the ``random_state`` of an estimator into a generator.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None, default=None
        An int gives the same stream at every call. A Generator is returned as it is,
        so its stream goes on. A RandomState, or for None the global one of
        ``np.random``, is advanced by one draw, which seeds the stream; ``np.random.seed``
        therefore makes None repeatable.

    Returns
    -------
    numpy.random.Generator
        The stream.

    Raises
    ------
    ValueError
        If ``random_state`` is a negative int or of another kind.

    Examples
    --------
    >>> from skicml.base import check_generator
    >>> check_generator(0).integers(10) == check_generator(0).integers(10)
    np.True_
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise ValueError(
                f"random_state must not be negative, got {random_state}. "
                "Pass an int from 0 upwards."
            )
        return np.random.default_rng(int(random_state))
    words = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(words)
