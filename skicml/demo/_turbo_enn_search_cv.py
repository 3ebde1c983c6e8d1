"""TuRBOENNSearchCV beside a random search and optuna, at equally many settings."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import (
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from skicml.demo._clock import Timed, race
from skicml.demo._parts import Missing, Picture, Row, Setup
from skicml.demo._style import OTHER, OURS, PEER, draw_best_so_far, new_figure
from skicml.optimize import TuRBOENNSearchCV

NAME, RANDOM, TPE = "TuRBOENNSearchCV", "random search", "TPE of optuna"


class Problem(NamedTuple):
    """An estimator to be tuned.

    Parameters
    ----------
    data : str
        Data set with its size, for the table.
    measure : str
        What the scores are.
    estimator : estimator
        What is tuned.
    space : dict of str to (float, float)
        Ranges of its parameters, all on a log scale.
    X, y : ndarray
        The data.
    splits : list of (ndarray, ndarray)
        Rows to train and to test on, the same for all searches.
    n_settings : int
        Settings that each search may evaluate.
    """

    data: str
    measure: str
    estimator: Any
    space: dict[str, tuple[float, float]]
    X: np.ndarray
    y: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]
    n_settings: int


class Search(NamedTuple):
    """What a search has tried, in the order of evaluation.

    Parameters
    ----------
    settings : list of dict
        Parameters.
    scores : ndarray of shape (n_settings,)
        Their mean scores.
    """

    settings: list[dict[str, float]]
    scores: np.ndarray


def show(setup: Setup) -> Iterator[Row | Picture | Missing]:
    """Compare the best settings of searches that see the same folds.

    Parameters
    ----------
    setup : Setup
        How much to run.

    Yields
    ------
    Row or Picture or Missing
        What is finished.
    """
    problems = [_digits(setup), *setup.pick([], [], [_diabetes()])]
    n_seeds = setup.pick(1, 5, 10)
    searches = {NAME: _ours, RANDOM: _random}
    if importlib.util.find_spec("optuna") is not None:
        searches[TPE] = _tpe
    else:
        yield Missing("optuna", f"{TPE} beside {NAME}")
    setup.expect(len(problems) * n_seeds * len(searches))
    for problem in problems:
        runs: dict[str, list[Timed[Search]]] = {name: [] for name in searches}
        for seed in range(n_seeds):
            runners = {n: partial(s, problem, seed) for n, s in searches.items()}
            for name, timed in race(setup, runners).items():
                runs[name].append(timed)
        for peer in list(searches)[1:]:
            yield _row(problem, runs, peer)
        if setup.pictures and problem is problems[0]:
            yield _curve_picture(problem, runs)
            yield _plane_picture(problem, runs)


def _digits(setup: Setup) -> Problem:
    """Support vector machine for digits, within the ranges that LIBSVM recommends."""
    n = setup.pick(200, 600, 1797)
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(y.size)[:n]
    # pixels from 0 to 1, as LIBSVM's guide supposes
    X, y = X[rows] / 16, y[rows]
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    return Problem(
        data=f"digits, {n:,} x {X.shape[1]}",
        measure="accuracy",
        estimator=SVC(),
        space={"C": (2.0**-5, 2.0**15), "gamma": (2.0**-15, 2.0**3)},
        X=X,
        y=y,
        splits=list(splitter.split(X, y)),
        n_settings=setup.pick(8, 40, 40),
    )


def _diabetes() -> Problem:
    """Support vector regression with three parameters."""
    X, y = load_diabetes(return_X_y=True)
    return Problem(
        data=f"diabetes, {X.shape[0]} x {X.shape[1]}",
        measure="R²",
        estimator=make_pipeline(StandardScaler(), SVR()),
        space={
            "svr__C": (2.0**-5, 2.0**15),
            "svr__gamma": (2.0**-15, 2.0**3),
            "svr__epsilon": (2.0**-5, 2.0**5),
        },
        X=X,
        y=y,
        splits=list(KFold(5, shuffle=True, random_state=0).split(X)),
        n_settings=60,
    )


# -- searches ------------------------------------------------------------------------


def _ours(problem: Problem, seed: int) -> Search:
    search = TuRBOENNSearchCV(
        problem.estimator,
        {name: (*ends, "log-uniform") for name, ends in problem.space.items()},
        n_iter=problem.n_settings,
        cv=problem.splits,
        refit=False,
        random_state=seed,
    )
    return _of_results(search.fit(problem.X, problem.y))


def _random(problem: Problem, seed: int) -> Search:
    search = RandomizedSearchCV(
        problem.estimator,
        {name: loguniform(*ends) for name, ends in problem.space.items()},
        n_iter=problem.n_settings,
        cv=problem.splits,
        refit=False,
        random_state=seed,
    )
    return _of_results(search.fit(problem.X, problem.y))


def _of_results(search: Any) -> Search:
    results = search.cv_results_
    return Search(results["params"], np.asarray(results["mean_test_score"]))


def _tpe(problem: Problem, seed: int) -> Search:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: Any) -> float:
        setting = {
            name: trial.suggest_float(name, *ends, log=True)
            for name, ends in problem.space.items()
        }
        estimator = clone(problem.estimator).set_params(**setting)
        return cross_val_score(
            estimator, problem.X, problem.y, cv=problem.splits
        ).mean()

    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed)
    )
    study.optimize(objective, n_trials=problem.n_settings)
    return Search(
        [t.params for t in study.trials], np.array([t.value for t in study.trials])
    )


# -- what came out -------------------------------------------------------------------


def _row(problem: Problem, runs: dict[str, list[Timed[Search]]], peer: str) -> Row:
    ours, theirs = runs[NAME], runs[peer]
    best = [np.mean([t.result.scores.max() for t in timed]) for timed in (ours, theirs)]
    return Row(
        method=NAME,
        data=problem.data,
        measure=f"best {problem.measure} of {problem.n_settings}, {len(ours)} runs",
        peer=peer,
        score=float(best[0]),
        peer_score=float(best[1]),
        seconds=float(np.mean([timed.seconds for timed in ours])),
        peer_seconds=float(np.mean([timed.seconds for timed in theirs])),
    )


def _curve_picture(problem: Problem, runs: dict[str, list[Timed[Search]]]) -> Picture:
    figure, (ax,) = new_figure()
    looks = {NAME: (OURS, "-"), RANDOM: (PEER, "--"), TPE: (OTHER, "-.")}
    means = {}
    for name, timed in runs.items():
        best = np.maximum.accumulate([t.result.scores for t in timed], axis=1)
        color, style = looks[name]
        draw_best_so_far(ax, 100 * best, color=color, label=name, style=style)
        means[name] = 100 * best.mean(axis=0)
    last = min(mean[-1] for mean in means.values())
    top = max(mean[-1] for mean in means.values())
    ax.set(
        xlabel="settings evaluated",
        ylabel="best cross-validated accuracy so far (%)",
        # the first settings are far below, and not what the picture is about
        ylim=(last - 4, top + 0.5),
    )
    ax.legend(loc="lower right", frameon=False)
    n = problem.n_settings
    half = n // 2 - 1
    told = " and ".join(
        f"{means[name][half]:.1f} % ({name})" for name in means if name != NAME
    )
    return Picture(
        "search_curve",
        "Which search finds good hyperparameters first?",
        f"Mean of {len(runs[NAME])} runs. After {half + 1} settings {NAME} is at "
        f"{means[NAME][half]:.1f} %, beside {told}; after {n} it is at "
        f"{means[NAME][-1]:.1f} %. Shades are the range of the runs.",
        figure,
    )


def _plane_picture(problem: Problem, runs: dict[str, list[Timed[Search]]]) -> Picture:
    figure, axes = new_figure(2, width=3.3)
    x_name, y_name = problem.space
    near = []
    for ax, name in zip(axes, (RANDOM, NAME), strict=True):
        settings, scores = runs[name][0].result
        points = ax.scatter(
            [s[x_name] for s in settings],
            [s[y_name] for s in settings],
            c=100 * scores,
            cmap="cividis",
            vmin=90,
            vmax=100,
            edgecolors="black",
            linewidths=0.4,
        )
        ax.set(
            xscale="log",
            yscale="log",
            xlabel=x_name,
            ylabel=y_name,
            xlim=problem.space[x_name],
            ylim=problem.space[y_name],
        )
        ax.set_title(name, fontsize="medium")
        near.append(int(np.sum(scores > 0.95)))
    figure.colorbar(points, ax=axes, label="cross-validated accuracy (%)", extend="min")
    return Picture(
        "search_plane",
        "Where does each search look?",
        f"The first run of each. Of {problem.n_settings} settings, {near[1]} of "
        f"{NAME} and {near[0]} of {RANDOM} have an accuracy above 95 %.",
        figure,
    )
