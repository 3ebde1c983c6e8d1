"""Quality of whole optimizations and searches, ours and the peers' on the same seeds.

Minutes each: they exist only in a full run (``SKICML_BENCH=full``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR

from benchmarks._data import FUNCTIONS, N_DIMS
from benchmarks._measure import LONG_TIMEOUT, is_full_run
from benchmarks._peers import ennbo, suggest, tpe_study
from skicml import TuRBOENN, TuRBOENNSearchCV

#: Ways to choose the next points: three of ours, ours without a model, two of the peer.
#: "ucb" is the default; where values are exact it fits nothing, "ucb fitted" does.
STRATEGIES = ("ucb", "ucb fitted", "pareto", "no model", "ennbo ucb", "ennbo pareto")

BATCH = 10


def optimize(
    strategy: str, function: str, noise: float, seed: int, n_evaluations: int
) -> dict[str, float]:
    """Maximize a function in batches of ten points.

    Returns
    -------
    dict of str to float
        "visited", the largest noise-free value among the points evaluated, and
        "reported", that of the point which the optimizer names as the best (nan for
        the peer, which names none).
    """
    value = FUNCTIONS[function]
    rng = np.random.default_rng(10_000 + seed)
    if strategy.startswith("ennbo"):
        optimizer = ennbo(N_DIMS, acquisition=strategy.split()[1], seed=seed)
    else:
        acquisition = "random" if strategy == "no model" else strategy.split()[0]
        optimizer = TuRBOENN(
            [(0.0, 1.0)] * N_DIMS,
            acquisition=acquisition,
            noise="auto" if noise or strategy == "ucb fitted" else "none",
            random_state=seed,
        )
    visited = -np.inf
    for _ in range(n_evaluations // BATCH):
        x = optimizer.ask(BATCH)
        truth = value(x)
        optimizer.tell(x, truth + noise * rng.standard_normal(BATCH))
        visited = max(visited, truth.max())
    reported = np.nan
    if isinstance(optimizer, TuRBOENN):
        reported = value(optimizer.best_x_[None])[0]
    return {"visited": float(visited), "reported": float(reported)}


class Functions:
    """Values found by 1,000 evaluations in 20 dimensions, mean over seeds."""

    timeout = LONG_TIMEOUT
    params = (("ackley", "levy", "rosenbrock", "noisy ackley"), STRATEGIES)
    param_names = ("function", "strategy")
    seeds = range(10)
    n_evaluations = 1_000

    def setup_cache(self):
        return {
            (function, strategy): [
                optimize(
                    strategy,
                    function.split()[-1],
                    float(function.startswith("noisy")),
                    seed,
                    self.n_evaluations,
                )
                for seed in self.seeds
            ]
            for function in self.params[0]
            for strategy in self.params[1]
        }

    setup_cache.timeout = LONG_TIMEOUT

    def track_visited(self, results, function, strategy):
        return _values(results[function, strategy]).mean()

    track_visited.unit = "best true value visited"

    def track_visited_five_seeds(self, results, function, strategy):
        return _values(results[function, strategy])[:5].mean()

    track_visited_five_seeds.unit = "best true value visited"

    def track_reported(self, results, function, strategy):
        value = _values(results[function, strategy], "reported").mean()
        if np.isnan(value):
            raise NotImplementedError("the peer does not name a best point")
        return value

    track_reported.unit = "true value of the point reported"

    def track_margin_ennbo(self, results, function, strategy):
        peer = f"ennbo {strategy.split()[0]}"
        if peer not in STRATEGIES:
            raise NotImplementedError("the peer has nothing like it")
        return _margin(results[function, strategy], results[function, peer])

    track_margin_ennbo.unit = "pooled standard deviations, ours - theirs"

    def track_margin_no_model(self, results, function, strategy):
        if strategy == "no model":
            raise NotImplementedError("nothing to compare")
        return _margin(results[function, strategy], results[function, "no model"])

    track_margin_no_model.unit = "pooled standard deviations, with - without"


def _values(runs: list[dict[str, float]], what: str = "visited") -> np.ndarray:
    return np.array([run[what] for run in runs])


def _margin(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> float:
    """Difference of the means in units of the pooled standard deviation."""
    first, second = _values(ours), _values(theirs)
    pooled = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    return float((first.mean() - second.mean()) / pooled)


class Sampling:
    """Best value of Ackley-20 after 500 evaluations against TPE and random search."""

    timeout = LONG_TIMEOUT
    params = (("ucb", "optuna TPE", "random search"),)
    param_names = ("strategy",)
    seeds = range(5)
    n_evaluations = 500

    def setup_cache(self):
        find = {"ucb": self._ours, "optuna TPE": self._tpe}
        return {
            strategy: [find.get(strategy, self._random)(seed) for seed in self.seeds]
            for strategy in self.params[0]
        }

    setup_cache.timeout = LONG_TIMEOUT

    def track_best(self, results, strategy):
        return np.mean(results[strategy])

    track_best.unit = "best value"

    def track_margin(self, results, strategy):
        if strategy == "ucb":
            raise NotImplementedError("nothing to compare")
        return np.mean(results["ucb"]) - np.mean(results[strategy])

    track_margin.unit = "best value, ours - theirs"

    def _ours(self, seed):
        return optimize("ucb", "ackley", 0.0, seed, self.n_evaluations)["visited"]

    def _random(self, seed):
        unit = np.random.default_rng(seed).random((self.n_evaluations, N_DIMS))
        return float(FUNCTIONS["ackley"](unit).max())

    def _tpe(self, seed):
        space = {f"x{i}": (0.0, 1.0) for i in range(N_DIMS)}

        def objective(trial):
            x = np.array(list(suggest(trial, space).values()))
            return float(FUNCTIONS["ackley"](x[None])[0])

        study = tpe_study(seed)
        study.optimize(objective, n_trials=self.n_evaluations)
        return study.best_value


#: A regressor or classifier with its space, data and score, for each problem.
PROBLEMS = {
    "digits, SVC": (
        lambda: make_pipeline(MinMaxScaler(), SVC()),
        {
            "svc__C": (1e-2, 1e4, "log-uniform"),
            "svc__gamma": (1e-5, 1e1, "log-uniform"),
        },
        load_digits,
        "accuracy",
    ),
    "cancer, boosting": (
        lambda: HistGradientBoostingClassifier(
            max_iter=40, early_stopping=False, random_state=0
        ),
        {
            "learning_rate": (1e-3, 1.0, "log-uniform"),
            "max_leaf_nodes": (2, 64),
            "min_samples_leaf": (1, 100),
            "l2_regularization": (1e-6, 1e3, "log-uniform"),
            "max_features": (0.1, 1.0),
        },
        load_breast_cancer,
        "roc_auc",
    ),
    "diabetes, SVR": (
        lambda: make_pipeline(StandardScaler(), SVR()),
        {
            "svr__C": (1e-2, 1e4, "log-uniform"),
            "svr__gamma": (1e-5, 1e1, "log-uniform"),
            "svr__epsilon": (1e-2, 1e2, "log-uniform"),
        },
        load_diabetes,
        "r2",
    ),
}
OURS, RANDOM, TPE = "TuRBOENNSearchCV", "RandomizedSearchCV", "optuna TPE"


class Searches:
    """Best three-fold score after 50 settings, mean over seeds and maybe problems."""

    timeout = LONG_TIMEOUT
    params = ((*PROBLEMS, "all"), (OURS, RANDOM, TPE))
    param_names = ("problem", "search")
    seeds = range(5)
    n_iter = 50

    def setup_cache(self):
        find = {OURS: self._ours, RANDOM: self._random, TPE: self._tpe}
        results = {}
        for problem, (estimator, space, load, scoring) in PROBLEMS.items():
            X, y = load(return_X_y=True)
            for search in self.params[1]:
                results[problem, search] = [
                    find[search](seed, estimator(), space, X, y, scoring)
                    for seed in self.seeds
                ]
        for search in self.params[1]:
            results["all", search] = np.concatenate(
                [results[problem, search] for problem in PROBLEMS]
            )
        return results

    setup_cache.timeout = LONG_TIMEOUT

    def track_best(self, results, problem, search):
        return np.mean(results[problem, search])

    track_best.unit = "best score"

    def track_margin(self, results, problem, search):
        if search == OURS:
            raise NotImplementedError("nothing to compare")
        return np.mean(results[problem, OURS]) - np.mean(results[problem, search])

    track_margin.unit = "best score, ours - theirs"

    def _ours(self, seed, estimator, space, X, y, scoring):
        search = TuRBOENNSearchCV(estimator, space, **self._settings(seed, scoring))
        return float(search.fit(X, y).best_score_)

    def _random(self, seed, estimator, space, X, y, scoring):
        space = {name: _distribution(dimension) for name, dimension in space.items()}
        search = RandomizedSearchCV(estimator, space, **self._settings(seed, scoring))
        return float(search.fit(X, y).best_score_)

    def _settings(self, seed, scoring) -> dict[str, Any]:
        return {
            "n_iter": self.n_iter,
            "scoring": scoring,
            "cv": 3,
            "refit": False,
            "random_state": seed,
        }

    def _tpe(self, seed, estimator, space, X, y, scoring):
        def objective(trial):
            estimator.set_params(**suggest(trial, space))
            return cross_val_score(estimator, X, y, scoring=scoring, cv=3).mean()

        study = tpe_study(seed)
        study.optimize(objective, n_trials=self.n_iter)
        return study.best_value


def _distribution(dimension: tuple[Any, ...]) -> Any:
    """Turn a dimension into a distribution of SciPy."""
    low, high, *log = dimension
    if log:
        return stats.loguniform(low, high)
    if isinstance(low, int):
        return stats.randint(low, high + 1)
    return stats.uniform(low, high - low)


if not is_full_run():
    # asv would start a process for each of the parameters only to skip it
    del Functions, Sampling, Searches
