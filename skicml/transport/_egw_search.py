"""Descents from several starts, on one scale or two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skicml.base import iterate
from skicml.transport._egw_solver import (
    ANNEAL_START,
    Coupling,
    Spaces,
    State,
    descend,
    settled,
)
from skicml.transport._multiscale import coarse_epsilon, coarsen, prolong
from skicml_accel._namespaces import dtype_name, namespace_of
from skicml_accel._types import Array

#: Solutions whose gamma differ by less than this share of the largest possible gamma
#: are the same one.
SAME_MINIMUM = 0.05

#: Factor of ``tol`` for the fine problem of two scales. It begins near its solution:
#: what remains is drift along flat valleys of the objective, of less than a percent.
FINE_SLACK = 10.0


@dataclass
class Descent:
    """What came of one start.

    Parameters
    ----------
    state : State or None
        The last complete one.
    history : dict of str to ndarray
        Numbers of each outer iteration.
    settled : bool
        Whether the tolerance was reached.
    """

    state: State | None = None
    history: dict[str, np.ndarray] = field(default_factory=dict)
    settled: bool = False


def follow(
    estimator: Any,
    descent: Descent,
    spaces: Spaces,
    gamma: Array,
    *,
    potentials: tuple[Array, Array] | None = None,
    eps: float | None = None,
    eps_start: float | None = None,
    slack: float = 1.0,
) -> None:
    """Descend with the settings of an estimator; ``descent`` holds what was reached.

    It does so at any time, so that an interruption loses one iteration at most. The
    tolerance of the estimator is multiplied by ``slack``.
    """
    eps = estimator.epsilon if eps is None else eps
    if estimator.anneal and eps_start is None:
        eps_start = ANNEAL_START * eps
    states = descend(
        spaces,
        gamma,
        eps,
        potentials=potentials,
        eps_start=eps_start,
        sinkhorn_tol=estimator.sinkhorn_tol,
        sinkhorn_max_iter=estimator.sinkhorn_max_iter,
    )
    loop = iterate(
        estimator if hasattr(estimator, "_callback_fit_ctx") else None,
        estimator.max_iter,
        verbose=estimator.verbose,
    )
    previous = None
    try:
        for step in loop:
            state = next(states)
            step.log(
                egw=state.egw,
                marginal_error=state.marginal_error,
                n_sinkhorn=state.n_sinkhorn,
            )
            descent.state = state
            descent.settled = settled(
                previous, state, spaces, eps, slack * estimator.tol
            )
            if descent.settled:
                break
            previous = state
    finally:
        descent.history = loop.history


def search(
    estimator: Any,
    descents: list[Descent],
    spaces: Spaces,
    starts: Iterable[Array],
    *,
    rng: np.random.Generator | None = None,
) -> None:
    """Descend from each start; each puts its outcome into ``descents`` at once.

    Parameters
    ----------
    estimator : LiftedGWAligner
        Its settings.
    descents : list
        Receives the outcomes.
    spaces : Spaces
        What is matched, in the precision of the iterations.
    starts : iterable of arrays of shape (D, E)
        Starts of gamma.
    rng : Generator or None, default=None
        If given, the starts compete on a coarse problem and the best goes on.
    """
    if rng is None:
        for gamma in starts:
            descents.append(Descent())
            follow(estimator, descents[-1], spaces, gamma)
        return
    coarse, labels = coarsen(spaces, estimator.coarse_ratio, rng)
    eps = coarse_epsilon(estimator.epsilon, spaces, coarse, labels)
    trials: list[Descent] = []
    try:
        for gamma in starts:
            trials.append(Descent())
            follow(estimator, trials[-1], coarse, gamma, eps=eps)
    finally:
        reached = [trial for trial in trials if trial.state is not None]
        if reached:
            start = best_of(reached).state
            p, q = prolong(start, coarse, labels, spaces)
            descents.append(Descent(replace(start, p=p, q=q), reached[0].history))
    follow(
        estimator,
        descents[-1],
        spaces,
        start.gamma,
        potentials=(p, q),
        eps_start=start.eps,
        slack=FINE_SLACK,
    )


def best_of(descents: list[Descent]) -> Any:
    """Choose the descent of the lowest objective."""
    return min(
        (descent for descent in descents if descent.state is not None),
        key=lambda descent: (descent.state.eps, descent.state.egw),  # type: ignore[union-attr]
    )


def distinct(descents: list[Descent], spaces: Spaces, unit: float) -> list[Bunch]:
    """Minima that differ, the best first.

    Parameters
    ----------
    descents : list of Descent
        Outcomes.
    spaces : Spaces
        What is matched, in the precision of the result.
    unit : float
        Squared unit of the scaled costs.

    Returns
    -------
    list of Bunch
        With gamma, egw, matching and count.
    """
    xp = namespace_of(spaces.U)
    largest = (float(spaces.a @ spaces.s) * float(spaces.b @ spaces.t)) ** 0.5
    states = sorted(
        (descent.state for descent in descents if descent.state is not None),
        key=lambda state: state.egw,
    )
    found: list[tuple[State, Bunch]] = []
    for state in states:
        for other, entry in found:
            gap = state.gamma - other.gamma
            if float(xp.sum(gap * gap)) ** 0.5 < SAME_MINIMUM * largest:
                entry["count"] += 1
                break
        else:
            own = spaces.astype(dtype_name(state.gamma))
            coupling = Coupling(own, state.gamma, state.eps)
            found.append(
                (
                    state,
                    Bunch(
                        gamma=xp.astype(state.gamma, spaces.U.dtype) * unit**0.5,
                        egw=state.egw * unit,
                        matching=coupling.argmax(state.q),
                        count=1,
                    ),
                )
            )
    return [entry for _, entry in found]
