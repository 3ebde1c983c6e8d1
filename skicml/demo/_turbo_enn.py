"""TuRBOENN beside optimizers with as many evaluations, and beside a Gaussian process."""

from __future__ import annotations

import contextlib
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import differential_evolution
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skicml.demo._clock import Timed, race
from skicml.demo._parts import Missing, Picture, Row, Setup, format_seconds
from skicml.demo._style import (
    GRAY,
    OTHER,
    OURS,
    PEER,
    THIRD,
    draw_best_so_far,
    new_figure,
)
from skicml.optimize import TuRBOENN

NAME, EVOLUTION, RANDOM = "TuRBOENN", "differential evolution", "random search"
TPE = "TPE of optuna"
GP = "Gaussian process"
BATCH = 10
N_DIMS = 20
N_NEIGHBORS = 10

Objective = Callable[[np.ndarray], float]
#: Minimizes until the budget of the objective is spent.
Optimizer = Callable[["_Budgeted", np.ndarray, int], None]


class Problem(NamedTuple):
    """A function to be minimized over a box.

    Parameters
    ----------
    data : str
        What it is and how large, for the table.
    measure : str
        What its lowest value is, for the table.
    axis : str
        Label of the values in pictures.
    fun : callable
        Takes a point, returns its value.
    bounds : ndarray of shape (n_dims, 2)
        Ends of the box.
    """

    data: str
    measure: str
    axis: str
    fun: Objective
    bounds: np.ndarray


def show(setup: Setup) -> Iterator[Row | Picture | Missing]:
    """Compare what equally many evaluations find, and what a proposal costs.

    Parameters
    ----------
    setup : Setup
        How much to run.

    Yields
    ------
    Row or Picture or Missing
        What is finished.
    """
    n_evaluations = setup.pick(60, 1000, 1000)
    n_slow = setup.pick(40, 400, 1000)
    n_seeds = setup.pick(1, 3, 10)
    sizes = setup.pick([100, 500], [300, 1000, 10_000, 50_000], [300, 1000, 2000])
    sizes += setup.pick([], [], [10_000, 50_000, 200_000])
    n_exact = setup.pick(100, 1000, 2000)
    has_tpe = importlib.util.find_spec("optuna") is not None
    setup.expect(
        (6 + 2 * has_tpe) * n_seeds + len(sizes) + sum(n <= n_exact for n in sizes)
    )
    if not has_tpe:
        yield Missing("optuna", f"{TPE} beside {NAME}")
    # the compiler of the kernels is loaded before the clock starts
    _proposals(_observations(2000), n=1)

    compare = partial(_compare, setup, n_seeds)
    optimizers: dict[str, Optimizer] = {
        NAME: _turbo_enn,
        EVOLUTION: _evolution,
        RANDOM: _random,
    }
    ackley = _ackley_problem()
    runs = compare(ackley, optimizers, n_evaluations)
    for peer in (EVOLUTION, RANDOM):
        yield _row(ackley, runs, peer, n_evaluations)
    curves = _curves(runs)
    if has_tpe:
        # its own time grows with the square of the evaluations
        slow = compare(ackley, {NAME: _turbo_enn, TPE: _tpe}, n_slow)
        yield _row(ackley, slow, TPE, n_slow)
        curves[TPE] = _curves(slow)[TPE]
    if setup.pictures:
        yield _ackley_picture(ackley, curves, n_evaluations)

    weights, held_out = _weights_problem()
    runs = compare(weights, optimizers, n_evaluations)
    for peer in (EVOLUTION, RANDOM):
        yield _row(weights, runs, peer, n_evaluations)
    if setup.pictures:
        yield _weights_picture(weights, held_out, runs, n_evaluations)
    yield from _proposal_times(setup, sizes, n_exact)


# -- optimizers ----------------------------------------------------------------------


class _Spent(Exception):
    """All evaluations that were granted are done."""


