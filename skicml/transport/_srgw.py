"""Gromov-Wasserstein matching that masks corrupted pairs (SRGW, ICML 2026)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skicml.base import (
    RANDOM_STATE,
    SkicmlEstimator,
    check_generator,
    check_same_home,
    check_X,
    to_host,
    to_like,
    validated_fit,
    warn_user,
)
from skicml.base._sklearn_compat import Interval, StrOptions
from skicml.transport import _srgw_plots as plots
from skicml.transport._clouds import (
    NOT_GIVEN,
    IntoTargetMixin,
    check_target_rows,
    sample_rows,
    take_rows,
)
from skicml.transport._graphs import GRAPH_COSTS
from skicml.transport._outlook import say_masked
from skicml.transport._srgw_input import (
    SIDES,
    Inputs,
    matrix_of,
    metric_of,
    read_inputs,
    read_settings,
    read_starts,
)
from skicml.transport._srgw_search import Descent, Settings, best_of, search
from skicml.transport._srgw_solver import PRICES, Problem, State, polish
from skicml.transport._srgw_starts import INITS
from skicml.transport._transport_steps import rounded
from skicml_accel._namespaces import array_kind, namespace_of
from skicml_accel._types import Array
from skicml_accel.transport import masked_gw_grad

#: Mean of a mask below which too little is left to trust the plan.
COLLAPSE = 0.2


class MaskCollapseWarning(UserWarning):
    """Most pairs are masked, so that the plan rests on few.

    Turn it into an error with ``warnings.simplefilter`` to stop a search at such fits.

    See Also
    --------
    SRGWMatcher : Warns so, if less than a fifth of the pairs of a space is trusted.

    Examples
    --------
    >>> import warnings
    >>> from skicml.transport import MaskCollapseWarning
    >>> warnings.simplefilter("default", MaskCollapseWarning)
    """


def _has_coordinates(side: str) -> Callable[[Any], bool]:
    """Condition of methods that return coordinates of a space."""

    def check(estimator: SRGWMatcher) -> bool:
        if estimator.metric == "precomputed":
            raise AttributeError(
                f"The {side} was given as a matrix of costs and has no coordinates. "
                "Use predict, or plan_ times the coordinates."
            )
        return True

    return check


class SRGWMatcher(IntoTargetMixin, SkicmlEstimator):
    r"""Match two spaces by their inner distances, some of which are wrong.

    Use it to align graphs, shapes or point clouds where single edges or distances are
    spurious, missing or corrupted: pairs that disagree with the rest are masked while
    the plan is learnt, so that they neither bend the matching nor stay hidden. All rows
    keep their full mass. Prefer :class:`LiftedGWAligner` for clean clouds, and for more
    than about 2,000 rows; a partial or unbalanced solver where whole rows have no
    partner.

    Minimized over all couplings T of the weights a and b and over masks between 0 and 1
    is

    .. math::
        \sum_{ijkl} W^x_{ik} W^y_{jl} (C^x_{ik} - C^y_{jl})^2 T_{ij} T_{kl}
        + \lambda \sum_{ik} a_i a_k \phi(W^x_{ik})
        + \lambda \sum_{jl} b_j b_l \phi(W^y_{jl}).

    The mean distortion R of each pair under the plan gives its best mask in closed
    form, for the quadratic penalty :math:`\max(0, 1 - R / \lambda)`. From each of
    several starts, :math:`\lambda` falls from the largest distortion, where nothing is
    masked, to what a robust estimate of the spread of the distortions calls an outlier.
    The start of the least truncated distortion is kept, and descends on the objective.

    Parameters
    ----------
    metric : str or callable, default="euclidean"
        Distance within each space: a name or a function of two rows, as in
        :func:`sklearn.metrics.pairwise_distances`. "precomputed": each space is its
        symmetric matrix of costs, of any meaning; a sparse matrix or a graph of
        networkx is turned into one by ``graph_cost``. Cross-validation cannot cut the
        matrix of the target and takes rows only.
    metric_params : dict or None, default=None
        Keyword arguments of the metric, or ``{"time": 1.0}`` of the heat kernel.
    graph_cost : {"weight", "shortest_path", "heat"}, default="weight"
        Cost between two nodes of a graph: the weight of their edge, 0 without one; the
        length of the shortest path, weights being lengths; or the heat kernel
        :math:`e^{-t L}` of the normalized Laplacian.
    penalty : {"quadratic", "geman", "hard"}, default="quadratic"
        The :math:`\phi`: :math:`(1 - w)^2 / 2`, :math:`(\sqrt w - 1)^2` or
        :math:`1 - w`, whose masks are 0 or 1. Costs that take two values, as those of
        an unweighted graph, are matched with "hard" in any case, and with a warning.
    lam : float or "auto", default="auto"
        Price :math:`\lambda` of a masked pair, in squared units of the cost. Large
        values mask nothing and give Gromov-Wasserstein. "auto" follows the data.
    mad_factor : float, default=3.0
        With "auto", how many robust standard deviations make an outlier.
    masks : {"both", "source", "target", "none"}, default="both"
        Spaces with a mask; "none" is Gromov-Wasserstein.
    init : str or array of shape ([k, ]n_samples, n_targets), default="auto"
        Starts: "tlb" matches rows by the quantiles of their costs, "welsch" refines
        that under a saturating loss, "density" does so from the densities of the costs,
        "random" from a random matching; "product" is the independent plan, "gw" the
        Gromov-Wasserstein plan from there; or plans. "auto" is "welsch", "density",
        "tlb" and "product", above 250,000 entries "tlb" alone.
    n_init : int or None, default=None
        Number of starts: the first ones of ``init``, and random ones after them. None
        means those of ``init``.
    solver : {"auto", "cg", "sinkhorn"}, default="auto"
        Step of the plan: "cg" is a conditional gradient with exact transport, on the
        CPU and in float64; "sinkhorn" a proximal step with entropic transport, on any
        device. "auto" takes "cg" on the CPU up to 4 million entries of the plan.
    epsilon : float, default=0.05
        Strength of the proximal term of "sinkhorn", in units of the largest entry of
        the gradient.
    anneal : float, default=0.9
        What :math:`\lambda` is multiplied by in each step; 0.75 is two or three times
        faster and finds somewhat worse plans.
    max_iter : int, default=200
        Greatest number of steps from one start.
    max_polish : int, default=100
        Greatest number of rounds of the final descent, whose objective never increases.
    tol : float, default=1e-6
        Change of the plan, as a sum of absolute values, and relative decrease of the
        objective in a round, at which the iterations stop.
    assignment : {"auto", "argmax", "lap"}, default="auto"
        What ``assignment_`` is: the largest entry of each row of the plan, or the
        linear assignment of the largest mass. "auto" takes "lap" for as many targets as
        samples, all of one weight.
    symmetrize : bool, default=False
        Take the mean of an asymmetric cost and its transpose, rather than refuse it.
    device : str or None, default=None
        Where "sinkhorn" computes, such as "cpu" or "cuda"; results come back where X
        is. None computes where X is.
    dtype : {"float32", "float64"} or None, default=None
        Precision of the steps of "sinkhorn"; None takes that of X.
    random_state : int, RandomState, Generator or None, default=None
        Draws random starts.
    n_jobs : int or None, default=None
        Processes over starts, as in joblib; the result does not depend on it.
    warm_start : bool, default=False
        Start from the plan of the previous fit alone, if it has the right shape.
    verbose : int, default=0
        From 1 on the memory and time to expect, and a progress bar, are shown on the
        standard error stream.

    Attributes
    ----------
    plan_ : array of shape (n_samples, n_targets)
        The plan; its rows sum to the weights of X, its columns to those of y.
    assignment_ : int64 array of shape (n_samples,)
        Row of y for each row of X.
    aligned_ : array of shape (n_samples, n_target_features)
        Mean image of each fitted row under the plan; not with "precomputed".
    source_mask_ : array of shape (n_samples, n_samples)
        Trust in each pair of X, from 0, filtered, to 1. From distortions that the other
        mask does not enter. 0 for rows without mass.
    target_mask_ : array of shape (n_targets, n_targets)
        Trust in each pair of y.
    source_trust_ : array of shape (n_samples,)
        Weighted mean of each row of the mask; low for rows out of place.
    target_trust_ : array of shape (n_targets,)
        That of y.
    srgw_dist_ : float
        Gromov-Wasserstein cost of the plan under both masks, in squared units of the
        cost.
    gw_dist_ : float
        That without masks.
    objective_ : float
        Objective at the end of the descent, in squared units of the cost. Its masks
        follow from distortions under each other, and may differ from those above.
    objective_curve_ : ndarray of shape (3 * n_rounds + 1,)
        At the start of the descent and after each of its steps, never increasing.
    lam_ : float
        The price that the masks follow from, in squared units of the cost.
    start_scores_ : ndarray of shape (n_starts,)
        Truncated distortion that each descent ended with, relative to the variance of
        the costs; the lowest was kept.
    history_ : dict of str to ndarray
        "lam", "gw_dist", "score" and "change" of the plan in each step of the start
        that was kept, in scaled units.
    n_iter_ : int
        Steps of the start that was kept.
    converged_ : bool
        Whether these and the descent came to an end before their greatest number.
    scale_ : float
        What the costs were divided by: their common standard deviation. A constant that
        is added to both costs changes nothing.
    penalty_ : str
        The penalty used.
    n_features_in_ : int
        Columns of X seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string names.

    See Also
    --------
    LiftedGWAligner : For clean spaces, up to a hundred thousand rows.
    skicml.transport.srgw_distance : The same as a function of two matrices.
    ot.gromov.gromov_wasserstein : Without masks.
    ot.gromov.partial_gromov_wasserstein : Leaves out rows rather than pairs.

    Notes
    -----
    Of the paper only title and abstract could be read. From there are the two masks
    that filter pairs and are learnt with the plan, the strict marginals, and the
    alternation, which the paper calls Mask-Guided GW. The objective, the penalties, the
    unmasked residuals, the annealing, the starts and their choice are our formulation
    in the spirit of the paper, and its figures are not ours.

    Time O(n m (n + m)) a step, and that of exact transport with "cg": cubic or worse.
    Memory of less than 8 (n^2 + m^2 + n m) numbers. Deterministic given ``random_state``, up to
    ties. The objective is semi-algebraic and the descent decreases it over one block at
    a time, in which case theory promises a critical point; we test that it never
    increases.

    References
    ----------
    Cheng, Huang, Song, Zhang, Han and Ding, "Achieving Structurally Robust
    Gromov-Wasserstein Distance via Adaptive Dual-Mask", ICML 2026, PMLR 306.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.spatial.distance import pdist, squareform
    >>> from skicml import SRGWMatcher
    >>> rng = np.random.default_rng(0)
    >>> clean = squareform(pdist(rng.normal(size=(30, 2))))
    >>> wrong = np.triu(rng.random(clean.shape) < 0.1, 1)
    >>> wrong |= wrong.T
    >>> noise = rng.uniform(high=clean.max(), size=clean.shape)
    >>> corrupted = np.where(wrong, (noise + noise.T) / 2, clean)
    >>> matcher = SRGWMatcher(metric="precomputed").fit(corrupted, clean[::-1, ::-1])
    >>> bool((matcher.assignment_ == np.arange(30)[::-1]).all())
    True
    >>> bool(matcher.source_mask_[wrong].mean() < matcher.source_mask_[~wrong].mean())
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "metric": [str, callable],
        "metric_params": [dict, None],
        "graph_cost": [StrOptions(set(GRAPH_COSTS))],
        "penalty": [StrOptions(set(PRICES))],
        "lam": [StrOptions({"auto"}), Interval(Real, 0, 1e300, closed="neither")],
        "mad_factor": [Interval(Real, 0, 1e6, closed="neither")],
        "masks": [StrOptions({"both", *SIDES, "none"})],
        "init": [StrOptions(set(INITS)), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left"), None],
        "solver": [StrOptions({"auto", "cg", "sinkhorn"})],
        "epsilon": [Interval(Real, 1e-6, 1e6, closed="both")],
        "anneal": [Interval(Real, 0, 1, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_polish": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "assignment": [StrOptions({"auto", "argmax", "lap"})],
        "symmetrize": ["boolean"],
        "device": [str, None],
        "dtype": [StrOptions({"float32", "float64"}), None],
        "random_state": RANDOM_STATE,
        "n_jobs": [Integral, None],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        metric="euclidean",
        *,
        metric_params=None,
        graph_cost="weight",
        penalty="quadratic",
        lam="auto",
        mad_factor=3.0,
        masks="both",
        init="auto",
        n_init=None,
        solver="auto",
        epsilon=0.05,
        anneal=0.9,
        max_iter=200,
        max_polish=100,
        tol=1e-6,
        assignment="auto",
        symmetrize=False,
        device=None,
        dtype=None,
        random_state=None,
        n_jobs=None,
        warm_start=False,
        verbose=0,
    ):
        self.metric = metric
        self.metric_params = metric_params
        self.graph_cost = graph_cost
        self.penalty = penalty
        self.lam = lam
        self.mad_factor = mad_factor
        self.masks = masks
        self.init = init
        self.n_init = n_init
        self.solver = solver
        self.epsilon = epsilon
        self.anneal = anneal
        self.max_iter = max_iter
        self.max_polish = max_polish
        self.tol = tol
        self.assignment = assignment
        self.symmetrize = symmetrize
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.verbose = verbose

    @validated_fit(iterative=True)
    def fit(self, X, y=NOT_GIVEN, *, source_weight=None, target_weight=None):
        """Find the plan and the masks between two spaces.

        Parameters
        ----------
        X : array of shape (n_samples, n_features) or (n_samples, n_samples), or graph
            The source: rows, dense or sparse; with ``metric="precomputed"`` the matrix
            of its costs, or a sparse matrix or networkx graph of ``graph_cost``.
        y : array of shape (n_targets, n_target_features) or as X for costs
            The target, of any number of rows and columns.
        source_weight : array of shape (n_samples,) or None, default=None
            Mass of each row of X, divided by its sum; None means equal. Less than
            1e-12 of all counts as none.
        target_weight : array of shape (n_targets,) or None, default=None
            Mass of each row of y.

        Returns
        -------
        SRGWMatcher
            The fitted estimator.

        Raises
        ------
        TypeError
            If y is left out.
        ValueError
            If an array or a weight is not finite or has a wrong shape, a precomputed
            cost is not symmetric, or a parameter does not fit the data.

        Warns
        -----
        ConvergenceWarning
            If an iteration reached its greatest number; names the parameter to raise.
        MaskCollapseWarning
            If less than a fifth of the pairs of a space is trusted.
        """
        inputs = read_inputs(self, X, y, source_weight, target_weight)
        previous = getattr(self, "plan_", None) if self.warm_start else None
        rng = check_generator(self.random_state)
        plans = read_starts(self, inputs, previous, rng)
        settings, problem = read_settings(self, inputs)
        say_masked(problem, settings.solver, self.max_iter, self.verbose)
        step = settings.step(problem)
        descents: list[Descent] = []
        polished = None
        try:
            search(
                problem, plans, settings, descents, estimator=self, n_jobs=self.n_jobs
            )
            best = best_of(descents)
            polished = polish(
                problem, best.plan, best.lam, step, self.max_polish, self.tol
            )
        finally:
            best = best_of(descents)
            if best.plan is not None:
                # an interrupted fit keeps the best plan it has, as it is
                found = polished or polish(problem, best.plan, best.lam, step, 0, 0.0)
                self._keep_names(y)
                scores = [descent.score for descent in descents]
                self._scores: list[float] = [
                    score for score in scores if np.isfinite(score)
                ]
                self._publish(inputs, settings, best, *found)
                self.converged_ &= polished is not None
        self._warn()
        return self

    def _publish(
        self,
        inputs: Inputs,
        settings: Settings,
        best: Descent,
        plan: Array,
        curve: list[float],
        settled: bool,
    ) -> None:
        """Set the fitted attributes, in the precision and the library of X."""
        problem, home = inputs.problem, inputs.costs[0]
        self._rows, self._costs = inputs.rows, inputs.costs
        self._weights = inputs.weights
        self.scale_, self.penalty_ = inputs.scale, problem.penalty
        unit = self.scale_**2
        self.history_ = best.history
        self.n_iter_ = len(next(iter(best.history.values()), ()))
        self.lam_ = best.lam * unit
        self._curve = [value * unit for value in curve]
        self.objective_ = self._curve[-1]
        self._settled, self._polished = best.settled, settled
        self.converged_ = bool(best.settled and settled)
        # the last word is in double precision, marginals included
        plan = np.asarray(to_host(plan), dtype=np.float64)
        if settings.solver != "cg":
            plan = rounded(plan, problem.a, problem.b)
        final = State.of(problem, plan, best.lam)
        masked = final.masked(problem)
        self.gw_dist_ = final.distortion(problem) * unit
        gradient = masked_gw_grad(*masked, plan)
        self.srgw_dist_ = max(float(np.vdot(gradient, plan)) / 2, 0.0) * unit
        whole = np.zeros([w.shape[0] for w in self._weights])
        whole[np.ix_(*inputs.kept)] = plan
        self.plan_ = to_like(whole, home)
        assignment = self._assignment(whole, problem)
        self.assignment_ = to_like(assignment, home, cast=False)
        self._store_masks(masked, inputs.kept, home)
        if self.metric != "precomputed":
            self.aligned_ = self._aligned(whole, assignment, home)

    def _assignment(self, plan: np.ndarray, problem: Problem) -> np.ndarray:
        n, m = plan.shape
        mass = plan.sum(axis=1)
        found = plan.argmax(axis=1)
        uniform = problem.a.shape == (n,) and np.ptp(problem.a) == 0
        if self.assignment == "lap" or (
            self.assignment == "auto" and n == m and uniform and len(problem.b) == m
        ):
            rows, columns = linear_sum_assignment(-plan)
            found[rows] = columns
        if (mass == 0).any():
            # a row without mass goes where its costs would be distorted the least
            Cx, Cy = (np.asarray(to_host(C), np.float64) for C in self._costs)
            to = (Cy**2) @ plan.sum(axis=0) - 2 * (Cx / mass.sum()) @ plan @ Cy
            found[mass == 0] = to[mass == 0].argmin(axis=1)
        return found.astype(np.int64)

    def _aligned(self, plan: np.ndarray, assignment: np.ndarray, home: Array) -> Array:
        shares = np.zeros_like(plan)
        shares[np.arange(len(plan)), assignment] = 1.0
        mass = plan.sum(axis=1)
        shares[mass > 0] = plan[mass > 0] / mass[mass > 0, None]
        Y = self._rows[1]
        target = Y if array_kind(Y) == "scipy.sparse" else to_host(Y)
        return to_like(shares @ target, home)

    def _store_masks(self, masked: Any, kept: Any, home: Array) -> None:
        for name, moments, index, weights in zip(
            SIDES, masked, kept, self._weights, strict=True
        ):
            n = weights.shape[0]
            mask = np.zeros((n, n))
            mask[np.ix_(index, index)] = moments[0]
            trust = mask @ np.asarray(to_host(weights), dtype=np.float64)
            setattr(self, f"{name}_mask_", to_like(mask, home))
            setattr(self, f"{name}_trust_", to_like(trust, home))

    def _warn(self) -> None:
        if not self._settled:
            warn_user(
                f"After max_iter={self.max_iter} steps lambda is at {self.lam_:.3g} "
                "and not at its end. Raise max_iter, or lower anneal.",
                ConvergenceWarning,
            )
        elif not self._polished and self.max_polish > 0:
            fall = self._curve[-4] - self._curve[-1]
            warn_user(
                f"The objective still fell by {fall:.2g} in the last of max_polish="
                f"{self.max_polish} rounds. Raise max_polish, or tol.",
                ConvergenceWarning,
            )
        for name in SIDES:
            trust = self._mean_trust(name)
            if trust < COLLAPSE:
                warn_user(
                    f"Only {trust:.0%} of the pairs of the {name} are trusted, and the "
                    "plan rests on them. Raise lam or mad_factor, or compare with "
                    "masks='none'.",
                    MaskCollapseWarning,
                )

    def _mean_trust(self, side: str) -> float:
        weights = self._weights[SIDES.index(side)]
        return float(getattr(self, f"{side}_trust_") @ weights)

    @property
    def objective_curve_(self) -> np.ndarray:
        """Objective at the start of the descent and after each of its steps."""
        check_is_fitted(self, "plan_")
        return np.array(self._curve)

    @property
    def start_scores_(self) -> np.ndarray:
        """Truncated distortion that each descent ended with."""
        check_is_fitted(self, "plan_")
        return np.array(self._scores)

    @available_if(_has_coordinates("target"))
    def transform(self, X):
        """Carry rows into the space of the target.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows of the source space, fitted or new.

        Returns
        -------
        array of shape (n_rows, n_target_features)
            Mean image of the nearest fitted row under the plan, and the mean of these
            for several that are equally near.

        Raises
        ------
        ValueError
            If X does not fit the source.
        """
        X = self._check_rows(X, "transform")
        return metric_of(self).nearest_mean(X, self._rows[0], self.aligned_)

    @available_if(_has_coordinates("source"))
    def inverse_transform(self, y):
        """Carry rows of the target space into that of the source.

        Parameters
        ----------
        y : array of shape (n_rows, n_target_features)
            Rows of the target space, fitted or new.

        Returns
        -------
        array of shape (n_rows, n_features)
            Mean of the sources of the nearest fitted row under the plan.

        Raises
        ------
        ValueError
            If y does not fit the target, or is nearest to a row without mass.
        """
        check_is_fitted(self, "plan_")
        X, Y = self._rows
        self._check_names(y)
        rows = check_target_rows(self, y, Y, accept_sparse=True)
        xp = namespace_of(self.plan_)
        mass = xp.sum(self.plan_, axis=0)
        if bool(xp.any(mass == 0)):
            raise ValueError(
                "inverse_transform needs a mass in each row of the target, but "
                f"target_weight is zero in {int(xp.count_nonzero(mass == 0))} of them. "
                "Leave these rows out of fit."
            )
        images = (self.plan_ / mass).T @ X
        return metric_of(self).nearest_mean(rows, Y, images)

    def predict(self, X):
        """Find the row of the target that matches.

        Parameters
        ----------
        X : array of shape (n_rows, n_features) or (n_rows, n_samples)
            Rows of the source space, fitted or new; with "precomputed" their costs to
            the fitted rows, of which that with the nearest costs is taken.

        Returns
        -------
        int64 array of shape (n_rows,)
            ``assignment_`` of the nearest fitted row, the first of equals.

        Raises
        ------
        ValueError
            If X does not fit the source.
        """
        X = self._check_rows(X, "predict")
        xp = namespace_of(self.assignment_)
        return xp.take(
            self.assignment_, metric_of(self).nearest_first(X, self._rows[0])
        )

    def _check_rows(self, X: Any, method: str) -> Array:
        check_is_fitted(self, "plan_")
        if issparse(X) and self.metric == "precomputed" and self.graph_cost == "weight":
            # some rows of a matrix, where fit has seen all of them
            X = X.toarray()
        X = matrix_of(self, X, "source")
        check_same_home(self, X, "plan_", method)
        sparse = self.metric != "precomputed"
        X = check_X(self, X, reset=False, accept_sparse=sparse, method=method)
        if array_kind(X) == "scipy.sparse":
            return X
        return namespace_of(X).astype(X, self.plan_.dtype)

    def score(self, X, y=None):
        """Negative mean distortion of the distances between matched rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows of the source space; of more than 2,000 as many are taken, evenly
            spaced. With "precomputed" the fitted rows are scored.
        y : None
            Ignored.

        Returns
        -------
        float
            At most 0. Minus the mean of :math:`(C^x_{ik} - C^y_{p(i) p(k)})^2`, with
            p what :meth:`predict` returns, over the variance of the costs of both
            fitted spaces. No mask enters, so that it compares any parameters.

        Raises
        ------
        ValueError
            If X does not fit the source.
        """
        check_is_fitted(self, "plan_")
        Cx, Cy = self._costs
        if self.metric == "precomputed":
            index = sample_rows(self.assignment_)
            matching = namespace_of(index).take(self.assignment_, index)
            Cx = _submatrix(Cx, index)
        else:
            rows = self._check_rows(X, "score")
            index = sample_rows(rows)
            rows = take_rows(rows, index)
            matching = self.predict(rows)
            Cx = metric_of(self).within(rows)
        gap = (Cx - _submatrix(Cy, matching)) / self.scale_
        with np.errstate(over="ignore"):
            score = -float(namespace_of(gap).mean(gap * gap))
        if score == float("-inf"):
            raise ValueError(
                "The distances between these rows are too far from those seen in fit: "
                "their squares overflow. Scale the rows as those in fit."
            )
        return score

    def masked_cost(self, side="source"):
        """Multiply the costs of a space by the trust in them.

        Parameters
        ----------
        side : {"source", "target"}, default="source"
            Which space.

        Returns
        -------
        array of shape (n_samples, n_samples) or (n_targets, n_targets)
            Mask times cost: what is left of a graph when its spurious edges are gone.

        Raises
        ------
        ValueError
            If the side is unknown.
        """
        return self._mask(side) * self._costs[SIDES.index(side)]

    def edge_outliers(self, side="source", *, threshold=0.5):
        """List the pairs that the mask filters.

        Parameters
        ----------
        side : {"source", "target"}, default="source"
            Which space.
        threshold : float, default=0.5
            Least score of a pair that is returned.

        Returns
        -------
        list of tuple of int, int, float
            Rows i < k, and the score 1 - W of their pair, from the highest down. A pair
            that is absent from a graph counts as one that is there: it may be missing.

        Raises
        ------
        ValueError
            If the side is unknown, or the threshold is not between 0 and 1.
        """
        if not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1:
            raise ValueError(
                f"threshold must be a number between 0 and 1, got {threshold!r}."
            )
        score = 1 - np.asarray(to_host(self._mask(side)), dtype=np.float64)
        first, second = np.nonzero(np.triu(score >= threshold, 1))
        values = score[first, second]
        order = np.argsort(-values, kind="stable")
        return [
            (int(i), int(k), float(v))
            for i, k, v in zip(first[order], second[order], values[order], strict=True)
        ]

    def _mask(self, side: str) -> Array:
        check_is_fitted(self, "plan_")
        if side not in SIDES:
            raise ValueError(f"side must be 'source' or 'target', got {side!r}.")
        return getattr(self, f"{side}_mask_")

    def plot_plan(self, ax=None):
        """Show the plan as a picture, with the assignment.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        check_is_fitted(self, "plan_")
        return plots.plot_plan(to_host(self.plan_), to_host(self.assignment_), ax)

    def plot_masks(self, side="source", *, ax=None):
        """Show a mask as a picture, dark where pairs are filtered.

        Parameters
        ----------
        side : {"source", "target"}, default="source"
            Which space.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ValueError
            If the side is unknown.
        ImportError
            If matplotlib is not installed.
        """
        return plots.plot_mask(to_host(self._mask(side)), side, ax)

    def plot_trust(self, side="source", *, ax=None):
        """Show how far each row is trusted, from the least on.

        Parameters
        ----------
        side : {"source", "target"}, default="source"
            Which space.
        ax : matplotlib.axes.Axes or None, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ValueError
            If the side is unknown.
        ImportError
            If matplotlib is not installed.
        """
        self._mask(side)
        return plots.plot_trust(to_host(getattr(self, f"{side}_trust_")), side, ax)

    @property
    def _n_features_out(self) -> int:
        return self._rows[1].shape[1]

    def __sklearn_tags__(self):
        """Tags: two spaces, arrays of any library, matrices of costs, sparse rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.array_api_support = True
        return tags


def _submatrix(C: Array, index: Array) -> Array:
    xp = namespace_of(C)
    return xp.take(xp.take(C, index, axis=0), index, axis=1)
