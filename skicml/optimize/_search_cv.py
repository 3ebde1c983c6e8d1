"""Hyperparameter search by TuRBO on nearest neighbors (arXiv 2506.12818)."""

from __future__ import annotations

import logging
import warnings
from concurrent.futures import BrokenExecutor
from copy import deepcopy
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import get_tags

from skicml.base import RANDOM_STATE, Progress, SkicmlEstimator, audible
from skicml.base._sklearn_compat import Interval
from skicml.optimize._convergence_display import ConvergenceDisplay
from skicml.optimize._space import Space
from skicml.optimize._turbo_enn import TuRBOENN

logger = logging.getLogger("skicml")

# The optimizer may propose a setting again, in small spaces above all. So many
# rounds of nothing new are taken to mean that there is nothing new.
_MAX_STALE_ROUNDS = 100
# Attributes that callbacks may read during the search.
_BEST = ("best_index_", "best_params_", "best_score_")


class TuRBOENNSearchCV(SkicmlEstimator, BaseSearchCV):
    """Search hyperparameters where earlier scores say that it pays.

    Use it in place of :class:`~sklearn.model_selection.RandomizedSearchCV` when a fit
    costs more than a few milliseconds, which is what a proposal costs: each setting is
    proposed by :class:`~skicml.optimize.TuRBOENN` in view of all scores so far, also
    where thousands of them are out of reach for a Gaussian process. Prefer a grid when
    there are no more than a few settings, and successive halving when small samples
    rank the settings well. Conditional spaces are not modeled: a parameter that matters
    only together with others is searched always.

    The search starts with a Latin hypercube of two settings per coordinate, then picks,
    within a trust region around the best, the candidate with the largest sum of
    predicted mean and epistemic standard deviation over the nearest settings. All
    settings are scored on the same folds, drawn once, and none is scored twice. A
    setting whose fits fail counts as the worst seen, and the search goes on.

    Parameters
    ----------
    estimator : estimator object
        Cloned for every fit. It needs ``score``, or `scoring` has to be given.
    param_space : dict of str to dimension
        Names of parameters, as in ``estimator.get_params()``, and the values to search:

        - ``(int, int)``: whole numbers, both ends included;
        - ``(float, float)``: real numbers;
        - ``(low, high, "log-uniform")``: either of them on a logarithmic scale;
        - a list: unordered levels of any type;
        - a distribution with ``ppf`` and ``cdf``, such as a frozen one of scipy.stats.
    n_iter : int, default=50
        Number of settings to evaluate. Fewer are evaluated when a small space has no
        more, or when a callback stops the search.
    batch_size : int, default=1
        Settings proposed at a time. With ``n_jobs`` above the number of folds, choose
        about their ratio; larger batches learn later from each score.
    scoring : str, callable, list, tuple or dict, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`. With several metrics, the
        one that `refit` names is maximized; the first one if it names none.
    cv : int, cross-validation generator or iterable, default=None
        As in :class:`~sklearn.model_selection.GridSearchCV`; None means five folds.
        Random splitters are drawn from once per search.
    n_jobs : int, default=None
        Number of fits at a time, by joblib, so that its backends (loky, threading,
        dask, ray) apply. The result does not depend on it.
    refit : bool, str or callable, default=True
        As in :class:`~sklearn.model_selection.GridSearchCV`: fit the best setting on
        all data. A callable picks the index from ``cv_results_``.
    verbose : int, default=0
        0 is silent, 1 shows a progress bar with the best score, 2 logs a line for each
        setting to the logger ``skicml``.
    error_score : "raise" or numeric, default=np.nan
        Score of a fit that fails, with a FitFailedWarning. With NaN the model sees the
        worst score so far in its place; "raise" ends the search.
    random_state : int, RandomState, Generator or None, default=None
        Source of the proposals. It does not reach `estimator` or `cv`.
    optimizer_params : dict, default=None
        More parameters of :class:`~skicml.optimize.TuRBOENN`, such as
        ``{"acquisition": "thompson"}`` or ``{"n_init": 20}``.
    return_train_score : bool, default=False
        Whether ``cv_results_`` has scores on the training folds.
    pre_dispatch : int or str, default="2*n_jobs"
        Number of jobs that joblib dispatches in advance.

    Attributes
    ----------
    cv_results_ : dict of arrays of shape (n_evaluations,)
        The keys of :class:`~sklearn.model_selection.GridSearchCV`, in the order of
        evaluation. Settings whose fits failed have the score `error_score`.
    best_estimator_ : estimator
        Refitted with the best setting; only if `refit` is not False.
    best_score_ : float
        Mean cross-validated score of the best setting.
    best_params_ : dict
        The best setting.
    best_index_ : int
        Its place in ``cv_results_``.
    optimizer_ : TuRBOENN
        The optimizer, with all scores. Ask it for more settings, or look at its trust
        region.
    scorer_ : callable or dict of callable
        The scorers used.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds of the refit.
    multimetric_ : bool
        Whether there are several metrics.
    classes_ : ndarray of shape (n_classes,)
        Labels seen by the refitted classifier.
    n_features_in_ : int
        Number of features seen by the refitted estimator.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if there are.

    Raises
    ------
    ValueError
        If `param_space` is empty or a range in it is reversed or not finite, or if the
        fits of all settings fail.
    KeyboardInterrupt
        If the user interrupts: the evaluations finished so far are in
        ``cv_results_``, ``best_params_``, ``best_score_`` and ``best_index_``, there is
        no refit, and the interrupt goes on. The same holds for the error of joblib
        that tells of a worker process that has died.

    See Also
    --------
    TuRBOENN : The optimizer, for other functions than cross-validated scores.
    sklearn.model_selection.RandomizedSearchCV : Draws settings at random.
    sklearn.model_selection.HalvingRandomSearchCV : Starts on small samples.

    Notes
    -----
    A proposal costs O(n_evaluations * n_coordinates * n_candidates) time, with 100
    candidates per coordinate by default; the bookkeeping of the search adds a constant.
    Memory is O(n_evaluations * (n_coordinates + n_splits)). With an int
    `random_state`, deterministic fits and the same `batch_size`, results are
    reproducible, for every `n_jobs`.

    Callbacks of scikit-learn (``set_callbacks``) see a task "search", below it a task
    "batch" for the settings that are evaluated together, and below that the fits.
    During the search, ``best_score_`` and ``best_params_`` hold the best so far. A
    callback whose ``on_fit_task_end`` returns True at the end of a batch ends the
    search.

    References
    ----------
    K. Bafna, S. Jadhav and D. Sweet, "Taking the GP Out of the Loop", ICML 2026,
    arXiv 2506.12818. Mixed spaces, the treatment of failures and of repeated settings
    are additions of ours.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from skicml.optimize import TuRBOENNSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> space = {"C": (1e-3, 1e3, "log-uniform"), "kernel": ["linear", "rbf"]}
    >>> search = TuRBOENNSearchCV(SVC(), space, n_iter=15, random_state=0).fit(X, y)
    >>> search.best_score_ > 0.97
    np.True_
    >>> sorted(search.best_params_)
    ['C', 'kernel']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseSearchCV._parameter_constraints,
        "param_space": [dict],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "random_state": RANDOM_STATE,
        "optimizer_params": [dict, None],
    }
    verbose: Any

    def __init__(
        self,
        estimator,
        param_space,
        *,
        n_iter=50,
        batch_size=1,
        scoring=None,
        cv=None,
        n_jobs=None,
        refit=True,
        verbose=0,
        error_score=np.nan,
        random_state=None,
        optimizer_params=None,
        return_train_score=False,
        pre_dispatch="2*n_jobs",
    ):
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.param_space = param_space
        self.n_iter = n_iter
        self.batch_size = batch_size
        self.random_state = random_state
        self.optimizer_params = optimizer_params

    def fit(self, X, y=None, **params):
        """Search, then fit the best setting on all data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or what the estimator takes
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets; None for estimators that need none.
        **params : dict of str to object
            Passed to ``fit`` of the estimator, the splitter and the scorer, as in
            :class:`~sklearn.model_selection.GridSearchCV`.

        Returns
        -------
        self : TuRBOENNSearchCV
            The fitted search.
        """
        if not get_config()["skip_parameter_validation"]:
            self._validate_params()
        verbose = self.verbose
        self._trials = _Trials(self)
        # the base class would print a line for every batch, and one for every fit
        self.verbose = 0
        try:
            return super().fit(X, y, **params)
        except (KeyboardInterrupt, BrokenExecutor):
            # the latter: a worker process has died; joblib's pool cannot go on, as
            # results of the call that failed turn up among those of the next
            self._keep_finished()
            raise
        finally:
            self.verbose = verbose
            del self._trials

    def plot_convergence(self, ax=None):
        """Draw all scores and the best so far against the number of evaluations.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        ConvergenceDisplay
            Its ``ax_`` and ``figure_`` are those of matplotlib.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there are no results yet.
        """
        return ConvergenceDisplay.from_estimator(self, ax=ax)

    def _check_input_parameters(self, X, y, split_params):
        """Refuse a missing target before anything is fitted."""
        if y is None and get_tags(self.estimator).target_tags.required:
            raise ValueError(
                f"{type(self.estimator).__name__} requires y to be passed, but the "
                "target y is None. Call fit(X, y)."
            )

    def _run_search(self, evaluate_candidates, *, callback_ctx):
        """Propose, evaluate and learn, batch by batch."""
        trials = self._trials
        optimizer = TuRBOENN(
            trials.space,
            batch_size=self.batch_size,
            random_state=self.random_state,
            **(self.optimizer_params or {}),
        )
        splits = _FixedSplits(self._checked_cv_orig)
        # one by one where nothing runs beside it: no finished setting is lost to an
        # interrupt, and the progress is finer
        chunk = 1 if effective_n_jobs(self.n_jobs) == 1 else self.batch_size
        context = callback_ctx.subcontext(
            task_name="search", max_subtasks=self.n_iter if chunk == 1 else None
        ).call_on_fit_task_begin(estimator=self)
        bar = Progress(self.n_iter, "searching", enabled=trials.verbose == 1)
        stopped = False
        try:
            with bar, audible(enabled=trials.verbose >= 2):
                while not stopped and len(trials.params) < self.n_iter:
                    n = min(self.batch_size, self.n_iter - len(trials.params))
                    batch = trials.propose(optimizer, n)
                    if not batch:
                        warnings.warn(
                            f"TuRBOENNSearchCV: no new setting has turned up after "
                            f"{len(trials.params)} of n_iter={self.n_iter}. Lower "
                            "n_iter, or widen param_space.",
                            UserWarning,
                            stacklevel=2,
                        )
                        break
                    for start in range(0, len(batch), chunk):
                        points = batch[start : start + chunk]
                        stopped = self._evaluate(
                            points, evaluate_candidates, splits, context
                        )
                        optimizer.tell(points, trials.latest(len(points)))
                        bar.advance(len(points), best=trials.best_score)
                        if stopped:
                            break
            context.call_on_fit_task_end(estimator=self)
        finally:
            # not earlier: jobs carry a copy of this estimator
            self.optimizer_ = optimizer
            for name in _BEST:
                self.__dict__.pop(name, None)
        if not trials.out:
            raise ValueError(
                f"TuRBOENNSearchCV: the fits of all {len(trials.params)} settings "
                "failed. Check the estimator, its data and the parameter space. The "
                f"first failure was:\n{trials.first_error}"
            )
        trials.results.update(
            super()._format_results(trials.params, self.n_splits_, trials.out)
        )

    def _evaluate(self, points, evaluate_candidates, splits, context):
        """Score settings, failures included; return whether a callback says stop."""
        trials = self._trials
        batch_context = None
        # contexts know the whole tree, and every job carries its own: without
        # callbacks that would be dead freight, quadratic in n_iter
        if getattr(self, "_skl_callbacks", None):
            batch_context = context.subcontext(
                task_name="batch",
                max_subtasks=len(points) * self.n_splits_,
                sequential_subtasks=False,
            ).call_on_fit_task_begin(estimator=self)
        try:
            evaluate_candidates(points, splits, callback_ctx=batch_context)
        except ValueError as error:
            n_fits = len(points) * self.n_splits_
            if f"All the {n_fits} fits failed" not in str(error):
                raise
            trials.fail(points, str(error))
        trials.note(len(points))
        if trials.best_index is not None:
            self.best_index_ = trials.best_index
            self.best_score_ = trials.best_score
            self.best_params_ = trials.params[trials.best_index]
        return batch_context is not None and batch_context.call_on_fit_task_end(
            estimator=self
        )

    def _format_results(self, candidate_params, n_splits, out, more_results=None):
        """Return the dict that `_run_search` fills when the search is over.

        The base class formats all evaluations after every batch, which would take
        time quadratic in `n_iter`.
        """
        trials = self._trials
        trials.adopt(candidate_params, out)
        if isinstance(out[0]["test_scores"], dict) and callable(self.scoring):
            # the base class would tell after the last evaluation only
            self._check_refit_for_multimetric(out[0]["test_scores"])
        return trials.results

    def _keep_finished(self):
        """Set the results of the evaluations that an interrupt has left."""
        for name in (*_BEST, "best_estimator_", "refit_time_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        trials = self._trials
        if not trials.out:
            self.__dict__.pop("cv_results_", None)
            return
        n_finished = len(trials.out) // self.n_splits_
        results = super()._format_results(
            trials.params[:n_finished],
            self.n_splits_,
            trials.out[: n_finished * self.n_splits_],
        )
        # what the base class does after its search
        scorers, metric = self._get_scorers()
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        self.multimetric_ = isinstance(trials.out[0]["test_scores"], dict)
        if self.multimetric_:
            metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, metric, results)
            self.best_params_ = results["params"][self.best_index_]
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{metric}"][self.best_index_]
        self.cv_results_ = results

    def __getstate__(self):
        """State without the trials of a running search, which jobs do not need."""
        state = super().__getstate__()
        state.pop("_trials", None)
        return state

    def __sklearn_is_fitted__(self):
        """Tell a finished search from an interrupted one."""
        return hasattr(self, "cv_results_") and (
            not self.refit or hasattr(self, "best_estimator_")
        )

    def __sklearn_tags__(self):
        """Tags of the estimator, those of its target included."""
        tags = super().__sklearn_tags__()
        tags.target_tags = deepcopy(get_tags(self.estimator).target_tags)
        return tags


class _Trials:
    """The evaluations of a running search.

    `params` has one dict for each setting, and `out` one row of scikit-learn's results
    for each fit, setting by setting. They are the very lists that the base class
    extends, so that evaluations which it has refused can be entered in their place.

    Parameters
    ----------
    search : TuRBOENNSearchCV
        Its settings are read here, and not kept.
    """

    def __init__(self, search: TuRBOENNSearchCV) -> None:
        self.space = Space(search.param_space)
        self.verbose: int = search.verbose
        self.metric = search.refit
        self.error_score = search.error_score
        self.params: list[dict[str, Any]] = []
        self.out: list[dict[str, Any]] = []
        self.results: dict[str, Any] = {}
        self.scores: dict[bytes, float] = {}
        self.n_splits = 0
        self.best_index: int | None = None
        self.best_score: float = np.nan
        self.first_error: str = ""

    def propose(self, optimizer: TuRBOENN, n: int) -> list[dict[str, Any]]:
        """Return up to n settings without a score; none if no new ones turn up.

        A setting that is proposed again is told its score again: the optimizer learns
        that there is nothing to gain, and moves on.
        """
        for _ in range(_MAX_STALE_ROUNDS):
            new: dict[bytes, dict[str, Any]] = {}
            for point in optimizer.ask(n):
                key = self._key(point)
                if key in self.scores:
                    optimizer.tell([point], [self.scores[key]])
                else:
                    new[key] = point
            if new:
                return list(new.values())
        return []

    def adopt(self, params: list[dict[str, Any]], out: list[dict[str, Any]]) -> None:
        """Take over the lists of the base class at their first use."""
        if out is self.out:
            return
        # what has failed before the first success comes before it
        failed, self.n_splits = self.params, len(out) // len(params)
        out[:0] = self._failed_rows(out[0], len(failed))
        params[:0] = failed
        self.params, self.out = params, out
        if failed:
            self._warn(failed, self.first_error)

    def fail(self, points: list[dict[str, Any]], error: str) -> None:
        """Enter settings none of whose fits has succeeded."""
        self.first_error = self.first_error or error
        if self.out:
            self.out.extend(self._failed_rows(self.out[0], len(points)))
            # before the first success this waits: should none come, an error tells
            self._warn(points, error)
        self.params.extend(points)

    def note(self, n: int) -> None:
        """Remember the scores of the latest n settings, and the best."""
        first = len(self.params) - n
        for index, score in enumerate(self.latest(n).tolist(), start=first):
            self.scores[self._key(self.params[index])] = score
            if np.isfinite(score) and not score <= self.best_score:
                self.best_index, self.best_score = index, score
            if self.verbose >= 2:
                logger.info(
                    "setting %d: score %.4g, best %.4g, %s",
                    index + 1,
                    score,
                    self.best_score,
                    self.params[index],
                )

    def latest(self, n: int) -> np.ndarray:
        """Return mean scores (n,) of the latest settings, as the model sees them."""
        if not self.out:
            return np.full(n, self.error_score, dtype=np.float64)
        rows = [row["test_scores"] for row in self.out[-n * self.n_splits :]]
        if isinstance(rows[0], dict):
            named = isinstance(self.metric, str)
            metric = self.metric if named else next(iter(rows[0]))
            rows = [row[metric] for row in rows]
        return np.asarray(rows, dtype=np.float64).reshape(n, -1).mean(axis=1)

    def _key(self, point: dict[str, Any]) -> bytes:
        return self.space.to_unit([point]).tobytes()

    def _warn(self, points: list[dict[str, Any]], error: str) -> None:
        warnings.warn(
            f"TuRBOENNSearchCV: all fits failed for {points}. Their scores are "
            f"{self.error_score}; use error_score='raise' to stop at a failure. "
            f"A reason was: {error.strip().splitlines()[-1]}",
            FitFailedWarning,
            stacklevel=2,
        )

    def _failed_rows(self, like: dict[str, Any], n: int) -> list[dict[str, Any]]:
        """Return the rows of n settings, with the keys of `like`, for failures."""
        row = {**like, "fit_time": np.nan, "score_time": np.nan}
        for key in ("test_scores", "train_scores"):
            if isinstance(like.get(key), dict):
                row[key] = dict.fromkeys(like[key], self.error_score)
            elif key in like:
                row[key] = self.error_score
        return [row] * (n * self.n_splits)


class _FixedSplits:
    """A splitter that is asked once: all settings are compared on the same folds.

    Parameters
    ----------
    splitter : cross-validation splitter
        Possibly random.
    """

    def __init__(self, splitter: Any) -> None:
        self._splitter = splitter
        self._splits: list[Any] | None = None

    def split(self, X: Any, y: Any = None, **params: Any) -> list[Any]:
        """Return the pairs of training and test rows."""
        if self._splits is None:
            self._splits = list(self._splitter.split(X, y, **params))
        return self._splits