class _Budgeted:
    """Objective that counts, remembers, and ends the run when it was called n times."""

    def __init__(self, fun: Objective, n: int) -> None:
        self.fun, self.n = fun, n
        self.values: list[float] = []
        self.points: list[np.ndarray] = []

    def __call__(self, x: Any) -> float:
        if len(self.values) == self.n:
            raise _Spent
        self.points.append(np.array(x))
        self.values.append(self.fun(self.points[-1]))
        return self.values[-1]


class Run(NamedTuple):
    """What a run has found.

    Parameters
    ----------
    values : ndarray of shape (n_evaluations,)
        In the order of evaluation.
    best : ndarray of shape (n_dims,)
        Point of the lowest value.
    """

    values: np.ndarray
    best: np.ndarray


def _turbo_enn(fun: _Budgeted, bounds: np.ndarray, seed: int) -> None:
    optimizer = TuRBOENN(
        [(float(low), float(high)) for low, high in bounds],
        noise="none",
        batch_size=BATCH,
        random_state=seed,
    )
    while True:
        x = optimizer.ask()
        optimizer.tell(x, [-fun(row) for row in x])


def _evolution(fun: _Budgeted, bounds: np.ndarray, seed: int) -> None:
    # of the population sizes 1, 2, 3 and 5, one found the lowest values of the Ackley
    # function in a thousand evaluations
    differential_evolution(
        fun, bounds, maxiter=fun.n, popsize=1, polish=False, tol=0, rng=seed
    )


def _random(fun: _Budgeted, bounds: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    while True:
        fun(rng.uniform(*bounds.T))


def _tpe(fun: _Budgeted, bounds: np.ndarray, seed: int) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(
        lambda trial: fun(
            [trial.suggest_float(f"x{i}", *b) for i, b in enumerate(bounds)]
        ),
        n_trials=fun.n,
    )


def _minimize(optimizer: Optimizer, problem: Problem, n: int, seed: int) -> Run:
    fun = _Budgeted(problem.fun, n)
    with contextlib.suppress(_Spent):
        optimizer(fun, problem.bounds, seed)
    values = np.array(fun.values)
    return Run(values, fun.points[int(values.argmin())])


# -- problems ------------------------------------------------------------------------


def _ackley(x: np.ndarray, shift: np.ndarray | float = 0.0) -> float:
    z = x - shift
    return float(
        20 * (1 - np.exp(-0.2 * np.sqrt(np.mean(z**2))))
        + np.e
        - np.exp(np.mean(np.cos(2 * np.pi * z)))
    )


def _ackley_problem() -> Problem:
    # shifted, for some optimizers try the middle of the box first
    shift = np.random.default_rng(7).uniform(-10, 10, N_DIMS)
    return Problem(
        data=f"Ackley, {N_DIMS} dimensions",
        measure="lowest",
        axis="lowest value so far",
        fun=partial(_ackley, shift=shift),
        bounds=np.tile([-32.768, 32.768], (N_DIMS, 1)),
    )


def _weights_problem() -> tuple[Problem, Objective]:
    """Weights of features for nearest neighbors; and their loss on held-out rows."""
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=0
    )
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    problem = Problem(
        data=f"breast cancer, {X.shape[0]} x {X.shape[1]}",
        measure="lowest log loss",
        axis="lowest leave-one-out log loss so far (nats)",
        fun=partial(_neighbor_loss, X=X, y=y),
        bounds=np.tile([0.0, 1.0], (X.shape[1], 1)),
    )
    return problem, partial(_neighbor_loss, X=X, y=y, queries=X_test, truth=y_test)


def _neighbor_loss(
    weights: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    queries: np.ndarray | None = None,
    truth: np.ndarray | None = None,
) -> float:
    """Log loss of the share of each class among ten neighbors; of X without queries."""
    data = X * weights
    rows = data if queries is None else queries * weights
    gap = np.sum(data**2, axis=1) - 2 * rows @ data.T
    if queries is None:
        np.fill_diagonal(gap, np.inf)
    nearest = np.argpartition(gap, N_NEIGHBORS, axis=1)[:, :N_NEIGHBORS]
    # one half more of each class keeps the logarithm finite
    share = (y[nearest].sum(axis=1) + 0.5) / (N_NEIGHBORS + 1)
    return float(
        -np.log(np.where(y if truth is None else truth, share, 1 - share)).mean()
    )


