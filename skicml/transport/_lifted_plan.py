"""A plan between lifted spaces: its products, its rows, and its images of new rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from skicml.base import to_host, to_like
from skicml.transport._egw_solver import factors, log_of
from skicml.transport._lift import Lift
from skicml_accel._namespaces import namespace_of
from skicml_accel._types import Array
from skicml_accel.transport import plan_argmax, plan_contract, sinkhorn_pass


@dataclass
class LiftedPlan:
    """The plan of a fitted aligner.

    Parameters
    ----------
    source, target : Lift
        The spaces.
    scale : (float, float)
        What their costs are divided by.
    gamma : array of shape (D, E)
        Map between coordinates, in scaled units.
    eps : float
        Entropic regularization, in scaled units.
    p, q : arrays of shapes (n,) and (m,)
        Potentials over epsilon; the rows of the plan sum to their weights.
    """

    source: Lift
    target: Lift
    scale: tuple[float, float]
    gamma: Array
    eps: float
    p: Array
    q: Array

    def __post_init__(self) -> None:
        """Make the rows exact and measure the columns."""
        left, right = self._factors(self.source.embedding, self.source.diagonal)
        a, b = self.source.weights, self.target.weights
        self.p, log_c = sinkhorn_pass(left, right, self.p, self.q, a, b)
        self.columns = b * namespace_of(b).exp(log_c)

    @property
    def marginal_error(self) -> float:
        """Sum of absolute errors of the column sums."""
        xp = namespace_of(self.columns)
        return float(xp.sum(xp.abs(self.columns - self.target.weights)))

    def map_arrays(self, move: Callable[[Array], Array]) -> LiftedPlan:
        """Apply a function to every array."""
        return replace(
            self,
            source=self.source.map_arrays(move),
            target=self.target.map_arrays(move),
            gamma=move(self.gamma),
            p=move(self.p),
            q=move(self.q),
        )

    def _factors(self, U: Array, s: Array) -> tuple[Array, Array]:
        """Factors of the Gibbs kernel between rows of the source and the target."""
        x, y = self.scale
        target = self.target
        return factors(
            U / x**0.5,
            s / x,
            self.gamma,
            target.embedding / y**0.5,
            target.diagonal / y,
            self.eps,
        )

    def _reversed(self, W: Array, t: Array) -> tuple[Array, Array]:
        """Make those between rows of the target and the source."""
        x, y = self.scale
        source = self.source
        return factors(
            W / y**0.5,
            t / y,
            self.gamma.T,
            source.embedding / x**0.5,
            source.diagonal / x,
            self.eps,
        )

    def means(self, U: Array, s: Array, values: Array) -> Array:
        """Mean of ``values`` (m, k) over the targets of rows of the source."""
        left, right = self._factors(U, s)
        return plan_contract(left, right, self._bias, values)

    def reverse_means(self, W: Array, t: Array, values: Array) -> Array:
        """Mean of ``values`` (n, k) over the sources of rows of the target."""
        left, right = self._reversed(W, t)
        return plan_contract(left, right, self.p + log_of(self.source.weights), values)

    def argmax(self, U: Array, s: Array) -> Array:
        """Most likely target of rows of the source."""
        left, right = self._factors(U, s)
        return plan_argmax(left, right, self._bias)

    @property
    def _bias(self) -> Array:
        return self.q + log_of(self.target.weights)

    def block(self, rows: Any) -> Array:
        """Rows of the plan; ``rows`` is an index of an array or a slice."""
        left, right = self._factors(
            self.source.embedding[rows, :], self.source.diagonal[rows]
        )
        xp = namespace_of(left)
        z = left @ right.T + self._bias
        weight = xp.exp(z - xp.max(z, axis=1, keepdims=True))
        share = self.source.weights[rows] / xp.sum(weight, axis=1)
        return weight * share[:, None]

    def exact_cost(self, scale: tuple[float, float]) -> float:
        """Cost of the plan from whole matrices of costs, divided by ``scale``."""
        Cx, Cy = (
            (
                space.rows
                if space.cost.name == "precomputed"
                else space.cost.block(space.rows, space.rows)
            )
            / unit
            for space, unit in zip((self.source, self.target), scale, strict=True)
        )
        P = self.block(slice(None))
        a, b = self.source.weights, self.columns
        moments = a @ ((Cx * Cx) @ a) + b @ ((Cy * Cy) @ b)
        return float(moments - 2 * namespace_of(P).sum((Cx @ P @ Cy) * P))

    def times(self, V: Array) -> Array:
        """Multiply the plan by V (m, k)."""
        source = self.source
        means = self.means(source.embedding, source.diagonal, V)
        return source.weights[:, None] * means

    def transposed_times(self, V: Array) -> Array:
        """Multiply the transposed plan by V (n, k)."""
        target = self.target
        means = self.reverse_means(target.embedding, target.diagonal, V)
        return self.columns[:, None] * means

    def operator(self) -> LinearOperator:
        """Wrap the plan as an operator of SciPy on NumPy vectors."""
        like = self.p

        def product(apply: Callable[[Array], Array]) -> Callable[[Any], np.ndarray]:
            def run(V: Any) -> np.ndarray:
                V = np.asarray(V)
                table = to_like(V.reshape(V.shape[0], -1), like)
                return to_host(apply(table)).reshape(-1, *V.shape[1:])

            return run

        forward, backward = product(self.times), product(self.transposed_times)
        return LinearOperator(
            (self.p.shape[0], self.q.shape[0]),
            matvec=forward,
            matmat=forward,
            rmatvec=backward,
            rmatmat=backward,
            dtype=to_host(like[:1]).dtype,
        )
