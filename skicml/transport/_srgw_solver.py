r"""Masks and a plan that are learnt together: annealed, then polished by descent.

Costs are in units of their standard deviation. Residuals, :math:`\lambda` and objectives
are in squares of it. In the graduated phase the masks follow from *unmasked* residuals
of both sides, so that no side takes the blame of the other, while :math:`\lambda` falls.
The polish minimizes the objective over one block at a time and never increases it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from skicml_accel._namespaces import array_kind, namespace_of
from skicml_accel._types import Array
from skicml_accel.transport import mask_update, masked_gw_grad, pair_residual

#: Steps of the plan between two updates of the masks.
INNER_STEPS = 20
#: Consistent estimate of a standard deviation by a median absolute deviation.
NORMAL_MAD = 1.4826
#: Residuals up to here are an exact match, and no lambda falls below it.
FLOOR = 1e-4
#: Distortions above this look alike to the comparison of starts.
TRUNCATION = 0.05
#: Where lambda counts as being at its end, which moves a little with each plan.
ARRIVED = 1.001
#: Steps at the final lambda after which the plan may as well go round in a circle.
PATIENCE = 20

#: Price of a mask entry, whose best value :func:`mask_update` finds.
PRICES: dict[str, Callable[[Array], Array]] = {
    "quadratic": lambda w: (1 - w) ** 2 / 2,
    "geman": lambda w: (w**0.5 - 1) ** 2,
    "hard": lambda w: 1 - w,
}

#: A transport step: it lowers ``<gradient(T), T>`` from the plan given.
Step = Callable[[Callable[[Array], Array], Array], Array]


@dataclass(frozen=True)
class Problem:
    """Two spaces and how they are masked.

    Parameters
    ----------
    Cx, Cy : arrays of shapes (n, n) and (m, m)
        Symmetric costs, centered, in units of their standard deviation.
    a, b : arrays of shapes (n,) and (m,)
        Masses, positive, each summing to one.
    penalty : str
        One of :data:`PRICES`.
    masks : {"both", "source", "target", "none"}
        Which spaces have a mask.
    """

    Cx: Array
    Cy: Array
    a: Array
    b: Array
    penalty: str = "quadratic"
    masks: str = "both"
    whole: tuple[Array, Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole = _moments(self.Cx), _moments(self.Cy)
        object.__setattr__(self, "whole", whole)
        # the costs are among their moments already
        object.__setattr__(self, "Cx", whole[0][1, ...])
        object.__setattr__(self, "Cy", whole[1][1, ...])

    def residuals(self, plan: Array, masked: tuple[Array, Array]) -> tuple[Array, ...]:
        """Residuals of the pairs of both spaces, given the other's moments."""
        return (
            pair_residual(masked[1], plan, self.Cx, self.a),
            pair_residual(masked[0], plan.T, self.Cy, self.b),
        )

    def source_moments(self, residual: Array, lam: float) -> Array:
        """Moments of the source under its best mask."""
        if self.masks in ("target", "none"):
            return self.whole[0]
        return mask_update(residual, self.Cx, lam=lam, penalty=self.penalty)

    def target_moments(self, residual: Array, lam: float) -> Array:
        """Moments of the target under its best mask."""
        if self.masks in ("source", "none"):
            return self.whole[1]
        return mask_update(residual, self.Cy, lam=lam, penalty=self.penalty)

    def price(self, masked: tuple[Array, Array]) -> float:
        """Weighted price of both masks, per unit of lambda."""
        phi = PRICES[self.penalty]
        return sum(
            _mean(phi(moments[0, ...]), weights)
            for moments, weights in zip(masked, (self.a, self.b), strict=True)
        )


def _moments(C: Array) -> Array:
    xp = namespace_of(C)
    return xp.stack([xp.ones_like(C), C, C * C])


def _mean(table: Array, weights: Array) -> float:
    """Mean of a square table under the product of the weights."""
    return float(weights @ (table @ weights))


@dataclass
class State:
    """What the graduated phase has reached.

    Parameters
    ----------
    plan : array of shape (n, m)
        The plan.
    residuals : pair of arrays of shapes (n, n) and (m, m)
        Its residuals without masks.
    lam : float
        Price that the masks follow from.
    change : float
        Sum of absolute changes of the plan in the last step.
    settled : bool
        Whether lambda is at its target and the plan no longer changes, or will not
        come to rest.
    patience : int
        Steps that are left to it to come to rest.
    """

    plan: Array
    residuals: tuple[Array, ...]
    lam: float
    change: float = 0.0
    settled: bool = False
    patience: int = PATIENCE

    @classmethod
    def of(cls, problem: Problem, plan: Array, lam: float) -> State:
        """State of any plan."""
        return cls(plan, problem.residuals(plan, problem.whole), lam)

    def masked(self, problem: Problem) -> tuple[Array, Array]:
        """Moments of both spaces under the masks of the unmasked residuals."""
        return (
            problem.source_moments(self.residuals[0], self.lam),
            problem.target_moments(self.residuals[1], self.lam),
        )

    def distortion(self, problem: Problem) -> float:
        """Gromov-Wasserstein cost of the plan, without masks."""
        return _mean(self.residuals[0], problem.a)

    def score(self, problem: Problem) -> float:
        """Sum up truncated distortions, which compares any plans; lower is better."""
        xp = namespace_of(self.plan)
        return sum(
            _mean(xp.clip(residual, max=TRUNCATION), weights)
            for residual, weights in zip(
                self.residuals, (problem.a, problem.b), strict=True
            )
        )


