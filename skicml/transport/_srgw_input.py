"""What goes into a fit of :class:`SRGWMatcher`: spaces, starts and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skicml.base import resolve_device, to_device, to_host, to_like, warn_user
from skicml.transport._clouds import check_cost_matrix, check_marginal, check_spaces
from skicml.transport._graphs import graph_cost_matrix, heat_time, is_graph
from skicml.transport._metric import Metric
from skicml.transport._srgw_search import Settings
from skicml.transport._srgw_solver import Problem
from skicml.transport._srgw_starts import names_of, starts
from skicml_accel._namespaces import array_kind, device_kind, dtype_name, namespace_of
from skicml_accel._types import Array

SIDES = ("source", "target")
#: Entries of a plan up to which ``solver="auto"`` solves transport exactly.
AUTO_EXACT = 4_000_000
#: Share of all mass below which a row counts as one without: products of such masses
#: leave the range of numbers.
LEAST_MASS = 1e-12
#: Rows from which two distinct costs are taken as a sign of an unweighted graph.
MIN_BINARY = 4
#: Error of the marginals of a start, as a sum of absolute values.
START_TOL = 1e-6
#: Range of lambda, in scaled units: beyond it nothing, or everything, is masked.
LAM_RANGE = (1e-30, 1e30)


@dataclass(frozen=True)
class Inputs:
    """Two validated spaces.

    Parameters
    ----------
    rows : pair of arrays
        Rows, or costs, of the source and the target, in the library of X.
    costs : pair of arrays of shapes (n, n) and (m, m)
        Symmetric costs, in the library of X.
    weights : pair of arrays of shapes (n,) and (m,)
        Masses, each summing to one, in the library of X.
    kept : pair of int arrays
        Rows of mass.
    problem : Problem
        These rows alone, centered and scaled, in NumPy and float64.
    scale : float
        What the centered costs were divided by.
    is_binary : bool
        Whether the costs of a space that is masked take at most two values.
    """

    rows: tuple[Array, Array]
    costs: tuple[Array, Array]
    weights: tuple[Array, Array]
    kept: tuple[np.ndarray, np.ndarray]
    problem: Problem
    scale: float
    is_binary: bool


def metric_of(estimator: Any) -> Metric:
    """Metric between rows; those of a matrix of costs are compared as profiles."""
    if estimator.metric == "precomputed":
        return Metric("euclidean")
    return Metric(estimator.metric, estimator.metric_params or {})


def matrix_of(estimator: Any, space: Any, name: str) -> Any:
    """Costs between the nodes of a graph; everything else passes."""
    if not is_graph(space):
        return space
    if issparse(space) and space.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got a sparse array of shape {space.shape} as the "
            f"{name}. Pass a matrix."
        )
    if estimator.metric == "precomputed":
        time = heat_time(estimator.metric_params)
        return graph_cost_matrix(space, estimator.graph_cost, time=time, name=name)
    if issparse(space):
        return space
    raise TypeError(
        f"metric={estimator.metric!r} takes rows, but the {name} is a graph. Use "
        "metric='precomputed' for graphs."
    )


def read_inputs(
    estimator: Any, X: Any, y: Any, source_weight: Any, target_weight: Any
) -> Inputs:
    """Validate what ``fit`` is given.

    Parameters
    ----------
    estimator : SRGWMatcher
        Its parameters; gets ``n_features_in_``.
    X, y : array-like or graph
        The spaces.
    source_weight, target_weight : array-like or None
        Their masses.

    Returns
    -------
    Inputs
        The spaces.

    Raises
    ------
    TypeError, ValueError
        As ``fit`` documents.
    """
    X, y = matrix_of(estimator, X, "source"), matrix_of(estimator, y, "target")
    precomputed = estimator.metric == "precomputed"
    rows = check_spaces(estimator, X, y, accept_sparse=not precomputed)
    weights = (
        check_marginal(source_weight, _values(rows[0]), name="source_weight"),
        check_marginal(target_weight, _values(rows[1]), name="target_weight"),
    )
    costs = tuple(_cost(estimator, *side) for side in zip(rows, SIDES, strict=True))
    hosts = [np.asarray(to_host(C), dtype=np.float64) for C in costs]
    masses, kept = [], []
    for w, name in zip(weights, SIDES, strict=True):
        mass = np.asarray(to_host(w), dtype=np.float64)
        index = np.flatnonzero(mass > LEAST_MASS * mass.sum())
        if len(index) < 2:
            raise ValueError(
                f"{name}_weight leaves {len(index)} row with mass, and 2 are the "
                "minimum of a space. Give weight to more rows."
            )
        kept.append(index)
        masses.append(mass[index] / mass[index].sum())
    hosts = [C[np.ix_(i, i)] for C, i in zip(hosts, kept, strict=True)]
    hosts, scale = _standardized(hosts, masses, precomputed)
    masked = {"both": SIDES, "none": ()}.get(estimator.masks, (estimator.masks,))
    binary = [
        name
        for name, C in zip(SIDES, hosts, strict=True)
        if name in masked
        if _is_binary(C)
    ]
    if binary:
        warn_user(
            f"The off-diagonal costs of the {' and of the '.join(binary)} take at most "
            "two values, as those of an unweighted graph, where masks hardly help. "
            "penalty='hard' and the Gromov-Wasserstein start are used. Prefer weights, "
            "or graph_cost='shortest_path' or 'heat'."
        )
    penalty = "hard" if binary else estimator.penalty
    (Cx, Cy), (a, b) = hosts, masses
    problem = Problem(Cx, Cy, a, b, penalty, estimator.masks)
    return Inputs(
        rows, costs, weights, (kept[0], kept[1]), problem, scale, bool(binary)
    )


def _values(rows: Array) -> Array:
    """Array that tells where rows live; of a sparse matrix one of as many rows."""
    if array_kind(rows) == "scipy.sparse":
        return np.empty((rows.shape[0], 1), dtype=rows.dtype)
    return rows


def _cost(estimator: Any, rows: Array, name: str) -> Array:
    precomputed = estimator.metric == "precomputed"
    return check_cost_matrix(
        rows if precomputed else metric_of(estimator).within(rows),
        name=name,
        parameter="metric",
        symmetrize=estimator.symmetrize,
        remedy="Pass (C + C.T) / 2, or symmetrize=True.",
    )


def _standardized(
    costs: list[np.ndarray], masses: list[np.ndarray], precomputed: bool
) -> tuple[list[np.ndarray], float]:
    """Subtract the common mean, which no plan sees, and divide by the deviation."""
    largest = max(float(np.abs(C).max()) for C in costs) or 1.0
    # in units of the largest no square leaves the range of numbers
    shared = [C / largest for C in costs]
    mean = sum(w @ C @ w for C, w in zip(shared, masses, strict=True)) / 2
    shared = [C - mean for C in shared]
    square = sum(w @ (C * C) @ w for C, w in zip(shared, masses, strict=True)) / 2
    deviation = float(square) ** 0.5
    # what rounding leaves of equal costs is no deviation
    if deviation <= 1e-14:
        return [np.zeros_like(C) for C in shared], largest
    scale = deviation * largest
    if not scale < np.finfo(np.float64).max ** 0.5:
        remedy = "Divide them" if precomputed else "Rescale the rows"
        raise ValueError(
            f"The squared costs overflow, of which the largest is {largest:.3g}. "
            f"{remedy}."
        )
    return [C / deviation for C in shared], scale


def _is_binary(C: np.ndarray) -> bool:
    """Whether off-diagonal costs take at most two values."""
    if C.shape[0] < MIN_BINARY:
        return False
    values = C[~np.eye(C.shape[0], dtype=bool)]
    return bool(np.isin(values, (values.min(), values.max())).all())


def read_starts(
    estimator: Any, inputs: Inputs, previous: Array | None, rng: np.random.Generator
) -> Iterable[np.ndarray]:
    """Find initial plans between the rows of mass, made when they are asked for.

    Parameters
    ----------
    estimator : SRGWMatcher
        Its parameters.
    inputs : Inputs
        The spaces.
    previous : array of shape (n, m) or None
        Plan of an earlier fit, the only start if it has the right shape and marginals.
    rng : Generator
        For random ones.

    Returns
    -------
    iterable of arrays
        Plans, in NumPy.

    Raises
    ------
    ValueError
        If ``init`` is not made of plans.
    """
    problem = inputs.problem
    whole = (inputs.weights[0].shape[0], inputs.weights[1].shape[0])
    if previous is not None and tuple(previous.shape) == whole:
        plan = np.asarray(to_host(previous), dtype=np.float64)[np.ix_(*inputs.kept)]
        if _is_plan(plan, problem):
            return [plan]
    init, count = estimator.init, estimator.n_init
    if isinstance(init, str):
        entries = problem.a.shape[0] * problem.b.shape[0]
        names = names_of(init, entries, inputs.is_binary, count)
        return starts(names, problem, rng)
    plans = _plans(init, whole)
    given = [plan[np.ix_(*inputs.kept)] for plan in plans[:count]]
    if not all(_is_plan(plan, problem) for plan in given):
        raise ValueError(
            "init must hold plans: not negative, with rows and columns that sum to the "
            "weights. A start such as np.outer(a, b) is one."
        )
    more = 0 if count is None else max(0, count - len(plans))
    return chain(given, starts(["random"] * more, problem, rng))


def _plans(init: Any, shape: tuple[int, int]) -> np.ndarray:
    """Read arrays of starts, of shape (k, n, m)."""
    try:
        plans = np.asarray(to_host(init))
        if plans.dtype.kind not in "biuf":
            raise ValueError(f"its dtype is {plans.dtype}")
    except ValueError as error:
        raise ValueError(
            f"init must be a name or hold plans of numbers, but {error}. Pass an array "
            f"of shape {shape}."
        ) from error
    if plans.shape != shape and (plans.shape[1:] != shape or not len(plans)):
        raise ValueError(
            f"init must have the shape {shape} or (k, {shape[0]}, {shape[1]}), got "
            f"{plans.shape}. Pass plans, or the name of a start."
        )
    plans = plans.reshape(-1, *shape).astype(np.float64)
    if not np.isfinite(plans).all():
        raise ValueError("init contains NaN or infinity. Pass plans of finite numbers.")
    return plans


def _is_plan(plan: np.ndarray, problem: Problem) -> bool:
    """Whether a matrix couples the weights."""
    errors = plan.sum(axis=1) - problem.a, plan.sum(axis=0) - problem.b
    return plan.min() >= 0 and all(np.abs(e).sum() <= START_TOL for e in errors)


def read_settings(estimator: Any, inputs: Inputs) -> tuple[Settings, Problem]:
    """Choose the solver, and move the problem to where it computes.

    Parameters
    ----------
    estimator : SRGWMatcher
        Its parameters.
    inputs : Inputs
        The spaces.

    Returns
    -------
    settings : Settings
        Numbers of a descent.
    problem : Problem
        For "sinkhorn" in the library, on the device and in the dtype asked for.
    """
    problem, home = inputs.problem, inputs.costs[0]
    place = to_device(home, resolve_device(estimator.device))
    solver = estimator.solver
    if solver == "auto":
        few = problem.a.shape[0] * problem.b.shape[0] <= AUTO_EXACT
        solver = "cg" if few and device_kind(place) == "cpu" else "sinkhorn"
    lam = None
    if estimator.lam != "auto":
        lam = min(
            max(estimator.lam / inputs.scale / inputs.scale, LAM_RANGE[0]), LAM_RANGE[1]
        )
    settings = Settings(
        solver,
        estimator.epsilon,
        lam,
        estimator.mad_factor,
        estimator.anneal,
        estimator.tol,
        estimator.max_iter,
        estimator.verbose,
    )
    if solver == "cg":
        return settings, problem
    xp = namespace_of(place)
    dtype = getattr(xp, estimator.dtype or dtype_name(place))
    place = xp.astype(place[:1, :1], dtype)
    return settings, Problem(
        to_like(problem.Cx, place),
        to_like(problem.Cy, place),
        to_like(problem.a, place),
        to_like(problem.b, place),
        problem.penalty,
        problem.masks,
    )
