r"""Entropic Gromov-Wasserstein between lifted spaces, by alternating minimization.

With lifts u of the source and w of the target, and :math:`G = U^\top P W`, the objective
is :math:`\text{const} - 4 s_x^\top P s_y - 8 |G|^2 + \varepsilon KL(P | a b^\top)`. For
a fixed matrix :math:`\Gamma` in place of one G this is entropic transport with the cost
:math:`-16 u_i^\top \Gamma w_j - 4 s_i s_j`, of rank D + 1, which Sinkhorn's algorithm
solves without the matrix; then :math:`\Gamma \leftarrow G`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from skicml.transport._lift import Lift
from skicml.transport._sinkhorn import sinkhorn
from skicml_accel._namespaces import namespace_of
from skicml_accel._types import Array
from skicml_accel.transport import plan_argmax, plan_contract, sinkhorn_pass

#: Outer iterations that annealing takes to come down from ten times epsilon.
ANNEAL_START = 10.0
ANNEAL_RATIO = 0.5


@dataclass
class Spaces:
    """Two lifted spaces in units of their scale.

    Parameters
    ----------
    U, W : arrays of shapes (n, D) and (m, E)
        Coordinates.
    s, t : arrays of shapes (n,) and (m,)
        Squared distances to the centers.
    a, b : arrays of shapes (n,) and (m,)
        Weights.
    signs : array of shape (D, E)
        Product of the signs of the axes.
    constant : float
        Part of the objective that no plan changes.
    dense : bool
        Whether to store the matrix of the transport costs.
    """

    U: Array
    s: Array
    a: Array
    W: Array
    t: Array
    b: Array
    signs: Array
    constant: float
    dense: bool = False

    def astype(self, dtype: str) -> Spaces:
        """Cast the arrays; weights sum to one in the new precision."""
        xp = namespace_of(self.U)
        arrays = {
            name: xp.astype(getattr(self, name), getattr(xp, dtype))
            for name in ("U", "s", "a", "W", "t", "b", "signs")
        }
        for name in ("a", "b"):
            arrays[name] = arrays[name] / xp.sum(arrays[name])
        return replace(self, **arrays)


def spaces_of(
    source: Lift, target: Lift, scale: tuple[float, float], *, dense: bool = False
) -> Spaces:
    """Pair two lifts, divided by the scales of their costs."""
    x, y = scale
    a, b = source.weights, target.weights
    constant = (
        source.mean_square / x**2
        + target.mean_square / y**2
        - 4 * float(a @ source.diagonal) / x * float(b @ target.diagonal) / y
    )
    return Spaces(
        source.embedding / x**0.5,
        source.diagonal / x,
        a,
        target.embedding / y**0.5,
        target.diagonal / y,
        b,
        source.signs[:, None] * target.signs[None, :],
        constant,
        dense,
    )


@dataclass
class State:
    """A coupling and what it costs.

    Parameters
    ----------
    gamma : array of shape (D, E)
        The matrix whose transport problem the potentials solve.
    p, q : arrays of shapes (n,) and (m,)
        Potentials over epsilon; rows of the plan sum to a exactly.
    eps : float
        Entropic regularization.
    egw, gw : float
        Objective with and without the entropy.
    kl : float
        Divergence of the plan from independence, in nats.
    marginal_error : float
        Sum of the errors of the column sums.
    n_sinkhorn : int
        Passes over the kernel so far.
    following : array of shape (D, E)
        The next ``gamma``.
    means : array of shape (n, E + 1)
        Mean coordinates of each row's image, and its mean squared distance to the
        center.
    """

    gamma: Array
    p: Array
    q: Array
    eps: float
    egw: float
    gw: float
    kl: float
    marginal_error: float
    n_sinkhorn: int
    following: Array
    means: Array


class Coupling:
    """The family of plans of one ``gamma`` and epsilon."""

    def __init__(self, spaces: Spaces, gamma: Array, eps: float) -> None:
        self.spaces = spaces
        self.left, self.right = factors(
            spaces.U, spaces.s, gamma, spaces.W, spaces.t, eps
        )
        self._z = self.left @ self.right.T if spaces.dense else None

    def iterate(self, p: Array, q: Array, jacobi: bool) -> tuple[Array, Array]:
        """See :func:`sinkhorn_pass`."""
        a, b = self.spaces.a, self.spaces.b
        if self._z is None:
            return sinkhorn_pass(self.left, self.right, p, q, a, b, jacobi=jacobi)
        return dense_pass(self._z, p, q, a, b, jacobi)

    @property
    def rounding(self) -> float:
        """Typical error of a row sum, from that of the products."""
        xp = namespace_of(self.left)
        longest = [
            float(xp.max(xp.sum(xp.astype(x, xp.float64) ** 2, axis=1)))
            for x in (self.left, self.right)
        ]
        unit = float(xp.finfo(self.left.dtype).eps)
        return 0.1 * unit * (longest[0] * longest[1]) ** 0.5

    def contract(self, p: Array, q: Array, values: Array) -> Array:
        """Conditional means of ``values`` (m, k) given the row, (n, k)."""
        bias = q + log_of(self.spaces.b)
        if self._z is None:
            return plan_contract(self.left, self.right, bias, values, guess=p)
        return _softmax(self._z + bias) @ values

    def argmax(self, q: Array) -> Array:
        """Most likely column of each row."""
        return plan_argmax(self.left, self.right, q + log_of(self.spaces.b))


def factors(
    U: Array, s: Array, gamma: Array, W: Array, t: Array, eps: float
) -> tuple[Array, Array]:
    """Matrices whose product is minus the transport cost over epsilon."""
    xp = namespace_of(U)
    left = xp.concat([(16 / eps) * (U @ gamma), (4 / eps) * s[:, None]], axis=1)
    return left, xp.concat([W, t[:, None]], axis=1)


def dense_pass(
    z: Array, p: Array, q: Array, a: Array, b: Array, jacobi: bool
) -> tuple[Array, Array]:
    """Do what :func:`sinkhorn_pass` does with a stored matrix."""
    xp = namespace_of(z)
    shifted = z + q
    top = xp.max(shifted, axis=1)
    kernel = xp.exp(shifted - top[:, None])
    sums = kernel @ b
    rows = -top - _log(xp, sums)
    lost = sums <= 0
    if bool(xp.any(lost)):
        # the largest entry belongs to a column of no weight
        rows = xp.where(lost, -_logsumexp(xp, shifted + log_of(b), 1), rows)
    known = p if jacobi else rows
    share = xp.exp(xp.clip(known + top, max=_LARGEST_EXPONENT))
    total = (a * share) @ kernel
    log_c = _log(xp, total)
    lost = (total <= 0) | (total > _LARGEST)
    if bool(xp.any(lost)):
        exact = shifted + (known + log_of(a))[:, None]
        log_c = xp.where(lost, _logsumexp(xp, exact, 0), log_c)
    return rows, log_c


#: Sums from here on may hold a term that was cut off; that of any is far above 1.
_LARGEST_EXPONENT = 60.0
_LARGEST = 1e20


def _logsumexp(xp: Any, z: Array, axis: int) -> Array:
    top = xp.max(z, axis=axis, keepdims=True)
    total = xp.sum(xp.exp(z - top), axis=axis)
    return xp.log(total) + xp.squeeze(top, axis=axis)


def _log(xp: Any, x: Array) -> Array:
    """Logarithm, 0 where there is none."""
    return xp.log(xp.where(x > 0, x, xp.ones_like(x)))


def log_of(weights: Array) -> Array:
    """Logarithm of weights; that of zero is so low that its exponential is zero."""
    xp = namespace_of(weights)
    return xp.where(
        weights > 0, _log(xp, weights), xp.full_like(weights, float("-inf"))
    )


def _softmax(z: Array) -> Array:
    xp = namespace_of(z)
    weight = xp.exp(z - xp.max(z, axis=1, keepdims=True))
    return weight / xp.sum(weight, axis=1, keepdims=True)


def evaluate(
    spaces: Spaces,
    gamma: Array,
    p: Array,
    q: Array,
    eps: float,
    *,
    sinkhorn_tol: float,
    sinkhorn_max_iter: int,
    n_sinkhorn: int = 0,
) -> State:
    """Solve the transport problem of ``gamma`` and measure its plan."""
    xp = namespace_of(spaces.U)
    coupling = Coupling(spaces, gamma, eps)
    p, q, error, n_iter = sinkhorn(
        coupling.iterate,
        p,
        q,
        spaces.a,
        spaces.b,
        tol=max(sinkhorn_tol, coupling.rounding),
        max_iter=sinkhorn_max_iter,
    )
    # of the plan whose rows are exact, as all that follows
    values = xp.concat([spaces.W, spaces.t[:, None], q[:, None]], axis=1)
    means = coupling.contract(p, q, values)
    G = spaces.U.T @ (spaces.a[:, None] * means[:, :-2])
    following = spaces.signs * G
    radial = float((spaces.a * spaces.s) @ means[:, -2])
    gw = spaces.constant - 4 * radial - 8 * float(xp.sum(following * G))
    kernel = (16 * float(xp.sum(gamma * G)) + 4 * radial) / eps
    # P = a b exp(z + p + q), so that this is the mean of the exponent
    kl = kernel + float(spaces.a @ (p + means[:, -1]))
    return State(
        gamma,
        p,
        q,
        eps,
        gw + eps * kl,
        gw,
        kl,
        error,
        n_sinkhorn + n_iter,
        following,
        means[:, :-1],
    )


def descend(
    spaces: Spaces,
    gamma: Array,
    eps: float,
    *,
    potentials: tuple[Array, Array] | None = None,
    eps_start: float | None = None,
    sinkhorn_tol: float = 1e-3,
    sinkhorn_max_iter: int = 500,
) -> Iterator[State]:
    """Alternate between the plan and ``gamma``, forever; the caller stops.

    Parameters
    ----------
    spaces : Spaces
        What to match.
    gamma : array of shape (D, E)
        Start.
    eps : float
        Entropic regularization, in squared units of the scaled costs.
    potentials : (array, array) or None, default=None
        Start of p and q, for ``eps_start``.
    eps_start : float or None, default=None
        Where annealing starts; None means at ``eps``.
    sinkhorn_tol : float, default=1e-3
        Error of the marginals at which the inner iteration stops.
    sinkhorn_max_iter : int, default=500
        Its greatest number of passes.

    Yields
    ------
    State
        After each outer iteration.
    """
    xp = namespace_of(spaces.U)
    p, q = potentials or (xp.zeros_like(spaces.s), xp.zeros_like(spaces.t))
    gamma = xp.astype(gamma, spaces.U.dtype)
    current = eps if eps_start is None else max(eps, eps_start)
    n_sinkhorn = 0
    while True:
        state = evaluate(
            spaces,
            gamma,
            p,
            q,
            current,
            sinkhorn_tol=sinkhorn_tol,
            sinkhorn_max_iter=sinkhorn_max_iter,
            n_sinkhorn=n_sinkhorn,
        )
        yield state
        n_sinkhorn = state.n_sinkhorn
        gamma, p, q = state.following, state.p, state.q
        lower = max(eps, current * ANNEAL_RATIO)
        # the potentials in units of the cost stay, not those over epsilon
        p, q, current = p * (current / lower), q * (current / lower), lower


def settled(
    previous: State | None, state: State, spaces: Spaces, eps: float, tol: float
) -> bool:
    """Whether the objective has stopped to change, at the final epsilon."""
    if previous is None or previous.eps > eps:
        return False
    # no smaller change can be told from rounding
    noise = 4 * float(namespace_of(state.q).finfo(state.q.dtype).eps)
    smallest = noise * abs(spaces.constant)
    change = abs(previous.egw - state.egw)
    return change < max(tol * max(abs(state.egw), 1e-3), smallest)


def polished(state: State, spaces: Spaces, tol: float, max_iter: int) -> State:
    """Bring a state to the precision of ``spaces``; its ``gamma`` stays."""
    xp = namespace_of(spaces.U)
    dtype = spaces.U.dtype
    return evaluate(
        spaces,
        xp.astype(state.gamma, dtype),
        xp.astype(state.p, dtype),
        xp.astype(state.q, dtype),
        state.eps,
        sinkhorn_tol=tol,
        sinkhorn_max_iter=max_iter,
        n_sinkhorn=state.n_sinkhorn,
    )
