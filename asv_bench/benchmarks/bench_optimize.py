"""Optimization: the kernels, the cost of a proposal and that of its peers.

A proposal of ours and of ennbo is ``tell`` of one value and ``ask`` for one point: fit of
the variances on 100 held-out rows and upper confidence bound on 2,000 candidates in 20
dimensions, 10 neighbors. Times are CPU seconds of one thread.
"""

from __future__ import annotations

import math
import time

import numpy as np
from sklearn.base import BaseEstimator

from benchmarks._data import N_DIMS, response, table
from benchmarks._measure import (
    REPEAT,
    TIMEOUT,
    cpu_times,
    only_in_full_run,
    ratio,
    require,
)
from benchmarks._peers import ennbo, gp_turbo_proposal, suggest, tpe_study
from skicml import ENNRegressor, TuRBOENN, TuRBOENNSearchCV
from skicml_accel.optimize import pareto_fronts_2d, raasp

#: Observations known when a proposal is made.
SIZES = (1_000, 10_000, 50_000, 200_000)
N_CANDIDATES = 2_000


def peakmem_baseline() -> None:
    """Everything imported and compiled, on data of no size."""
    OurProposal(1_000)()


peakmem_baseline.timeout = TIMEOUT


class _Timed:
    timeout = TIMEOUT
    number = 1
    repeat = REPEAT
    timer = time.process_time


class OurProposal:
    """Optimizer that knows n observations; a call tells one value and asks for a point.

    The first ``ask`` takes in what has been told, so one is made beforehand.
    """

    def __init__(self, n: int) -> None:
        self._rng = np.random.default_rng(1)
        self._optimizer = TuRBOENN(
            [(0.0, 1.0)] * N_DIMS,
            n_init=1,
            n_candidates=N_CANDIDATES,
            random_state=0,
        )
        started = self._optimizer.ask()
        self._optimizer.tell(started, response(started, self._rng))
        self._optimizer.tell(*table(n))
        self._x = self._optimizer.ask()

    def __call__(self) -> np.ndarray:
        self._optimizer.tell(self._x, response(self._x, self._rng))
        self._x = self._optimizer.ask()
        return self._x


class EnnboProposal:
    """The same by ennbo."""

    def __init__(self, n: int) -> None:
        self._rng = np.random.default_rng(1)
        self._optimizer = ennbo(N_DIMS, acquisition="ucb", seed=0)
        self._optimizer.tell(*table(n))
        for _ in range(2 * N_DIMS):
            self._optimizer.ask(1)
        self._x = self._optimizer.ask(1)

    def __call__(self) -> np.ndarray:
        self._optimizer.tell(self._x, response(self._x, self._rng))
        self._x = self._optimizer.ask(1)
        return self._x


