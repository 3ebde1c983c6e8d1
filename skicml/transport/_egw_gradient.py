r"""Gradient of the entropic Gromov-Wasserstein objective by the rows of a space.

At a minimum the plan and gamma may be held fixed (envelope theorem). What is left is

.. math::
    \nabla_{x_i} = 4 a_i \sum_k a_k \bigl(\kappa\, c(x_i, x_k) - t_i - t_k
    + 2 \langle T_i, T_k \rangle\bigr) \, \partial_1 c(x_i, x_k),

where :math:`T_i` is the mean lifted image of :math:`x_i`, :math:`t_i` the mean of the
squared distances of its images to their center, and :math:`\kappa = 1` but for what the
unit of epsilon owes to the costs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from skicml.transport._costs import FORMULAS, pull
from skicml.transport._lift import Lift
from skicml_accel._namespaces import namespace_of
from skicml_accel._types import Array


class Image(NamedTuple):
    """Where a plan sends the rows of a space.

    Parameters
    ----------
    T : array of shape (n, E)
        Mean lifted coordinates.
    t : array of shape (n,)
        Mean squared distance to the center.
    signs : array of shape (E,)
        Signs of the axes.
    """

    T: Array
    t: Array
    signs: Array


def images(aligner: Any) -> tuple[Image, Image]:
    """Images of the source in the target and of the target in the source."""
    plan = aligner._plan
    source, target = plan.source, plan.target
    found = []
    for space, other, means in (
        (source, target, plan.means),
        (target, source, plan.reverse_means),
    ):
        xp = namespace_of(other.embedding)
        values = xp.concat([other.embedding, other.diagonal[:, None]], axis=1)
        mean = means(space.embedding, space.diagonal, values)
        found.append(Image(mean[:, :-1], mean[:, -1], other.signs))
    return found[0], found[1]


def gradient(
    space: Lift, kappa: float, image: Image, own: Image | None = None
) -> Array:
    """Gradient by the rows of a space.

    Parameters
    ----------
    space : Lift
        The space.
    kappa : float
        Factor of the costs.
    image : Image
        Its image in the other space.
    own : Image or None, default=None
        Its image in itself, if half of the objective between the space and itself is
        subtracted.

    Returns
    -------
    array of shape (n, d)
        O(n^2 (d + D)) time, memory linear in n.
    """
    a = space.weights

    def weights(rows: slice, C: Array) -> Array:
        pairs = kappa * C - _expected(image, rows)
        if own is not None:
            pairs = pairs - C + _expected(own, rows)
        return 4 * a[rows][:, None] * a * pairs

    return pull(space.cost, space.rows, weights)


def _expected(image: Image, rows: slice) -> Array:
    """Mean cost between the images of two rows, drawn independently."""
    cross = (image.T[rows, :] * image.signs) @ image.T.T
    return image.t[rows][:, None] + image.t - 2 * cross


def check_differentiable(aligner: Any) -> None:
    """Refuse settings whose gradient is not known."""
    costs = aligner.cost if isinstance(aligner.cost, tuple) else (aligner.cost,)
    for cost in costs:
        if not isinstance(cost, str) or cost not in FORMULAS:
            raise ValueError(
                f"Gradients are known for cost in {', '.join(map(repr, FORMULAS))}, got "
                f"{cost!r}. Use one of these, or LiftedGWAligner without gradients."
            )
    for name, unknown, other in (
        ("diagonal", "truncated", "'exact'"),
        ("cost_scale", "separate", "'rms' or 'none'"),
    ):
        if getattr(aligner, name) == unknown:
            raise ValueError(f"Gradients need {name}={other}, got {unknown!r}.")


def loss_and_gradients(
    aligner: Any, *, debias: bool, sides: tuple[bool, bool] = (True, True)
) -> tuple[float, Array | None, Array | None]:
    """Objective of a fitted aligner and its gradients by X and by Y.

    Parameters
    ----------
    aligner : LiftedGWAligner
        Fitted.
    debias : bool
        Whether half of the objectives of the spaces with themselves are subtracted.
    sides : (bool, bool), default=(True, True)
        Which gradients to compute; None stands for the others.

    Returns
    -------
    loss : float
        In squared units of the cost.
    by_X, by_Y : arrays of shapes (n, d) and (m, e), or None
        Gradients.
    """
    plan = aligner._plan
    unit = plan.scale[0]
    loss = aligner.egw_
    divergence = (aligner.egw_ - aligner.gw_) / (plan.eps * unit**2)
    own: list[Image | None] = [None, None]
    if debias:
        for side, space in enumerate((plan.source, plan.target)):
            state = aligner._own_state(space, unit)
            loss -= state.egw * unit**2 / 2
            divergence -= state.kl / 2
            T, t = state.means[:, :-1] * unit**0.5, state.means[:, -1] * unit
            own[side] = Image(T, t, space.signs)
    # epsilon is a share of the mean squared cost, which moves with the rows
    relative = aligner.cost_scale == "rms"
    kappa = 1 + (plan.eps * divergence / 2 if relative else 0.0)
    found = [
        gradient(space, kappa, image, mine) if wanted else None
        for space, image, mine, wanted in zip(
            (plan.source, plan.target), images(aligner), own, sides, strict=True
        )
    ]
    return loss, found[0], found[1]
