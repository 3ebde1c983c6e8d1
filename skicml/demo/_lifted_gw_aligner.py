"""LiftedGWAligner beside the solvers of POT, on the same clouds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from skicml.demo._clock import Timed, race
from skicml.demo._parts import Picture, Row, Setup, format_seconds
from skicml.demo._style import GRAY, OURS, PEER, new_figure
from skicml.transport import LiftedGWAligner

NAME, POT = "LiftedGWAligner", "entropic solver of POT"


class Pair(NamedTuple):
    """A cloud and a turned, shuffled and noisy copy of it.

    Parameters
    ----------
    data : str
        Data set with its size, for the table.
    X, Y : ndarray of shape (n, d)
        The clouds.
    truth : ndarray of shape (n,)
        Row of Y that each row of X became.
    epsilon : float
        Entropic regularization of both solvers, in squared units of the distance.
    n_components : int
        Axes of the lift.
    """

    data: str
    X: np.ndarray
    Y: np.ndarray
    truth: np.ndarray
    epsilon: float
    n_components: int


def show(setup: Setup) -> Iterator[Row | Picture]:
    """Compare matches and time.

    Parameters
    ----------
    setup : Setup
        How much to run.

    Yields
    ------
    Row or Picture
        What is finished.
    """
    n_digits = setup.pick(80, 300, 600)
    n_exact = setup.pick([60, 90], [250, 500], [250, 500, 1000])
    n_many = setup.pick([120], [1000, 2000, 4000], [2000, 4000, 8000, 16_000])
    setup.expect(2 + 2 * len(n_exact) + len(n_many))
    # the compiler of the kernels is loaded before the clock starts
    _ours(_sheet(600))

    pair = _digits(n_digits)
    runs = _race(setup, pair)
    yield _row(pair, runs)
    seconds: dict[str, dict[int, float]] = {NAME: {}, POT: {}}
    for n in n_exact:
        pair = _sheet(n)
        runs = _race(setup, pair)
        for name, timed in runs.items():
            seconds[name][n] = timed.seconds
        if n == n_exact[-1]:
            yield _row(pair, runs)
            if setup.pictures:
                yield _match(pair, runs[NAME].result)
    for n in n_many:
        pair = _sheet(n)
        seconds[NAME][n] = race(setup, {NAME: partial(_ours, pair)})[NAME].seconds
    if setup.pictures:
        yield _growth(seconds)


def _digits(n: int) -> Pair:
    """Images of digits, as points in the space of their pixels."""
    X = load_digits().data[:n] / 16
    Y, truth = _turned(X, noise=0.05)
    mean_square = (np.mean(cdist(X, X) ** 2) + np.mean(cdist(Y, Y) ** 2)) / 2
    return Pair(f"digits, {n:,} x 64, turned", X, Y, truth, 5e-3 * mean_square, 30)


def _sheet(n: int) -> Pair:
    """Sheet that is rolled up to a widening spiral, in the unit ball."""
    rng = np.random.default_rng(0)
    t, across = rng.random(n), 0.6 * rng.random(n)
    X = np.column_stack([(1 + t) * np.cos(5 * t), (1 + t) * np.sin(5 * t), across])
    X -= X.mean(axis=0)
    X /= np.linalg.norm(X, axis=1).max()
    Y, truth = _turned(X, noise=0.005)
    return Pair(f"rolled sheet, {n:,} x 3, turned", X, Y, truth, 1e-2, 20)


def _turned(X: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.normal(size=(X.shape[1], X.shape[1])))[0]
    order = rng.permutation(X.shape[0])
    Y = (X + noise * rng.normal(size=X.shape)) @ Q
    return Y[order], np.argsort(order)


def _race(setup: Setup, pair: Pair) -> dict[str, Timed[np.ndarray]]:
    runners: dict[str, Callable[[], np.ndarray]] = {
        NAME: partial(_ours, pair),
        POT: partial(_pot, pair),
    }
    return race(setup, runners)


def _ours(pair: Pair) -> np.ndarray:
    """Row of Y that each row of X is matched with."""
    aligner = LiftedGWAligner(
        cost_scale="none",
        epsilon=pair.epsilon,
        n_components=min(pair.n_components, pair.X.shape[0] - 1),
        solver="cnt",
        random_state=0,
    )
    return aligner.fit(pair.X, pair.Y).matching_


def _pot(pair: Pair) -> np.ndarray:
    import ot

    with warnings.catch_warnings():
        # its inner iteration says that it stops early, and its plans are good
        warnings.simplefilter("ignore")
        plan = ot.gromov.entropic_gromov_wasserstein(
            cdist(pair.X, pair.X),
            cdist(pair.Y, pair.Y),
            epsilon=pair.epsilon,
            tol=1e-5,
            max_iter=100,
        )
    return plan.argmax(axis=1)


def _row(pair: Pair, runs: dict[str, Timed[np.ndarray]]) -> Row:
    # how far from the true place, since close neighbors may well be confused
    error = {
        name: float(_errors(pair, timed.result).mean()) for name, timed in runs.items()
    }
    return Row(
        method=NAME,
        data=pair.data,
        measure="mean distance to the true partner",
        peer=POT,
        score=error[NAME],
        peer_score=error[POT],
        seconds=runs[NAME].seconds,
        peer_seconds=runs[POT].seconds,
        aim=-np.inf,
    )


def _errors(pair: Pair, matching: np.ndarray) -> np.ndarray:
    return np.linalg.norm(pair.Y[matching] - pair.Y[pair.truth], axis=1)


def _match(pair: Pair, matching: np.ndarray) -> Picture:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(11.2, 3.9), layout="constrained")
    height = pair.X[:, 0]
    panels: list[tuple[np.ndarray, dict[str, Any], str]] = [
        (pair.X, {"c": height, "cmap": "viridis"}, "a cloud"),
        (pair.Y, {"color": GRAY}, "turned and shuffled"),
        (pair.Y[matching], {"c": height, "cmap": "viridis"}, "matched"),
    ]
    for number, (points, look, title) in enumerate(panels, start=1):
        ax = figure.add_subplot(1, 3, number, projection="3d")
        ax.scatter(*points.T, s=6, **look)
        ax.set_title(title, fontsize="medium")
        ax.set(xticklabels=[], yticklabels=[], zticklabels=[], aspect="equal")
        ax.set(xlabel="x", ylabel="y", zlabel="z")
        ax.view_init(elev=50, azim=-70)
    error = float(np.median(_errors(pair, matching)))
    return Picture(
        "lifted_gw_match",
        "Which point became which?",
        f"Points on the right have the color of those they are matched with on the "
        f"left, by distances alone. Half of the {len(pair.X):,} are within {error:.3f} "
        "of their true partner, in a ball of radius 1.",
        figure,
    )


def _growth(seconds: dict[str, dict[int, float]]) -> Picture:
    figure, (ax,) = new_figure()
    for name, color, marker in ((NAME, OURS, "o"), (POT, PEER, "^")):
        n, value = zip(*sorted(seconds[name].items()), strict=True)
        ax.loglog(n, value, marker=marker, color=color, label=name)
    sizes = sorted(seconds[NAME])
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.minorticks_off()
    ax.set(xlabel="rows of each cloud", ylabel="CPU time (s)")
    ax.legend(frameon=False)
    both, most = max(seconds[POT]), max(seconds[NAME])
    return Picture(
        "lifted_gw_time",
        "What do more rows cost?",
        f"At {both:,} rows the {POT} takes {format_seconds(seconds[POT][both])} and "
        f"{NAME} {format_seconds(seconds[NAME][both])}; at {most:,} rows {NAME} takes "
        f"{format_seconds(seconds[NAME][most])}, without a matrix of distances.",
        figure,
    )
