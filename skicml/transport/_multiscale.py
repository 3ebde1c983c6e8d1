"""A coarse problem between cluster centers, whose solution starts the fine one."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skicml.base import to_host, to_like
from skicml.transport._egw_solver import Coupling, Spaces, State
from skicml_accel._types import Array

#: Epsilon of the coarse problem, as a share of what moving a row to its center may
#: change the cost: below, the plan between centers is sharper than they are dense, and
#: its potentials mislead the fine problem.
CELL = 0.1
#: Lloyd iterations; the centers need not be optimal.
LLOYD_ITERATIONS = 10


def coarsen(
    spaces: Spaces, ratio: float, rng: np.random.Generator
) -> tuple[Spaces, tuple[np.ndarray, np.ndarray]]:
    """Replace both spaces by the centers of k-means clusters of their coordinates.

    Parameters
    ----------
    spaces : Spaces
        The fine problem.
    ratio : float
        Clusters per row.
    rng : Generator
        Draws the first centers.

    Returns
    -------
    coarse : Spaces
        Weighted means of coordinates and of squared distances to the center, in the
        dtype of ``spaces``; the constant is that of the fine problem.
    labels : pair of int arrays of shapes (n,) and (m,)
        Cluster of each row.
    """
    U, s, a, rows = _cluster(spaces.U, spaces.s, spaces.a, ratio, rng)
    W, t, b, columns = _cluster(spaces.W, spaces.t, spaces.b, ratio, rng)
    coarse = Spaces(U, s, a, W, t, b, spaces.signs, spaces.constant)
    return coarse, (rows, columns)


def coarse_epsilon(
    eps: float, fine: Spaces, coarse: Spaces, labels: tuple[np.ndarray, np.ndarray]
) -> float:
    """Epsilon at which the centers stand for their clusters."""
    spread = [
        float(np.average(np.sum((points - centers[label]) ** 2, axis=1), weights=w))
        for points, centers, label, w in (
            (to_host(fine.U), to_host(coarse.U), labels[0], to_host(fine.a)),
            (to_host(fine.W), to_host(coarse.W), labels[1], to_host(fine.b)),
        )
    ]
    return max(eps, CELL * 16 * (spread[0] * spread[1]) ** 0.5)


def _cluster(
    U: Array, s: Array, a: Array, ratio: float, rng: np.random.Generator
) -> tuple[Array, Array, Array, np.ndarray]:
    from sklearn.cluster import KMeans

    points, radius, weights = (to_host(x) for x in (U, s, a))
    model = KMeans(
        n_clusters=max(2, round(ratio * points.shape[0])),
        init="random",
        n_init=1,
        max_iter=LLOYD_ITERATIONS,
        algorithm="lloyd",
        random_state=int(rng.integers(2**31)),
    )
    labels = _quietly(model, np.asarray(points, np.float32), weights)
    mass = np.bincount(labels, weights)
    # clusters without mass would be rows of weight zero
    full = np.flatnonzero(mass > 0)
    labels = np.searchsorted(full, labels).clip(max=full.size - 1)
    mass = mass[full]
    # row-wise means without the one-hot matrix
    sums = np.stack(
        [np.bincount(labels, weights * column, full.size) for column in points.T],
        axis=1,
    )
    radii = np.bincount(labels, weights * radius, full.size) / mass
    return to_like(sums / mass[:, None], U), to_like(radii, s), to_like(mass, a), labels


def _quietly(model: Any, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Fit k-means; fewer distinct rows than clusters are no reason to warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(points, sample_weight=np.maximum(weights, 1e-30)).labels_


def prolong(
    state: State,
    coarse: Spaces,
    labels: tuple[np.ndarray, np.ndarray],
    fine: Spaces,
) -> tuple[Array, Array]:
    """Potentials of the fine rows against the coarse ones.

    With the ``gamma`` that the coarse potentials belong to: any other would leave
    marginals that the fine iteration has to repair.
    """
    mixed = Coupling(
        Spaces(
            fine.U,
            fine.s,
            fine.a,
            coarse.W,
            coarse.t,
            coarse.b,
            fine.signs,
            fine.constant,
        ),
        state.gamma,
        state.eps,
    )
    guess = to_like(to_host(state.p)[labels[0]], fine.s)
    p, _ = mixed.iterate(guess, state.q, False)
    swapped = Coupling(
        Spaces(
            fine.W,
            fine.t,
            fine.b,
            coarse.U,
            coarse.s,
            coarse.a,
            fine.signs.T,
            fine.constant,
        ),
        state.gamma.T,
        state.eps,
    )
    guess = to_like(to_host(state.q)[labels[1]], fine.t)
    q, _ = swapped.iterate(guess, state.p, False)
    return p, q
