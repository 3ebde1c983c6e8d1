"""The graduated phase from several starts, of which the least distorted is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from skicml.base import iterate, to_host, to_like
from skicml.transport._srgw_solver import INNER_STEPS, Problem, State, Step, graduate
from skicml.transport._transport_steps import conditional_gradient, proximal_sinkhorn
from skicml_accel._types import Array

#: Share of independence that makes all entries of a start positive, as entropic steps
#: need, which multiply them.
BLUR = 0.1
#: Error of the marginals at which Sinkhorn's iteration stops, before rounding.
SINKHORN_TOL = {"float32": 1e-5, "float64": 1e-7}


@dataclass(frozen=True)
class Settings:
    """Numbers of a descent, in units of the scaled costs.

    Parameters
    ----------
    solver : {"cg", "sinkhorn"}
        Kind of the transport steps.
    epsilon : float
        Of "sinkhorn".
    lam : float or None
        Final price of the masks.
    mad_factor, anneal, tol : float
        See :func:`graduate`.
    max_iter : int
        Steps of one start.
    verbose : int
        Whether a bar is shown.
    """

    solver: str
    epsilon: float
    lam: float | None
    mad_factor: float
    anneal: float
    tol: float
    max_iter: int
    verbose: int = 0

    def step(self, problem: Problem) -> Step:
        """Transport step between the marginals of a problem."""
        sides = {"a": problem.a, "b": problem.b, "max_iter": INNER_STEPS}
        if self.solver == "cg":
            return partial(conditional_gradient, **sides)
        tol = SINKHORN_TOL[str(problem.a.dtype).rpartition(".")[2]]
        return partial(proximal_sinkhorn, epsilon=self.epsilon, tol=tol, **sides)


@dataclass
class Descent:
    """What came of one start.

    Parameters
    ----------
    plan : array of shape (n, m) or None
        The last one, until another descent has a lower score.
    lam : float
        Price of the masks that belongs to it.
    settled : bool
        Whether the phase came to its end.
    score : float
        Truncated distortion of the plan.
    history : dict of str to ndarray
        Numbers of each step.
    """

    plan: Array | None = None
    lam: float = float("inf")
    settled: bool = False
    score: float = float("inf")
    history: dict[str, np.ndarray] = field(default_factory=dict)

    def reach(self, state: State, problem: Problem) -> None:
        """Take over what the phase has reached."""
        self.plan, self.lam, self.settled = state.plan, state.lam, state.settled
        self.score = state.score(problem)


def descend(
    problem: Problem,
    plan: Array,
    settings: Settings,
    descents: list[Descent],
    estimator: Any = None,
) -> None:
    """Anneal from a start, and also begin cold where annealing has led away from it.

    The outcomes go into ``descents`` at once, so that an interruption loses one step.
    """
    first = _follow(problem, plan, settings, descents, estimator, cold=False)
    best = descents[-1].score
    if first < best:
        _follow(problem, plan, settings, descents, estimator, cold=True)


def _follow(
    problem: Problem,
    plan: Array,
    settings: Settings,
    descents: list[Descent],
    estimator: Any,
    *,
    cold: bool,
) -> float:
    """Add a descent; returns the score of its start."""
    descent = Descent()
    descents.append(descent)
    states = graduate(
        problem,
        plan,
        settings.step(problem),
        lam=settings.lam,
        mad_factor=settings.mad_factor,
        anneal=settings.anneal,
        tol=settings.tol,
        cold=cold,
    )
    descent.reach(next(states), problem)
    first = descent.score
    if descent.settled:
        return first
    loop = iterate(
        estimator if hasattr(estimator, "_callback_fit_ctx") else None,
        settings.max_iter,
        verbose=settings.verbose,
    )
    try:
        for step in loop:
            state = next(states)
            descent.reach(state, problem)
            step.log(
                lam=state.lam,
                gw_dist=state.distortion(problem),
                score=descent.score,
                change=state.change,
            )
            if state.settled:
                break
    finally:
        descent.history = loop.history
    return first


def search(
    problem: Problem,
    plans: Iterable[np.ndarray],
    settings: Settings,
    descents: list[Descent],
    *,
    estimator: Any = None,
    n_jobs: int | None = None,
) -> None:
    """Descend from each of the plans.

    Parameters
    ----------
    problem : Problem
        The spaces, where the solver shall compute.
    plans : iterable of arrays of shape (n, m)
        Starts, in NumPy; one equal to an earlier one is left out.
    settings : Settings
        Numbers of a descent.
    descents : list of Descent
        Receives the outcomes.
    estimator : estimator or None, default=None
        Whose callbacks hear of each step, in this process.
    n_jobs : int or None, default=None
        Processes over starts.
    """
    starts = (_prepared(plan, problem, settings) for plan in _distinct(plans))
    if effective_n_jobs(n_jobs) == 1:
        for plan in starts:
            descend(problem, plan, settings, descents, estimator)
            _forget_others(descents)
        return
    jobs = (delayed(_descents_of)(problem, plan, settings) for plan in starts)
    for found in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
        descents.extend(found)
        _forget_others(descents)


def _descents_of(problem: Problem, plan: Array, settings: Settings) -> list[Descent]:
    descents: list[Descent] = []
    descend(problem, plan, settings, descents)
    return descents


def _forget_others(descents: list[Descent]) -> None:
    """Drop the plans of all but the best, whose number would grow with the starts."""
    best = best_of(descents)
    for descent in descents:
        if descent is not best:
            descent.plan = None


def _distinct(plans: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    seen: set[bytes] = set()
    for plan in plans:
        digest = hashlib.sha256(np.ascontiguousarray(plan).data).digest()
        if digest not in seen:
            seen.add(digest)
            yield plan


def _prepared(plan: np.ndarray, problem: Problem, settings: Settings) -> Array:
    if settings.solver == "sinkhorn":
        a, b = (to_host(weights) for weights in (problem.a, problem.b))
        plan = (1 - BLUR) * plan + BLUR * a[:, None] * b[None, :]
    return to_like(plan, problem.Cx)


def best_of(descents: list[Descent]) -> Descent:
    """Find the descent of the lowest score, the first of equals."""
    return min(descents, key=lambda descent: descent.score, default=Descent())
