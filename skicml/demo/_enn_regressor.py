"""ENNRegressor beside k nearest neighbors and a Gaussian process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from skicml.demo._clock import race
from skicml.demo._parts import Picture, Row, Setup, format_seconds
from skicml.demo._style import GRAY, OTHER, OURS, PEER, new_figure
from skicml.neighbors import ENNRegressor

ENN, KNN, GP = "ENNRegressor", "k nearest neighbors", "Gaussian process"
N_NEIGHBORS = 10
N_QUERIES = 1000
#: Nominal cover of the intervals in the calibration plot.
LEVELS = np.linspace(0.05, 0.99, 48)


def show(setup: Setup) -> Iterator[Row | Picture]:
    """Compare accuracy, calibration and time.

    Parameters
    ----------
    setup : Setup
        How much to run.

    Yields
    ------
    Row or Picture
        What is finished.
    """
    n_exact = setup.pick([60, 120], [250, 500, 1000], [250, 500, 1000, 2000])
    n_many = setup.pick([500], [3000, 10_000, 50_000], [3000, 10_000, 50_000, 200_000])
    setup.expect(3 + 3 * len(n_exact) + 2 * len(n_many))
    # the compiler of the kernels is loaded before the clock starts
    _fit_and_predict(ENNRegressor(), *_friedman(2000))

    models: dict[str, Any] = {
        ENN: ENNRegressor(N_NEIGHBORS, random_state=0),
        KNN: KNeighborsRegressor(N_NEIGHBORS),
        GP: GaussianProcessRegressor(RBF(1.0) + WhiteKernel(), normalize_y=True),
    }
    if setup.pictures:
        yield _bands()
    yield from _cross_validated(setup, models)
    yield from _timed_against_rows(setup, models, n_exact, n_many)


def _cross_validated(setup: Setup, models: dict[str, Any]) -> Iterator[Row | Picture]:
    """Predict the same five folds by all, each scaled by its training rows."""
    X, y = load_diabetes(return_X_y=True)
    if setup.size == "quick":
        X, y = X[:120], y[:120]
    runs = race(
        setup, {name: partial(_predict_folds, m, X, y) for name, m in models.items()}
    )
    predicted = {name: timed.result for name, timed in runs.items()}
    r2 = {name: r2_score(y, mean) for name, (mean, _) in predicted.items()}
    row = partial(_row, runs, f"diabetes, {X.shape[0]} x {X.shape[1]}")
    yield row("R²", KNN, r2)
    yield row("R²", GP, r2)
    both = {name: predicted[name] for name in (ENN, GP)}
    likelihood = {name: _negative_log_likelihood(y, *p) for name, p in both.items()}
    yield row("negative log likelihood, nats", GP, likelihood, aim=-np.inf)
    level = np.array([0.95])
    cover = {
        name: float(_cover(y, mean, std, level)[0])
        for name, (mean, std) in both.items()
    }
    yield row("cover of 95 % intervals", GP, cover, aim=0.95)
    if setup.pictures:
        yield _calibration(y, both, cover)


def _timed_against_rows(
    setup: Setup, models: dict[str, Any], n_exact: list[int], n_many: list[int]
) -> Iterator[Row | Picture]:
    """Fit on more and more rows and predict a thousand, with what each model gives."""
    seconds: dict[str, dict[int, float]] = {name: {} for name in models}
    for n in n_exact + n_many:
        X, y, queries, truth = _friedman(n)
        names = [ENN, KNN, GP] if n in n_exact else [ENN, KNN]
        runs = race(
            setup,
            {n: partial(_fit_and_predict, models[n], X, y, queries) for n in names},
        )
        for name in names:
            seconds[name][n] = runs[name].seconds
        if n in (n_exact[-1], n_many[-1]):
            r2 = {name: r2_score(truth, runs[name].result) for name in names}
            peer = GP if n in n_exact else KNN
            yield _row(runs, f"Friedman 1, {n:,} x 10", "R²", peer, r2)
    if setup.pictures:
        yield _growth(seconds)


def _row(
    runs: Any,
    data: str,
    measure: str,
    peer: str,
    scores: dict[str, float],
    aim: float = np.inf,
) -> Row:
    return Row(
        method=ENN,
        data=data,
        measure=measure,
        peer=peer,
        score=scores[ENN],
        peer_score=scores[peer],
        seconds=runs[ENN].seconds,
        peer_seconds=runs[peer].seconds,
        aim=aim,
    )


def _friedman(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows, their targets, queries and their targets; noise of variance 1."""
    X, y = make_friedman1(n + N_QUERIES, noise=1.0, random_state=0)
    return X[:n], y[:n], X[n:], y[n:]


def _fit(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        # a length or noise at the edge of its range does not change the comparison
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).fit(X, y)


def _fit_and_predict(
    model: Any, X: np.ndarray, y: np.ndarray, queries: np.ndarray, *_: Any
) -> np.ndarray:
    """Mean of the queries; models that have a standard deviation compute it too."""
    fitted = _fit(model, X, y)
    if isinstance(model, KNeighborsRegressor):
        return fitted.predict(queries)
    return fitted.predict(queries, return_std=True)[0]