class Proposal(_Timed):
    """One proposal among n observations."""

    params = (SIZES,)
    param_names = ("n",)

    def setup(self, n):
        self._propose = OurProposal(n)
        self._propose()

    def time_proposal(self, n):
        self._propose()

    def peakmem_proposal(self, n):
        self._propose()

    def track_ratio_ennbo(self, n):
        theirs = EnnboProposal(n)
        self._check_quality(n, theirs)
        # the smallest takes milliseconds, so that noise needs more repeats to average out
        return ratio(self._propose, theirs, repeats=max(9, 50_000 // n))

    track_ratio_ennbo.unit = "ours/ennbo"

    def _check_quality(self, n, theirs):
        """Both shall find points that one model, fitted on all rows, finds as good."""
        judge = ENNRegressor(random_state=0).fit(*table(n))
        values = []
        for propose in (self._propose, theirs):
            points = np.concatenate([propose() for _ in range(5)])
            mean, std = judge.predict(points, return_std=True, include_noise=False)
            values.append((mean + std).mean())
        require(
            values[0] >= values[1] - 0.25 * judge.y_scale_,
            f"upper confidence bounds {values}",
        )


class ProposalGrowth:
    """Exponent of the time of a proposal in the number of observations."""

    timeout = TIMEOUT
    sizes = (10_000, 200_000)

    def track_exponent(self):
        low, high = self.sizes
        times = cpu_times(OurProposal(low), OurProposal(high), repeats=7)
        return math.log(times[1] / times[0]) / math.log(high / low)

    track_exponent.unit = "exponent"


class Tell(_Timed):
    """Many rows at once, alone and with the first proposal, which takes them in."""

    params = ((3_125, 50_000, 800_000),)
    param_names = ("n",)

    def setup(self, n):
        # the first proposal of a process loads the compiled search
        OurProposal(2_000)()
        self._X, self._y = table(n)
        self._optimizer = TuRBOENN([(0.0, 1.0)] * N_DIMS, n_init=1, random_state=0)
        self._optimizer.tell(self._optimizer.ask(), [0.0])

    def time_tell(self, n):
        self._optimizer.tell(self._X, self._y)

    def time_tell_and_ask(self, n):
        self._optimizer.tell(self._X, self._y)
        self._optimizer.ask()

    def peakmem_tell_and_ask(self, n):
        self.time_tell_and_ask(n)


class GaussianProcessTuRBO:
    """A proposal against one of TuRBO with an exact Gaussian process.

    Both fit once and choose among 2,000 candidates in 20 dimensions. Theirs starts from
    the default parameters, as TuRBO does in every round.
    """

    timeout = 900
    params = ((64, 256, 1_000), ("adam", "lbfgs"))
    repeats = 5
    param_names = ("n", "fit")

    def setup(self, n, fit):
        if n > 256:
            only_in_full_run()

    def track_ratio_gp_turbo(self, n, fit):
        X, y = table(n)

        def theirs():
            return gp_turbo_proposal(X, y, fit=fit, n_candidates=N_CANDIDATES, seed=0)

        # milliseconds against many seconds: the latter need no turns and few repeats
        ours = cpu_times(OurProposal(n), repeats=9)[0]
        repeats = self.repeats if n <= 256 else 2
        return ours / cpu_times(theirs, repeats=repeats)[0]

    track_ratio_gp_turbo.unit = "ours/GP-TuRBO"


#: A space as of a gradient boosting classifier.
SEARCH_SPACE = {
    "learning_rate": (1e-3, 1.0, "log-uniform"),
    "max_leaf_nodes": (4, 128, "log-uniform"),
    "min_samples_leaf": (1, 100),
    "l2_regularization": (1e-6, 1e3, "log-uniform"),
    "max_features": (0.1, 1.0),
    "criterion": ["a", "b", "c"],
}


class Clock(BaseEstimator):
    """Fits nothing, scores by a formula and notes the time of both."""

    #: CPU times at which fits began and scores were done.
    began: list[float]
    ended: list[float]

    def __init__(
        self,
        learning_rate=0.1,
        max_leaf_nodes=31,
        min_samples_leaf=20,
        l2_regularization=1.0,
        max_features=1.0,
        criterion="a",
    ):
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.criterion = criterion

    def fit(self, X, y=None):
        Clock.began.append(time.process_time())
        return self

    def score(self, X, y=None):
        value = -(math.log10(self.learning_rate) ** 2)
        value -= math.log(self.max_leaf_nodes / 20) ** 2
        value -= (self.min_samples_leaf / 50 - 1) ** 2
        value -= (self.max_features - 0.6) ** 2
        value -= 0.1 * abs(math.log10(self.l2_regularization)) + (self.criterion != "b")
        Clock.ended.append(time.process_time())
        return value

    @classmethod
    def overhead(cls) -> float:
        """Median CPU seconds from a score to the next fit, over the last 50 fits."""
        gaps = np.array(cls.began[1:]) - np.array(cls.ended[:-1])
        return float(np.median(gaps[-50:]))


class SearchOverhead:
    """What a search costs for each setting beside the fits, after n_trials settings.

    Ours includes scikit-learn's cross-validation of a single split, which the peer's
    loop does without.
    """

    timeout = 600
    params = ((60, 250, 1_000),)
    param_names = ("n_trials",)

    def track_overhead(self, n_trials):
        return self._ours(n_trials)

    track_overhead.unit = "seconds"

    def track_ratio_tpe(self, n_trials):
        return self._ours(n_trials) / self._tpe(n_trials)

    track_ratio_tpe.unit = "ours/optuna TPE"

    def _ours(self, n_trials):
        Clock.began, Clock.ended = [], []
        rows = np.arange(4)
        search = TuRBOENNSearchCV(
            Clock(),
            SEARCH_SPACE,
            n_iter=n_trials + 1,
            cv=[(rows[:2], rows[2:])],
            refit=False,
            random_state=0,
        )
        search.fit(np.zeros((4, 1)), np.zeros(4))
        return Clock.overhead()

    def _tpe(self, n_trials):
        Clock.began, Clock.ended = [], []

        def objective(trial):
            model = Clock(**suggest(trial, SEARCH_SPACE))
            return model.fit(None).score(None)

        tpe_study(0).optimize(objective, n_trials=n_trials + 1)
        return Clock.overhead()


class ParetoFronts(_Timed):
    """Fronts of m candidates, as many as hold q."""

    params = ((1_000, 16_000, 256_000), (1, 100))
    param_names = ("m", "q")

    def setup(self, m, q):
        rng = np.random.default_rng(0)
        self._mu, self._sigma = rng.standard_normal(m), rng.random(m)

    def time_fronts(self, m, q):
        pareto_fronts_2d(self._mu, self._sigma, q=q)


class Raasp(_Timed):
    """Draws of m candidates in d dimensions."""

    params = ((320, 5_000, 80_000), (20, 200))
    param_names = ("m", "d")

    def setup(self, m, d):
        self._rng = np.random.default_rng(0)
        self._box = np.full(d, 0.5), np.full(d, 0.1), np.full(d, 0.9)
        self.time_draw(m, d)

    def time_draw(self, m, d):
        raasp(*self._box, n_candidates=m, rng=self._rng)

    def peakmem_draw(self, m, d):
        self.time_draw(m, d)