# -- comparison ----------------------------------------------------------------------


def _compare(
    setup: Setup,
    n_seeds: int,
    problem: Problem,
    optimizers: dict[str, Optimizer],
    n: int,
) -> dict[str, list[Timed[Run]]]:
    """Run each optimizer from each seed."""
    runs: dict[str, list[Timed[Run]]] = {name: [] for name in optimizers}
    for seed in range(n_seeds):
        timed = race(
            setup,
            {
                name: partial(_minimize, optimizer, problem, n, seed)
                for name, optimizer in optimizers.items()
            },
        )
        for name, one in timed.items():
            runs[name].append(one)
    return runs


def _curves(runs: dict[str, list[Timed[Run]]]) -> dict[str, np.ndarray]:
    """Lowest value so far, one line for each seed."""
    return {
        name: np.minimum.accumulate([one.result.values for one in seeds], axis=1)
        for name, seeds in runs.items()
    }


def _row(problem: Problem, runs: dict[str, list[Timed[Run]]], peer: str, n: int) -> Row:
    ours, theirs = runs[NAME], runs[peer]
    lowest = [
        np.mean([s.result.values.min() for s in seeds]) for seeds in (ours, theirs)
    ]
    return Row(
        method=NAME,
        data=problem.data,
        measure=f"{problem.measure} of {n:,}, {len(ours)} runs",
        peer=peer,
        score=float(lowest[0]),
        peer_score=float(lowest[1]),
        seconds=float(np.mean([s.seconds for s in ours])),
        peer_seconds=float(np.mean([s.seconds for s in theirs])),
        aim=-np.inf,
    )


def _draw(problem: Problem, curves: dict[str, np.ndarray]) -> tuple[Any, Any]:
    figure, (ax,) = new_figure()
    for name, color, style in (
        (NAME, OURS, "-"),
        (EVOLUTION, PEER, "--"),
        (TPE, THIRD, "-."),
        (RANDOM, OTHER, ":"),
    ):
        if name in curves:
            draw_best_so_far(ax, curves[name], color=color, label=name, style=style)
    ax.set(xlabel="evaluations", ylabel=problem.axis)
    ax.legend(frameon=False)
    return figure, ax


def _reached(curves: dict[str, np.ndarray], n: int) -> str:
    """When our mean has come down to where the better of the peers ends."""
    ours = curves[NAME].mean(axis=0)
    ends = {name: curves[name].mean(axis=0)[-1] for name in (EVOLUTION, RANDOM)}
    best = min(ends, key=lambda name: ends[name])
    if ours[-1] > ends[best]:
        return f"On average {best} ends lower than {NAME} after {n:,} evaluations."
    count = 1 + int(np.argmax(ours <= ends[best]))
    return (
        f"{NAME} has reached after {count:,} evaluations, on average, "
        f"where {best} is after {n:,}."
    )


def _ackley_picture(problem: Problem, curves: dict[str, np.ndarray], n: int) -> Picture:
    figure, ax = _draw(problem, curves)
    ax.set_ylim(bottom=0)
    return Picture(
        "turbo_ackley",
        f"How low in {n:,} evaluations of a rugged function of {N_DIMS} variables?",
        f"{_reached(curves, n)} Lines are means, shades the range of the runs.",
        figure,
    )


