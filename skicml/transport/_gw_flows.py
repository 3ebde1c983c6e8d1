"""Descent of clouds along the gradient of their Gromov-Wasserstein objective."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skicml.base import iterate
from skicml.transport._costs import mean_squared_slope, parse_costs
from skicml.transport._egw_gradient import check_differentiable, loss_and_gradients
from skicml.transport._lifted_gw import LiftedGWAligner
from skicml_accel._namespaces import namespace_of
from skicml_accel._types import Array

#: A cloud this many times as large as at the start does not come back.
DIVERGED = 1e4


def gw_gradient_flow(
    X, Y, *, n_steps=200, step_size=1.0, momentum=0.9, debias=True, verbose=0, **params
):
    r"""Move a cloud until it has the shape of another one.

    Descends along the gradient of the entropic Gromov-Wasserstein objective, so that
    position and orientation of the cloud stay what they were.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Where the cloud starts; not changed.
    Y : array of shape (n_targets, n_target_features)
        The shape to take; its number of columns may differ.
    n_steps : int, default=200
        Steps.
    step_size : float, default=1.0
        In units of the inverse curvature of the objective, about
        :math:`4\,E|\partial c|^2` per mass.
    momentum : float, default=0.9
        Share of the last step that is repeated, in [0, 1).
    debias : bool, default=True
        Subtract half of the objective of X with itself; without, the cloud shrinks by
        what the entropic plan blurs.
    verbose : int, default=0
        From 1 on a progress bar is shown on the standard error stream.
    **params : dict
        Parameters of :class:`LiftedGWAligner`, as in :func:`egw_loss`.

    Returns
    -------
    Bunch
        ``X``, the last cloud; ``path``, array of shape (n_steps + 1, n_samples,
        n_features), all clouds from the first to the last; ``loss``, ndarray of shape
        (n_steps,), the objective before each step, in squared units of the cost.

    Raises
    ------
    ValueError
        For settings that have no gradient, and steps or momentum out of range.

    See Also
    --------
    egw_loss : The objective, for optimizers of torch.
    gw_barycenter : Between several shapes.

    Notes
    -----
    One fit a step, two with ``debias``, each started from the last. ``path`` takes
    memory for every step.

    References
    ----------
    C. Houry, J. Feydy and F.-X. Vialard, "Gromov-Wasserstein at Scale, Beyond Squared
    Norms", ICML 2026, arXiv 2602.06658. Step and preconditioning are ours.

    Examples
    --------
    >>> import numpy as np
    >>> from skicml.transport import gw_gradient_flow
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(40, 2)), rng.normal(size=(50, 2)) * [3, 1]
    >>> flow = gw_gradient_flow(X, Y, n_steps=5, momentum=0.0, epsilon=0.05)
    >>> flow.path.shape, bool(flow.loss[-1] < flow.loss[0])
    ((6, 40, 2), True)
    """
    objective = _Objective([Y], [1.0], debias, params)
    return _descend(objective, X, n_steps, step_size, momentum, verbose)


def gw_barycenter(
    spaces: Sequence[Any],
    weights=None,
    *,
    init,
    n_steps=50,
    step_size=1.0,
    momentum=0.25,
    debias=True,
    verbose=0,
    **params,
):
    r"""Find a cloud between several shapes.

    Minimizes :math:`\sum_k w_k EGW(B, X_k) - EGW(B, B) / 2` over the rows of B.

    Parameters
    ----------
    spaces : sequence of arrays of shape (n_k, d_k)
        The shapes.
    weights : array-like of shape (n_spaces,) or None, default=None
        Not negative, divided by their sum; None means equal.
    init : array of shape (n_samples, n_features)
        Where B starts, such as one of the shapes, or normal variables; gives its size.
    n_steps : int, default=50
        Steps.
    step_size : float, default=1.0
        As in :func:`gw_gradient_flow`.
    momentum : float, default=0.25
        As in :func:`gw_gradient_flow`.
    debias : bool, default=True
        Subtract the term of B with itself; without, B shrinks.
    verbose : int, default=0
        From 1 on a progress bar is shown on the standard error stream.
    **params : dict
        Parameters of :class:`LiftedGWAligner`, as in :func:`egw_loss`.

    Returns
    -------
    Bunch
        ``X``, the cloud; ``path`` and ``loss`` as in :func:`gw_gradient_flow`.

    Raises
    ------
    ValueError
        For settings that have no gradient, and weights, steps or momentum out of range.

    See Also
    --------
    gw_gradient_flow : Toward one shape.
    ot.gromov.gromov_barycenters : As a matrix of costs instead of a cloud.

    References
    ----------
    C. Houry, J. Feydy and F.-X. Vialard, "Gromov-Wasserstein at Scale, Beyond Squared
    Norms", ICML 2026, arXiv 2602.06658. Step and preconditioning are ours.

    Examples
    --------
    >>> import numpy as np
    >>> from skicml.transport import gw_barycenter
    >>> rng = np.random.default_rng(0)
    >>> A, B = (rng.normal(size=(50, 2)) * [s, 1] for s in (3, 1))
    >>> found = gw_barycenter([A, B], init=A, n_steps=5, epsilon=0.05)
    >>> found.X.shape
    (50, 2)
    """
    spaces = list(spaces)
    if weights is None:
        shares = np.full(len(spaces), 1 / max(1, len(spaces)))
    else:
        shares = np.asarray(weights, dtype=np.float64)
    if (
        not spaces
        or shares.shape != (len(spaces),)
        or not np.isfinite(shares).all()
        or (shares < 0).any()
        or shares.sum() == 0
    ):
        raise ValueError(
            f"gw_barycenter needs one weight, not negative, for each of at least one "
            f"space, got {len(spaces)} spaces and weights {weights}."
        )
    objective = _Objective(spaces, list(shares / shares.sum()), debias, params)
    return _descend(objective, init, n_steps, step_size, momentum, verbose)


def _extent(X: Array) -> float:
    xp = namespace_of(X)
    return float(xp.max(xp.abs(X - xp.mean(X, axis=0))))


class _Objective:
    """Weighted objectives between a cloud and fixed ones, less its own."""

    def __init__(
        self,
        spaces: list[Any],
        shares: list[float],
        debias: bool,
        params: dict[str, Any],
    ) -> None:
        self.spaces = spaces
        self.shares = shares
        self.debias = debias
        self.aligners = [LiftedGWAligner(**params, warm_start=True) for _ in spaces]
        check_differentiable(self.aligners[0])
        self.cost = parse_costs(self.aligners[0].cost, self.aligners[0].cost_params)[0]

    def __call__(self, X: Array) -> tuple[float, Array]:
        """Objective, and its gradient (n, d)."""
        total = 0.0
        slope: Any = 0.0
        for share, aligner, space in zip(
            self.shares, self.aligners, self.spaces, strict=True
        ):
            aligner.fit(X, space)
            loss, by_X, _ = loss_and_gradients(
                aligner, debias=self.debias, sides=(True, False)
            )
            assert by_X is not None
            total, slope = total + share * loss, slope + share * by_X
        return total, slope


def _descend(
    objective: _Objective,
    X: Any,
    n_steps: int,
    step_size: float,
    momentum: float,
    verbose: int,
) -> Bunch:
    if not isinstance(n_steps, Integral) or n_steps < 1:
        raise ValueError(f"n_steps must be a positive integer, got {n_steps!r}.")
    if not 0 < step_size < float("inf"):
        raise ValueError(f"step_size must be positive, got {step_size!r}.")
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be in [0, 1), got {momentum!r}.")
    path: list[Any] = []
    velocity: Any = 0.0
    loop = iterate(None, n_steps, "moving", verbose=verbose)
    for step in loop:
        loss, slope = objective(X)
        # as the fit has validated it
        X = objective.aligners[0]._plan.source.rows
        if not path:
            path.append(X)
        curvature = 4 * mean_squared_slope(objective.cost, X)
        weights = objective.aligners[0]._plan.source.weights
        direction = slope / (weights[:, None] * curvature)
        velocity = momentum * velocity + direction
        X = X - step_size * velocity
        if not _extent(X) < DIVERGED * _extent(path[0]):
            raise ValueError(
                f"The descent left the data behind at step {len(path)}. Lower step_size "
                f"(now {step_size:g}) or momentum (now {momentum:g})."
            )
        path.append(X)
        step.log(loss=loss)
    return Bunch(X=X, path=namespace_of(X).stack(path), loss=loop.history["loss"])