def graduate(
    problem: Problem,
    plan: Array,
    step: Step,
    *,
    lam: float | None,
    mad_factor: float,
    anneal: float,
    tol: float,
    cold: bool = False,
) -> Iterator[State]:
    """Anneal from masks that trust all pairs, forever; the caller stops.

    Parameters
    ----------
    problem : Problem
        The spaces.
    plan : array of shape (n, m)
        Start.
    step : callable
        The transport step.
    lam : float or None
        Where lambda ends; None follows the spread of the residuals.
    mad_factor : float
        Robust standard deviations of a residual's root from which it is an outlier.
    anneal : float
        What lambda is multiplied by.
    tol : float
        Change of the plan that settles it.
    cold : bool, default=False
        Begin at the final lambda, for a start that is good already.

    Yields
    ------
    State
        The start, then the state after each step.
    """
    xp = namespace_of(plan)

    def advanced(state: State) -> Array:
        # the masks are gone when the residuals are made, which saves their memory
        return step(partial(masked_gw_grad, *state.masked(problem)), state.plan)

    def aim(residuals: tuple[Array, ...]) -> float:
        if problem.masks == "none":
            return float("inf")
        return _target_lam(residuals, mad_factor) if lam is None else lam

    residuals = problem.residuals(plan, problem.whole)
    highest = max(float(xp.max(residual)) for residual in residuals)
    if highest <= FLOOR:
        yield State(plan, residuals, FLOOR if lam is None else lam, settled=True)
        return
    # from below, everything would be masked, and a plan with no pairs left is stuck
    current = max(highest, lam or 0.0)
    if cold:
        current = min(current, aim(residuals))
    state = State(plan, residuals, current)
    while True:
        yield state
        plan = advanced(state)
        change = float(xp.sum(xp.abs(plan - state.plan)))
        if change > 0:
            residuals = problem.residuals(plan, problem.whole)
        lowest = aim(residuals)
        arrived = state.lam <= ARRIVED * lowest
        patience = state.patience - arrived
        settled = arrived and (change < tol or patience == 0)
        if arrived:
            current = min(state.lam, lowest)
        else:
            current = max(anneal * state.lam, lowest)
        state = State(plan, residuals, current, change, settled, patience)


def _target_lam(residuals: tuple[Array, ...], mad_factor: float) -> float:
    medians = [_median_off_diagonal(residual) for residual in residuals]
    # the median of the roots is the root of the median
    return max((mad_factor * NORMAL_MAD) ** 2 * max(medians), FLOOR)


def _median_off_diagonal(table: Array) -> float:
    xp = namespace_of(table)
    n = table.shape[0]
    # without its last entry the table has rows of n + 1 that begin on the diagonal
    rows = xp.reshape(xp.reshape(table, (-1,))[:-1], (n - 1, n + 1))
    values = xp.reshape(rows[:, 1:], (-1,))
    middle = values.shape[0] // 2
    if array_kind(values) == "numpy":
        return float(np.partition(values, middle)[middle])
    return float(xp.sort(values)[middle])


def polish(
    problem: Problem,
    plan: Array,
    lam: float,
    step: Step,
    max_iter: int,
    tol: float,
) -> tuple[Array, list[float], bool]:
    r"""Descend on the objective at one lambda.

    The objective is the masked cost plus :math:`\lambda` times the price of the masks.
    The source's mask, the target's and the plan take turns.

    Parameters
    ----------
    problem : Problem
        The spaces.
    plan : array of shape (n, m)
        Where to begin, with the masks that follow from unmasked residuals.
    lam : float
        Price of the masks.
    step : callable
        The transport step.
    max_iter : int
        Greatest number of rounds.
    tol : float
        Relative decrease in a round at which to stop.

    Returns
    -------
    plan : array of shape (n, m)
        The plan.
    objective : list of float
        At the start and after each block.
    settled : bool
        Whether ``tol`` was reached.
    """
    source, target = State.of(problem, plan, lam).masked(problem)

    def objective(mask: Array, residual: Array, weights: Array) -> float:
        # what the pairs of one space suffer adds up to the masked cost
        cost = _mean(mask * residual, weights)
        return cost + lam * problem.price((source, target))

    residual = pair_residual(target, plan, problem.Cx, problem.a)
    curve = [objective(source[0, ...], residual, problem.a)]
    for _ in range(max_iter):
        source = problem.source_moments(residual, lam)
        curve.append(objective(source[0, ...], residual, problem.a))
        residual = pair_residual(source, plan.T, problem.Cy, problem.b)
        target = problem.target_moments(residual, lam)
        curve.append(objective(target[0, ...], residual, problem.b))
        plan = step(partial(masked_gw_grad, source, target), plan)
        residual = pair_residual(target, plan, problem.Cx, problem.a)
        curve.append(objective(source[0, ...], residual, problem.a))
        if curve[-4] - curve[-1] <= tol * abs(curve[-4]):
            return plan, curve, True
    return plan, curve, max_iter == 0