def _weights_picture(
    problem: Problem,
    held_out: Objective,
    runs: dict[str, list[Timed[Run]]],
    n: int,
) -> Picture:
    curves = _curves(runs)
    figure, ax = _draw(problem, curves)
    equal = np.ones(len(problem.bounds))
    level = problem.fun(equal)
    ax.axhline(level, color=GRAY, linewidth=1, label="equal weights")
    ax.set_ylim(top=level + 0.6 * (level - curves[NAME].min()))
    ax.legend(frameon=False)
    after = np.mean([held_out(one.result.best) for one in runs[NAME]])
    return Picture(
        "turbo_weights",
        "Which features should count when nearest neighbors diagnose tumors?",
        f"{_reached(curves, n)} On the other half of the patients, which no run has "
        f"seen, the log loss is {after:.3f} nats with its weights and "
        f"{held_out(equal):.3f} with equal ones.",
        figure,
    )


# -- time of a proposal --------------------------------------------------------------


def _observations(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.random((n, N_DIMS))
    y = np.array([-_ackley(row) for row in 30 * (x - 0.4)])
    return x, y + rng.standard_normal(n)


def _proposals(data: tuple[np.ndarray, np.ndarray], n: int) -> float:
    """Least CPU time of learning one more noisy value and proposing the next point."""
    x, y = data
    optimizer = TuRBOENN([(0.0, 1.0)] * N_DIMS, n_init=1, random_state=0)
    optimizer.tell(x, y)
    # the first call hands out the design and learns the bulk
    optimizer.ask(2)
    seconds = []
    for row in range(n):
        start = time.process_time()
        optimizer.tell(x[row], y[row : row + 1])
        optimizer.ask()
        seconds.append(time.process_time() - start)
    return min(seconds)


def _exact_proposal(data: tuple[np.ndarray, np.ndarray]) -> float:
    """CPU time of the same with a Gaussian process and equally many candidates."""
    x, y = data
    model = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(), normalize_y=True)
    candidates = np.random.default_rng(1).random((100 * N_DIMS, N_DIMS))
    start = time.process_time()
    with warnings.catch_warnings():
        # a length or noise at the edge of its range does not change the comparison
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, y).predict(candidates, return_std=True)
    return time.process_time() - start


def _proposal_times(
    setup: Setup, sizes: list[int], n_exact: int
) -> Iterator[Row | Picture]:
    seconds: dict[str, dict[int, float]] = {NAME: {}, GP: {}}
    for n in sizes:
        data = _observations(n)
        runners = {NAME: partial(_proposals, data, 5)}
        if n <= n_exact:
            runners[GP] = partial(_exact_proposal, data)
        for name, timed in race(setup, runners).items():
            seconds[name][n] = timed.result
        if n == n_exact:
            yield Row(
                method=NAME,
                data=f"noisy Ackley, {n:,} x {N_DIMS}",
                measure="one proposal",
                peer=GP,
                score=None,
                peer_score=None,
                seconds=seconds[NAME][n],
                peer_seconds=seconds[GP][n],
            )
    if setup.pictures:
        yield _proposal_picture(seconds)


def _proposal_picture(seconds: dict[str, dict[int, float]]) -> Picture:
    figure, (ax,) = new_figure()
    for name, color, marker in ((NAME, OURS, "o"), (GP, PEER, "^")):
        n, value = zip(*sorted(seconds[name].items()), strict=True)
        label = name if name == NAME else f"{name}, fit and predict"
        ax.loglog(n, value, marker=marker, color=color, label=label)
    ax.set(
        xlabel=f"observations ({N_DIMS} dimensions)",
        ylabel="CPU time of one proposal (s)",
    )
    ax.legend(frameon=False)
    n_exact, n_many = max(seconds[GP]), max(seconds[NAME])
    return Picture(
        "turbo_time",
        "What does the next point cost when there are many already?",
        f"With {n_exact:,} observations a Gaussian process takes "
        f"{format_seconds(seconds[GP][n_exact])} to learn its kernel and to judge "
        f"{100 * N_DIMS:,} candidates; {NAME} takes "
        f"{format_seconds(seconds[NAME][n_exact])} there, and "
        f"{format_seconds(seconds[NAME][n_many])} with {n_many:,}.",
        figure,
    )
