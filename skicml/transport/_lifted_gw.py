"""Gromov-Wasserstein at scale through lifted features (arXiv 2602.06658)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Bunch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skicml.base import (
    RANDOM_STATE,
    SkicmlEstimator,
    check_generator,
    check_same_home,
    check_X,
    resolve_device,
    to_device,
    to_like,
    validated_fit,
    warn_user,
)
from skicml.base._sklearn_compat import Interval, StrOptions
from skicml.transport._clouds import (
    NOT_GIVEN,
    IntoTargetMixin,
    as_values,
    check_cost_matrix,
    check_marginal,
    check_spaces,
    check_target_rows,
    sample_rows,
    take_rows,
)
from skicml.transport._costs import FORMULAS, Cost, parse_costs
from skicml.transport._egw_search import Descent, best_of, distinct, search
from skicml.transport._egw_solver import Spaces, State, polished, spaces_of
from skicml.transport._lift import LARGEST_MATRIX, Lift, lift
from skicml.transport._lifted_plan import LiftedPlan
from skicml.transport._outlook import say_lifted
from skicml.transport._starts import INITS, of_matching, random, starts
from skicml_accel._namespaces import dtype_name, namespace_of
from skicml_accel._types import Array

#: Rows up to which ``solver="auto"`` works with whole matrices, or on a single scale.
AUTO_KERNEL = 500
AUTO_CNT = 20_000
#: Entries of the largest plan that is returned as a matrix.
LARGEST_PLAN = 25_000_000
#: Rows of the largest problem whose exact cost is computed.
LARGEST_EXACT = 4_000
#: Relative epsilon below which single precision resolves no plan.
SMALLEST_SINGLE = 1e-5
#: Share of negative eigenvalues, and of the distances kept, that call for a warning.
LARGEST_DEFECT = 1e-2
SMALLEST_EXPLAINED = 0.5


def _has_coordinates(side: str) -> Callable[[Any], bool]:
    """Condition of methods that return coordinates of a space."""

    def check(estimator: LiftedGWAligner) -> bool:
        cost = estimator.cost
        if isinstance(cost, tuple):
            cost = cost[side == "target"] if len(cost) == 2 else None
        if isinstance(cost, str) and cost == "precomputed":
            raise AttributeError(
                f"The {side} was given as a matrix of costs and has no coordinates. "
                "Use predict, or plan_operator_ times the coordinates."
            )
        return True

    return check


class LiftedGWAligner(IntoTargetMixin, SkicmlEstimator):
    r"""Match two spaces that share no coordinates by their inner distances, at scale.

    Use it to align embeddings, point clouds or shapes that differ by rotation,
    dimension or number of rows: ``fit(X, Y)`` finds which rows of Y correspond to
    which rows of X, ``transform`` carries rows of X into the space of Y, new rows
    included. Prefer a linear method such as Procrustes where a correspondence is known,
    :class:`SRGWMatcher` where single distances are corrupted, and a partial or
    unbalanced solver where rows have no partner.

    Minimized over all couplings P of the weights a and b is

    .. math::
        \sum_{ijkl} (c_X(x_i, x_k) - c_Y(y_j, y_l))^2 P_{ij} P_{kl}
        + \varepsilon\, KL(P \,|\, a b^\top).

    A cost of conditionally negative type is a squared distance
    :math:`|\phi(x) - \phi(x')|^2` between lifted points. With the leading
    ``n_components`` axes u, w of both lifts, centered, the problem becomes an
    alternation between entropic transport with the cost
    :math:`-16 u_i^\top \Gamma w_j - 4 |\phi(x_i)|^2 |\phi(y_j)|^2`, which has rank
    ``n_components + 1`` and is never stored, and
    :math:`\Gamma = \sum_{ij} P_{ij} u_i w_j^\top`. Memory is linear in the number of
    rows, time quadratic.

    Parameters
    ----------
    cost : str, callable or pair of these, default="euclidean"
        Cost between rows of a space, or one for each: "euclidean", "sqeuclidean",
        "cityblock", "power" (:math:`|x - x'|^p`), "gaussian"
        (:math:`2 - 2 e^{-|x - x'|^2 / 2 \sigma^2}`), "precomputed" (the space is its
        square matrix of costs), or a function of two tables that returns the costs of
        all pairs.
    cost_params : dict or pair of dicts, default=None
        Parameter of a formula: ``{"p": 1.5}`` with 0 < p <= 2, ``{"sigma": 0.3}``.
        Both are 1 by default.
    n_components : int, default=20
        Axes of each lift, at most the number of rows less one. ``solver="kernel"``
        keeps all.
    solver : {"auto", "cnt", "kernel", "multiscale"}, default="auto"
        "cnt" works with the leading axes. "kernel" works with all of them and with
        stored matrices, which is exact and needs quadratic memory and cubic time; above
        2,000 rows only for precomputed costs. "multiscale" first matches the centers of
        clusters. "auto" takes "kernel" for precomputed costs and up to 500 rows, "cnt"
        up to 20,000, then "multiscale".
    epsilon : float, default=5e-3
        Entropic regularization, in squared units of the scaled cost. Small values give
        sharp plans and take longer.
    anneal : bool, default=False
        Begin at ten times ``epsilon`` and halve it each iteration: often faster where
        ``epsilon`` is small, to other solutions of about the same objective.
    diagonal : {"exact", "truncated"}, default="exact"
        Whether distances to the center are those of all axes, or of those kept. The
        latter is the authors' code, matches worse with few axes, and keeps the
        objective a Gromov-Wasserstein cost of truncated spaces.
    cost_scale : {"rms", "separate", "none"}, default="rms"
        What costs are divided by: their common root mean square, each by its own, or
        nothing. Results come back in the units of the cost, except with "separate",
        which compares shapes of different sizes.
    init : {"auto", "zero", "random", "sign"} or int array, default="auto"
        Start of gamma: "zero" matches by the distance to the center, "sign" maps
        leading axes to plus or minus leading axes in all 8 ways, "random" draws
        ``n_init`` matrices, an array (n_samples,) gives the target row of each row.
        "auto" is "zero", with larger ``n_init`` followed by "sign" and "random".
    n_init : int, default=1
        Starts of "auto" and "random"; the lowest objective is kept.
    max_iter : int, default=100
        Greatest number of outer iterations.
    tol : float, default=1e-4
        Relative change of the objective at which they stop; "multiscale" stops at ten
        times as much when it refines a coarse solution.
    sinkhorn_tol : float, default=1e-3
        Error of the marginals, as a sum of absolute values, at which the inner
        iteration stops. Row sums are exact at any time.
    sinkhorn_max_iter : int, default=500
        Greatest number of inner iterations.
    coarse_ratio : float, default=0.1
        Clusters per row of "multiscale".
    debias : bool, default=False
        Compute ``debiased_``, at the cost of two more solutions from ``n_init`` starts
        and the identity.
    device : str or None, default=None
        Where ``fit`` computes, such as "cpu" or "cuda"; results come back where X is.
        None computes where X is.
    dtype : {"float32", "float64"} or None, default="float32"
        Precision of the iterations; None takes that of X. The last pass, and so all
        that is returned, is in that of X.
    random_state : int, RandomState, Generator or None, default=None
        Draws random starts, subspaces and cluster centers.
    warm_start : bool, default=False
        Start from the gamma of the previous fit, if it has the right shape.
    verbose : int, default=0
        From 1 on the memory and time to expect, and a progress bar, are shown on the
        standard error stream.

    Attributes
    ----------
    gamma_ : array of shape (n_components_x, n_components_y)
        The map between lifted coordinates, in units of the cost.
    potentials_ : tuple of arrays of shapes (n_samples,) and (n_targets,)
        Dual potentials f and g of the plan
        :math:`a_i b_j \exp((f_i + g_j - c_{ij}) / \varepsilon)`, in squared units of
        the cost.
    embedding_x_ : array of shape (n_samples, n_components_x)
        Lifted coordinates of X; inner products are in units of the cost.
    embedding_y_ : array of shape (n_targets, n_components_y)
        Lifted coordinates of Y.
    eigenvalues_x_ : array of shape (n_components_x,)
        Weighted second moments of the coordinates of X.
    eigenvalues_y_ : array of shape (n_components_y,)
        Those of Y.
    explained_x_, explained_y_ : float
        Share of the mean squared distance to the center on the axes kept.
    aligned_ : array of shape (n_samples, n_target_features)
        Mean image of each fitted row under the plan; not for a precomputed or sparse
        target.
    matching_ : int64 array of shape (n_samples,)
        Row of Y with the largest entry of the plan.
    gw_ : float
        Gromov-Wasserstein cost of the plan in the model, in squared units of the cost.
        May fall below that of the untruncated problem with ``diagonal="truncated"``.
    egw_ : float
        With the entropic term.
    debiased_ : float
        ``egw_`` less half of that of each space with itself; only with ``debias``.
    minima_ : list of Bunch
        Distinct solutions of the starts, best first, with gamma, egw, matching and the
        count of starts that ended there; more from :meth:`explore`.
    history_ : dict of str to ndarray
        "egw", "marginal_error" and "n_sinkhorn" of each outer iteration of the start
        that was kept, in scaled units.
    energy_curve_ : ndarray of shape (n_iter_,)
        Objective after each outer iteration, in squared units of the cost.
    marginal_error_ : float
        Sum of absolute errors of the column sums of the plan.
    n_iter_ : int
        Outer iterations of the start that was kept.
    n_sinkhorn_iter_ : int
        Its passes over the plan.
    converged_ : bool
        Whether ``tol`` and ``sinkhorn_tol`` were reached.
    cnt_defect_ : float
        Largest share of negative eigenvalues in a cost; 0 for conditionally negative
        type.
    scale_ : tuple of float
        What the costs were divided by.
    n_features_in_ : int
        Columns of X seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string names.

    See Also
    --------
    ot.gromov.entropic_gromov_wasserstein : Same problem with stored matrices.
    ot.gromov.fused_gromov_wasserstein : With features that both spaces share.
    ot.gromov.partial_gromov_wasserstein : Where only a part of the mass has a match;
        ``ot.gromov.fused_unbalanced_gromov_wasserstein`` relaxes the marginals.
    skicml.transport.egw_loss : Differentiable, for torch.

    Notes
    -----
    Time O((n + n_sinkhorn) n m D) with D = ``n_components``, memory O((n + m) D).
    Deterministic given ``random_state``. Equal distances leave equal choices: the
    problem is not convex and has one minimum per symmetry of the shape, see
    :meth:`explore`. On an exact isometry of few rows the unregularized solver of POT
    can be more accurate.

    Debiasing, ``diagonal="exact"``, weighted kernel PCA, scaling, the extrapolated
    Sinkhorn iteration and out-of-sample maps are choices of this package, not of the
    reference.

    References
    ----------
    C. Houry, J. Feydy and F.-X. Vialard, "Gromov-Wasserstein at Scale, Beyond Squared
    Norms", ICML 2026, arXiv 2602.06658.

    Examples
    --------
    >>> import numpy as np
    >>> from skicml import LiftedGWAligner
    >>> X = np.random.default_rng(0).normal(size=(200, 3)) * [3, 2, 1]
    >>> Y = X[::-1] @ np.linalg.qr(np.arange(9.0).reshape(3, 3) + np.eye(3))[0]
    >>> aligner = LiftedGWAligner(n_init=9, random_state=0).fit(X, Y)
    >>> bool(np.mean(aligner.matching_ == np.arange(200)[::-1]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "cost": [StrOptions({*FORMULAS, "precomputed"}), callable, tuple],
        "cost_params": [dict, tuple, None],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "cnt", "kernel", "multiscale"})],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "anneal": ["boolean"],
        "diagonal": [StrOptions({"exact", "truncated"})],
        "cost_scale": [StrOptions({"rms", "separate", "none"})],
        "init": [StrOptions(set(INITS)), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "sinkhorn_tol": [Interval(Real, 0, None, closed="neither")],
        "sinkhorn_max_iter": [Interval(Integral, 1, None, closed="left")],
        "coarse_ratio": [Interval(Real, 0, 1, closed="right")],
        "debias": ["boolean"],
        "device": [str, None],
        "dtype": [StrOptions({"float32", "float64"}), None],
        "random_state": RANDOM_STATE,
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        cost="euclidean",
        *,
        cost_params=None,
        n_components=20,
        solver="auto",
        epsilon=5e-3,
        anneal=False,
        diagonal="exact",
        cost_scale="rms",
        init="auto",
        n_init=1,
        max_iter=100,
        tol=1e-4,
        sinkhorn_tol=1e-3,
        sinkhorn_max_iter=500,
        coarse_ratio=0.1,
        debias=False,
        device=None,
        dtype="float32",
        random_state=None,
        warm_start=False,
        verbose=0,
    ):
        self.cost = cost
        self.cost_params = cost_params
        self.n_components = n_components
        self.solver = solver
        self.epsilon = epsilon
        self.anneal = anneal
        self.diagonal = diagonal
        self.cost_scale = cost_scale
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.sinkhorn_tol = sinkhorn_tol
        self.sinkhorn_max_iter = sinkhorn_max_iter
        self.coarse_ratio = coarse_ratio
        self.debias = debias
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    @validated_fit(iterative=True)
    def fit(self, X, y=NOT_GIVEN, *, source_weight=None, target_weight=None):
        """Find the plan between two spaces.

        Parameters
        ----------
        X : array of shape (n_samples, n_features) or (n_samples, n_samples)
            The source: rows, or the matrix of a precomputed cost. NumPy, pandas, torch
            or CuPy; for the cost formulas also a SciPy matrix.
        y : array of shape (n_targets, n_target_features) or (n_targets, n_targets)
            The target, of any number of rows and columns.
        source_weight : array of shape (n_samples,) or None, default=None
            Mass of each row of X, divided by its sum; None means equal.
        target_weight : array of shape (n_targets,) or None, default=None
            Mass of each row of y.

        Returns
        -------
        LiftedGWAligner
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
            If an iteration ended before its tolerance; names the parameter to raise.
        """
        X, Y = check_spaces(self, X, y, accept_sparse=self._takes_sparse)
        a = check_marginal(source_weight, X, name="source_weight")
        b = check_marginal(target_weight, Y, name="target_weight")
        self._keep_names(y)
        home = X
        device = resolve_device(self.device)
        X, Y, a, b = (to_device(array, device) for array in (X, Y, a, b))
        rng = check_generator(self.random_state)
        plan = getattr(self, "_plan", None) if self.warm_start else None
        previous = None if plan is None else plan.gamma
        source, target = self._lifts(X, Y, a, b, rng)
        self._solve(source, target, previous, rng, home)
        return self

    def _lifts(
        self, X: Array, Y: Array, a: Array, b: Array, rng: np.random.Generator
    ) -> tuple[Lift, Lift]:
        """Lift both spaces, and complain about lifts that lose much."""
        costs = parse_costs(self.cost, self.cost_params)
        largest = max(X.shape[0], Y.shape[0])
        self._solver = self._chosen_solver(costs, largest)
        lifts = []
        for cost, rows, weights, name in (
            (costs[0], X, a, "source"),
            (costs[1], Y, b, "target"),
        ):
            if cost.name == "precomputed":
                rows = check_cost_matrix(rows, name=name, parameter="cost")
            kept = None
            if self._solver != "kernel":
                kept = min(self.n_components, rows.shape[0] - 1)
                if kept < self.n_components:
                    warn_user(
                        f"n_components={self.n_components} exceeds the {kept} axes of "
                        f"{rows.shape[0]} rows of the {name} and is clipped.",
                    )
            dtype = self.dtype or dtype_name(rows)
            found = lift(
                cost,
                rows,
                weights,
                kept,
                diagonal=self.diagonal,
                dtype=dtype,
                rng=rng,
            )
            _complain(found, name, kept)
            lifts.append(found)
        self.cnt_defect_ = max(x.defect for x in lifts)
        return lifts[0], lifts[1]

    def _chosen_solver(self, costs: tuple[Cost, Cost], largest: int) -> str:
        precomputed = any(cost.name == "precomputed" for cost in costs)
        if self.solver != "auto":
            if self.solver == "kernel" and largest > LARGEST_MATRIX and not precomputed:
                raise ValueError(
                    f"solver='kernel' stores matrices and takes up to {LARGEST_MATRIX} "
                    f"rows, got {largest}. Use solver='cnt' or 'multiscale'."
                )
            return self.solver
        if precomputed or largest <= AUTO_KERNEL:
            return "kernel"
        return "cnt" if largest <= AUTO_CNT else "multiscale"

    def _solve(
        self,
        source: Lift,
        target: Lift,
        previous: Array | None,
        rng: np.random.Generator,
        home: Array,
    ) -> None:
        """Run all starts and set the fitted attributes, also when interrupted."""
        scale = self._scales(source, target)
        spaces = spaces_of(source, target, scale, dense=self._solver == "kernel")
        fast = spaces.astype(self.dtype or dtype_name(spaces.U))
        if previous is not None and tuple(previous.shape) == tuple(fast.signs.shape):
            first: Any = [to_like(previous, fast.U)]
        else:
            first = starts(self.init, fast, self.n_init, rng)
        say_lifted(fast, self._solver, self.epsilon, self.verbose)
        descents: list[Descent] = []
        on_two_scales = rng if self._solver == "multiscale" else None
        finished = False
        try:
            search(self, descents, fast, first, rng=on_two_scales)
            finished = True
        finally:
            # an interrupted search keeps the best it has, without further iterations
            if any(descent.state is not None for descent in descents):
                passes = self.sinkhorn_max_iter if finished else 1
                self._publish(descents, spaces, source, target, passes, home)
        if self.debias:
            own = [
                self._own_state(space, unit).egw
                for space, unit in zip((source, target), scale, strict=True)
            ]
            self.debiased_ = self.egw_ - self._unit * (own[0] + own[1]) / 2
        self._warn_unless_converged()

    def _scales(self, source: Lift, target: Lift) -> tuple[float, float]:
        """Choose what the costs are divided by."""
        squares = source.mean_square, target.mean_square
        if not np.isfinite(squares).all():
            raise ValueError(
                "The squared costs overflow the dtype of X. Rescale the rows, such as "
                "with StandardScaler, or pass float64."
            )
        self._rms = (squares[0] / 2 + squares[1] / 2) ** 0.5 or 1.0
        if self.cost_scale == "separate":
            self.scale_ = (squares[0] ** 0.5 or 1.0, squares[1] ** 0.5 or 1.0)
        else:
            both = self._rms if self.cost_scale == "rms" else 1.0
            self.scale_ = (both, both)
        # costs that were divided by different numbers have no common unit
        self._unit = 1.0 if self.cost_scale == "separate" else self.scale_[0] ** 2
        relative = self.epsilon * self.scale_[0] * self.scale_[1] / self._rms**2
        if self.dtype == "float32" and relative < SMALLEST_SINGLE:
            warn_user(
                f"epsilon={self.epsilon:g} is {relative:.2g} of the mean squared cost, "
                "too little for dtype='float32'. Pass dtype='float64' or a larger "
                "epsilon.",
            )
        return self.scale_

    def _publish(
        self,
        descents: list[Descent],
        spaces: Spaces,
        source: Lift,
        target: Lift,
        passes: int,
        home: Array,
    ) -> None:
        """Set the fitted attributes, in the precision and the library of X."""
        best = best_of(descents)
        state = polished(best.state, spaces, self.sinkhorn_tol, passes)
        plan = LiftedPlan(
            source, target, self.scale_, state.gamma, state.eps, state.p, state.q
        )
        self.gw_, self.egw_ = state.gw * self._unit, state.egw * self._unit
        self.history_ = best.history
        self.n_iter_ = len(best.history["egw"])
        self.n_sinkhorn_iter_ = state.n_sinkhorn
        self.marginal_error_ = plan.marginal_error
        self._settled = best.settled
        self.converged_ = bool(
            best.settled and self.marginal_error_ <= SLACK * self.sinkhorn_tol
        )
        self.explained_x_, self.explained_y_ = source.explained, target.explained
        self.minima_ = self._minima(descents, spaces, home)
        matching = plan.argmax(source.embedding, source.diagonal)
        aligned = None
        if not (target.cost.name == "precomputed" or issparse(target.rows)):
            aligned = plan.means(source.embedding, source.diagonal, target.rows)
        self._plan = plan.map_arrays(
            lambda x: x if issparse(x) else to_like(x, home, cast=False)
        )
        self.matching_ = to_like(matching, home, cast=False)
        if aligned is not None:
            self.aligned_ = to_like(aligned, home, cast=False)
        self._view_plan()

    def _minima(
        self, descents: list[Descent], spaces: Spaces, home: Array
    ) -> list[Bunch]:
        """Distinct solutions, in the library of X."""
        found = distinct(descents, spaces, self._unit)
        for entry in found:
            for name in ("gamma", "matching"):
                entry[name] = to_like(entry[name], home, cast=False)
        return found

    def _view_plan(self) -> None:
        """Public names of what the plan holds."""
        plan = self._plan
        unit = self._unit
        self.gamma_ = plan.gamma * unit**0.5
        self.potentials_ = (plan.eps * unit * plan.p, plan.eps * unit * plan.q)
        self.embedding_x_ = plan.source.embedding
        self.embedding_y_ = plan.target.embedding
        self.eigenvalues_x_ = plan.source.eigenvalues
        self.eigenvalues_y_ = plan.target.eigenvalues

    def _own_state(self, space: Lift, unit: float) -> State:
        """Solution of a space matched with itself.

        From the identity and, where several starts are asked for, those: a blurred
        plan may have a lower objective than the identity leads to.
        """
        own = spaces_of(space, space, (unit, unit), dense=self._solver == "kernel")
        fast = own.astype(self.dtype or dtype_name(own.U))
        first = [of_matching(np.arange(own.U.shape[0]), fast)]
        if self.n_init > 1 and isinstance(self.init, str):
            rng = check_generator(self.random_state)
            first += starts(self.init, fast, self.n_init, rng)
        descents: list[Descent] = []
        search(self, descents, fast, first)
        best = best_of(descents)
        return polished(best.state, own, self.sinkhorn_tol, self.sinkhorn_max_iter)

    def _warn_unless_converged(self) -> None:
        if self.marginal_error_ > SLACK * self.sinkhorn_tol:
            warn_user(
                f"The column sums of the plan are off by {self.marginal_error_:.2g} in "
                f"all, above sinkhorn_tol={self.sinkhorn_tol:g}. Raise "
                f"sinkhorn_max_iter (now {self.sinkhorn_max_iter}) or epsilon, or "
                "compute in float64 (X and dtype).",
                ConvergenceWarning,
            )
        elif not self._settled:
            warn_user(
                f"The objective still changed after max_iter={self.max_iter} "
                f"iterations, by more than tol={self.tol:g}. Raise max_iter, or tol.",
                ConvergenceWarning,
            )

    @property
    def energy_curve_(self) -> np.ndarray:
        """Objective after each outer iteration, in squared units of the cost."""
        check_is_fitted(self)
        return self.history_["egw"] * self._unit

    @property
    def plan_operator_(self) -> LinearOperator:
        """The plan as an operator of shape (n_samples, n_targets) on NumPy vectors.

        ``plan_operator_ @ V`` and ``plan_operator_.T @ V`` take O(n m D) time and
        linear memory.
        """
        check_is_fitted(self)
        return self._plan.operator()

    def plan(self, rows=None):
        """Return the plan, or rows of it, as a matrix.

        Parameters
        ----------
        rows : int array, slice or None, default=None
            Rows of X; None means all.

        Returns
        -------
        array of shape (n_rows, n_targets)
            Masses; each row sums to its weight.

        Raises
        ------
        ValueError
            If that is more than 25 million entries.
        """
        check_is_fitted(self)
        n, m = self._plan.p.shape[0], self._plan.q.shape[0]
        index = np.arange(n) if rows is None else np.arange(n)[rows]
        index = np.atleast_1d(index)
        if index.size * m > LARGEST_PLAN:
            raise ValueError(
                f"The plan is {index.size} x {m} = {index.size * m:.3g} entries, above "
                f"{LARGEST_PLAN:.3g}. Use plan(rows=...) or plan_operator_."
            )
        xp = namespace_of(self._plan.p)
        device = getattr(self._plan.p, "device", None)
        return self._plan.block(xp.asarray(index, device=device))

    @available_if(_has_coordinates("target"))
    def transform(self, X):
        """Carry rows into the space of the target.

        Parameters
        ----------
        X : array of shape (n_rows, n_features) or (n_rows, n_samples)
            Rows of the source space, fitted or new; for a precomputed source their
            costs to the fitted rows.

        Returns
        -------
        array of shape (n_rows, n_target_features)
            Mean of the targets of each row under the plan, which is extended to new
            rows by the Nystrom formula. A fitted row is treated as any other;
            ``aligned_`` holds what the plan makes of it.

        Raises
        ------
        ValueError
            If X does not fit the source.
        """
        U, s = self._embed(X, "transform")
        return self._plan.means(U, s, as_values(self._plan.target.rows))

    @available_if(_has_coordinates("source"))
    def inverse_transform(self, y):
        """Carry rows of the target space into that of the source.

        Parameters
        ----------
        y : array of shape (n_rows, n_target_features) or (n_rows, n_targets)
            Rows of the target space.

        Returns
        -------
        array of shape (n_rows, n_features)
            Mean of the sources of each row under the plan.

        Raises
        ------
        ValueError
            If y does not fit the target.
        """
        check_is_fitted(self)
        target = self._plan.target
        self._check_names(y)
        Y = check_target_rows(self, y, target.rows, accept_sparse=self._takes_sparse)
        W, t = target.embed(Y)
        return self._plan.reverse_means(W, t, as_values(self._plan.source.rows))

    def predict(self, X):
        """Find the row of the target that matches best.

        Parameters
        ----------
        X : array of shape (n_rows, n_features) or (n_rows, n_samples)
            Rows of the source space, as for :meth:`transform`.

        Returns
        -------
        int64 array of shape (n_rows,)
            Index of the largest entry of the plan.

        Raises
        ------
        ValueError
            If X does not fit the source.
        """
        U, s = self._embed(X, "predict")
        return self._plan.argmax(U, s)

    def _embed(self, X: Any, method: str) -> tuple[Array, Array]:
        check_is_fitted(self)
        check_same_home(self, X, "embedding_x_", method)
        X = self._check_rows(X, method)
        return self._plan.source.embed(X)

    def _check_rows(self, X: Any, method: str) -> Array:
        sparse = self._takes_sparse
        X = check_X(self, X, reset=False, accept_sparse=sparse, method=method)
        if issparse(X):
            return X.astype(self._plan.p.dtype, copy=False)
        return namespace_of(X).astype(X, self._plan.p.dtype)

    @property
    def _takes_sparse(self) -> bool:
        """Whether both costs are formulas, which products of sparse rows give."""
        costs = self.cost if isinstance(self.cost, tuple) else (self.cost,)
        return all(isinstance(cost, str) and cost in FORMULAS for cost in costs)

    def score(self, X, y=None):
        """Negative mean distortion of the distances between matched rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows of the source space; of more than 2,000 as many are taken, evenly
            spaced. For a precomputed source the fitted rows are scored.
        y : None
            Ignored.

        Returns
        -------
        float
            At most 0. Minus the mean of :math:`(c_X(x_i, x_k) - c_Y(y_i, y_k))^2`, with
            y the rows that :meth:`predict` returns, over the mean squared cost of both
            fitted spaces.

        Raises
        ------
        ValueError
            If X does not fit the source.
        """
        check_is_fitted(self)
        source, target = self._plan.source, self._plan.target
        if source.cost.name == "precomputed":
            rows, matching = None, self.matching_
        else:
            check_same_home(self, X, "embedding_x_", "score")
            rows = self._check_rows(X, "score")
        xp = namespace_of(self._plan.p)
        index = sample_rows(matching if rows is None else rows)
        if rows is None:
            matching = xp.take(matching, index)
            Cx = xp.take(xp.take(source.rows, index, axis=0), index, axis=1)
        else:
            rows = take_rows(rows, index)
            matching = self.predict(rows)
            Cx = source.cost.block(rows, rows)
        Y = take_rows(target.rows, matching)
        if target.cost.name == "precomputed":
            Cy = xp.take(Y, matching, axis=1)
        else:
            Cy = target.cost.block(Y, Y)
        gap = (xp.astype(Cx, Cy.dtype) - Cy) / self._rms
        return -float(xp.mean(gap * gap))

    def explore(self, n_starts=20, *, random_state=None):
        """Descend from many random starts, to see which other solutions there are.

        Shapes with symmetries have a solution for each of them, and near-symmetries
        have local minima.

        Parameters
        ----------
        n_starts : int, default=20
            Random starts.
        random_state : int, RandomState, Generator or None, default=None
            Draws them.

        Returns
        -------
        list of Bunch
            Distinct solutions, best first, with gamma, egw, matching, and the count of
            starts that ended there. Also stored as ``minima_``.

        Raises
        ------
        ValueError
            If ``n_starts`` is not positive.
        """
        check_is_fitted(self)
        if not isinstance(n_starts, Integral) or n_starts < 1:
            raise ValueError(f"n_starts must be a positive integer, got {n_starts!r}.")
        rng = check_generator(random_state)
        plan = self._plan
        spaces = spaces_of(
            plan.source, plan.target, plan.scale, dense=self._solver == "kernel"
        )
        fast = spaces.astype(self.dtype or dtype_name(plan.p))
        descents: list[Descent] = []
        first = (random(fast, rng) for _ in range(n_starts))
        try:
            search(self, descents, fast, first)
        finally:
            self.minima_ = self._minima(descents, spaces, plan.p)
        return self.minima_

    def exact_gw(self):
        """Gromov-Wasserstein cost of the plan with all costs, at cubic cost.

        Returns
        -------
        float
            In squared units of the cost; compare ``gw_``, which the truncation of the
            lifts changes.

        Raises
        ------
        ValueError
            If a space has more than 4,000 rows.
        """
        check_is_fitted(self)
        plan = self._plan
        largest = max(plan.p.shape[0], plan.q.shape[0])
        if largest > LARGEST_EXACT:
            raise ValueError(
                f"exact_gw takes up to {LARGEST_EXACT} rows, got {largest}. Fit a "
                "sample, or compare score."
            )
        # only costs that were divided by different numbers stay divided
        return plan.exact_cost(plan.scale if self.cost_scale == "separate" else (1, 1))

    @property
    def _n_features_out(self) -> int:
        return self._plan.target.rows.shape[1]

    def __sklearn_tags__(self):
        """Tags: two spaces, arrays of any library, matrices of costs."""
        tags = super().__sklearn_tags__()
        cost = self.cost[0] if isinstance(self.cost, tuple) else self.cost
        tags.input_tags.pairwise = isinstance(cost, str) and cost == "precomputed"
        tags.input_tags.sparse = bool(self._takes_sparse)
        tags.target_tags.required = True
        tags.array_api_support = True
        return tags


#: The last bits of a marginal error do not make a fit unconverged.
SLACK = 1.01


def _complain(found: Lift, name: str, kept: int | None) -> None:
    """Warn about a lift that is not what the method needs."""
    if found.defect > LARGEST_DEFECT and kept is not None:
        warn_user(
            f"The {name} cost is not of conditionally negative type: "
            f"{found.defect:.1%} of its spectrum is negative and ignored. Use "
            "solver='kernel', or embed the costs first, such as with MDS.",
        )
    if found.explained < SMALLEST_EXPLAINED:
        warn_user(
            f"The {kept} axes of the {name} hold {found.explained:.0%} of its mean "
            f"squared distance to the center. Raise n_components.",
        )