def _predict_folds(
    model: Any, X: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every row by a model that has not seen it."""
    mean, std = np.empty_like(y), np.full_like(y, np.nan)
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        scaler = StandardScaler().fit(X[train])
        fitted = _fit(model, scaler.transform(X[train]), y[train])
        rows = scaler.transform(X[test])
        if isinstance(model, KNeighborsRegressor):
            mean[test] = fitted.predict(rows)
        else:
            mean[test], std[test] = fitted.predict(rows, return_std=True)
    return mean, std


def _negative_log_likelihood(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> float:
    return float(-norm.logpdf(y, mean, std).mean())


def _cover(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Share of the targets within the central interval of each level."""
    level_needed = 2 * norm.cdf(np.abs(y - mean) / std) - 1
    return (level_needed[:, None] <= levels).mean(axis=0)


def _calibration(
    y: np.ndarray, predicted: dict[str, Any], cover: dict[str, float]
) -> Picture:
    figure, (ax,) = new_figure()
    ax.plot([0, 100], [0, 100], "--", color=GRAY, label="exact")
    for name, color in ((ENN, OURS), (GP, PEER)):
        mean, std = predicted[name]
        observed = _cover(y, mean, std, LEVELS)
        ax.plot(100 * LEVELS, 100 * observed, color=color, label=name)
    ax.set(
        xlabel="nominal cover of the interval (%)",
        ylabel="targets inside (%)",
        xlim=(0, 100),
        ylim=(0, 100),
        aspect="equal",
    )
    ax.legend(loc="upper left", frameon=False)
    return Picture(
        "enn_calibration",
        "Do the intervals hold what they say?",
        f"Out of {y.size} patients that the model had not seen, "
        f"{100 * cover[ENN]:.1f} % lie in the 95 % interval of ENNRegressor, and "
        f"{100 * cover[GP]:.1f} % in that of the Gaussian process.",
        figure,
    )


def _growth(seconds: dict[str, dict[int, float]]) -> Picture:
    figure, (ax,) = new_figure()
    for name, color, marker in ((ENN, OURS, "o"), (KNN, OTHER, "s"), (GP, PEER, "^")):
        n, value = zip(*sorted(seconds[name].items()), strict=True)
        ax.loglog(n, value, marker=marker, color=color, label=name)
    ax.set(
        xlabel="training rows (10 columns)",
        ylabel=f"CPU time of fit and {N_QUERIES:,} predictions (s)",
    )
    ax.legend(frameon=False)
    n_exact, n_many = max(seconds[GP]), max(seconds[ENN])
    return Picture(
        "enn_time",
        "What do more rows cost?",
        f"At {n_exact:,} rows the Gaussian process takes "
        f"{format_seconds(seconds[GP][n_exact])}; ENNRegressor takes "
        f"{format_seconds(seconds[ENN][n_exact])} there, and "
        f"{format_seconds(seconds[ENN][n_many])} at {n_many:,} rows, "
        "with a standard deviation for each prediction, which k nearest neighbors "
        "alone do not give.",
        figure,
    )


def _bands() -> Picture:
    """One feature of real data, with rows left out of the middle."""
    bunch = load_diabetes(scaled=False)
    X, y = bunch.data[:, [bunch.feature_names.index("bmi")]], bunch.target
    left_out = (X[:, 0] > 27) & (X[:, 0] < 30)
    model = ENNRegressor(40, n_fit_samples=442, random_state=0)
    model.fit(X[~left_out], y[~left_out])
    grid = np.linspace(16, 44.5, 400)[:, None]
    mean, epistemic, aleatoric = model.predict(grid, return_parts=True)
    figure, (ax,) = new_figure()
    both = np.hypot(epistemic, aleatoric)
    x = grid[:, 0]
    ax.fill_between(
        x,
        mean - 1.96 * both,
        mean + 1.96 * both,
        color=OURS,
        alpha=0.15,
        linewidth=0,
        label="95 % of new patients",
    )
    ax.fill_between(
        x,
        mean - 1.96 * epistemic,
        mean + 1.96 * epistemic,
        color=OURS,
        alpha=0.4,
        linewidth=0,
        label="95 % interval of the mean",
    )
    ax.plot(X[~left_out, 0], y[~left_out], ".", color=GRAY, alpha=0.6, label="patient")
    ax.plot(X[left_out, 0], y[left_out], "x", color=PEER, ms=4, label="left out")
    ax.plot(x, mean, color=OURS, label="mean")
    ax.set(
        xlabel="body mass index (kg/m²)",
        ylabel="disease progression in a year (score)",
        xlim=(16, 44.5),
    )
    ax.legend(loc="upper left", ncols=2, frameon=False, fontsize="small")
    inside = np.abs(y - np.interp(X[:, 0], x, mean)) <= 1.96 * np.interp(
        X[:, 0], x, both
    )
    return Picture(
        "enn_bands",
        "What does the model know, and what can nobody know?",
        "The noise (light) stays as it is; the uncertainty of the mean (dark) grows "
        "where there are no patients. Of the patients with an index from 27 to 30, "
        f"whom the model has not seen, {100 * inside[left_out].mean():.0f} % lie in "
        "the light band.",
        figure,
    )
