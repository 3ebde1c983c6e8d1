"""The base cost of a space: a formula, a function of the user, or a matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances

from skicml.base import to_like
from skicml_accel._chunks import row_chunks
from skicml_accel._namespaces import array_kind, dtype_name, namespace_of
from skicml_accel._types import Array
from skicml_accel.transport import cost_block, cost_block_matvec

#: Formulas, and the name and the default of their parameter.
FORMULAS: dict[str, tuple[str, float] | None] = {
    "cityblock": None,
    "euclidean": None,
    "gaussian": ("sigma", 1.0),
    "power": ("p", 1.0),
    "sqeuclidean": None,
}

#: Rows from which a mean over pairs is estimated.
SAMPLE = 500

#: Distances closer to zero than this, in units of the largest coordinate, have no
#: direction: the gradient of a distance is taken to be zero there.
NO_DIRECTION = 1e-9


@dataclass(frozen=True)
class Cost:
    """Cost of a space.

    Parameters
    ----------
    name : str
        Name of a formula, "precomputed" or "callable".
    parameter : float
        Parameter of the formula.
    function : callable or None
        ``function(U, V)`` of shape (n, m), for the name "callable".
    """

    name: str
    parameter: float = 1.0
    function: Callable[[Array, Array], Array] | None = field(default=None, repr=False)

    def block(self, X: Array, Y: Array) -> Array:
        """Costs between all rows of X (n, d) and of Y (m, d), (n, m)."""
        if array_kind(X) == "scipy.sparse":
            return self._sparse_block(X, Y)
        if self.function is None:
            return cost_block(X, Y, cost=self.name, parameter=self.parameter)
        block = to_like(self.function(X, Y), X)
        if tuple(block.shape) != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"The cost function returned shape {tuple(block.shape)} for "
                f"{X.shape[0]} and {Y.shape[0]} rows. It must return one cost per pair."
            )
        xp = namespace_of(block)
        if not bool(xp.all(xp.isfinite(block))):
            raise ValueError(
                "The cost function returned NaN or infinity. Make it finite for all "
                "pairs of rows."
            )
        return block

    def matvec(
        self, X: Array, Y: Array, V: Array, weights: Array | None = None
    ) -> tuple[Array, Array | None]:
        """Costs (n, m) times V (m, k), and squared costs times weights (m,)."""
        if self.function is None and array_kind(X) != "scipy.sparse":
            return cost_block_matvec(
                X, Y, V, cost=self.name, parameter=self.parameter, weights=weights
            )
        xp = namespace_of(V)
        products, squares = [], []
        for rows in row_chunks(X.shape[0], 24 * Y.shape[0], None):
            block = self.block(X[rows, :], Y)
            products.append(block @ V)
            if weights is not None:
                squares.append((block * block) @ weights)
        return xp.concat(products), None if weights is None else xp.concat(squares)

    def _sparse_block(self, X: Any, Y: Any) -> np.ndarray:
        """Costs of sparse rows, by the expansion that their products allow."""
        if self.name == "cityblock":
            return manhattan_distances(X, Y).astype(X.dtype, copy=False)
        squared = euclidean_distances(X, Y, squared=True)
        # equal rows shall cost nothing, which the expansion leaves to rounding
        size = np.maximum.outer(*(_squared_norms(rows) for rows in (X, Y)))
        squared[squared <= 8 * np.finfo(X.dtype).eps * size] = 0
        if self.name == "sqeuclidean":
            return squared
        if self.name == "gaussian":
            return -2 * np.expm1(squared * (-0.5 / self.parameter**2))
        power = 1.0 if self.name == "euclidean" else self.parameter
        return squared ** (power / 2)


def _squared_norms(rows: Any) -> np.ndarray:
    return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()


def parse_costs(cost: Any, params: Any) -> tuple[Cost, Cost]:
    """Read the parameters ``cost`` and ``cost_params`` of an estimator.

    Parameters
    ----------
    cost : str, callable or pair of these
        The cost, or one for each space.
    params : dict, None or pair of these
        The parameter of each formula.

    Returns
    -------
    source, target : Cost
        Validated.

    Raises
    ------
    ValueError
        If a name or a parameter is unknown or out of range.
    """
    pair = cost if isinstance(cost, tuple) else (cost, cost)
    params = params if isinstance(params, tuple) else (params, params)
    if len(pair) != 2 or len(params) != 2:
        raise ValueError(
            "A tuple as cost or cost_params holds one entry for each of the two spaces,"
            f" got {len(pair)} and {len(params)}."
        )
    source, target = (
        _parse(name, given) for name, given in zip(pair, params, strict=True)
    )
    return source, target


def _parse(name: Any, params: dict[str, float] | None) -> Cost:
    params = dict(params or {})
    if callable(name):
        if params:
            raise ValueError(
                f"cost_params={params} cannot be given to a cost function. Bind them "
                "with functools.partial."
            )
        return Cost("callable", function=name)
    if name != "precomputed" and name not in FORMULAS:
        raise ValueError(
            f"cost must be one of {', '.join(map(repr, FORMULAS))}, 'precomputed' or a "
            f"function, got {name!r}."
        )
    key = None if name == "precomputed" else FORMULAS[name]
    value = 1.0 if key is None else params.pop(key[0], key[1])
    if not isinstance(value, Real):
        raise TypeError(
            f"cost_params of cost={name!r} must be a number, got {value!r}. Pass "
            f"{{{key[0]!r}: {key[1]}}}, for example."  # type: ignore[index]
        )
    if params:
        takes = f"only {key[0]!r}" if key else "no parameter"
        raise ValueError(
            f"cost={name!r} takes {takes}, got cost_params={params}. Remove the rest."
        )
    if name == "power" and not 0 < value <= 2:
        raise ValueError(
            "cost |x-y|^p is conditionally negative type only for 0 < p <= 2, got "
            f"p={value:g}. Choose p in this range."
        )
    if name == "gaussian" and not 0 < value < float("inf"):
        raise ValueError(f"sigma of the gaussian cost must be positive, got {value}.")
    return Cost(name, float(value))


def pull(cost: Cost, X: Array, M: Callable[[slice, Array], Array]) -> Array:
    r"""Gradient of a sum of costs between the rows of one cloud.

    Parameters
    ----------
    cost : Cost
        A formula.
    X : array of shape (n, d)
        The cloud.
    M : callable
        ``M(rows, C)`` gives the weights (rows, n) of the pairs, for their costs C.

    Returns
    -------
    array of shape (n, d)
        :math:`\sum_k M_{ik} \partial_1 c(x_i, x_k)`.

    Notes
    -----
    In blocks of rows: memory does not grow with the square of n.
    """
    xp = namespace_of(X)
    size = 4 if dtype_name(X) == "float32" else 8
    pieces = []
    floor = NO_DIRECTION * float(xp.max(xp.abs(X)))
    for rows in row_chunks(X.shape[0], 6 * size * X.shape[0], None):
        C = cost.block(X[rows, :], X)
        weight = M(rows, C)
        if cost.name == "cityblock":
            pieces.append(_signs(xp, X, rows, weight))
            continue
        # all others are functions of the squared distance: 2 c'(d2) (x - x')
        weight = weight * _slope(xp, cost, C, floor)
        rest = xp.sum(weight, axis=1)[:, None] * X[rows, :] - weight @ X
        pieces.append(2 * rest)
    return xp.concat(pieces)


def mean_squared_slope(cost: Cost, X: Array) -> float:
    """Mean over pairs of rows of the squared norm of the gradient of the cost.

    Of at most 500 rows, evenly spaced; 1 if it vanishes everywhere.
    """
    xp = namespace_of(X)
    X = X[:: max(1, X.shape[0] // SAMPLE), :]
    if cost.name == "cityblock":
        return float(X.shape[1])
    squared = cost_block(X, X, cost="sqeuclidean")
    floor = NO_DIRECTION * float(xp.max(xp.abs(X)))
    slope = _slope(xp, cost, cost.block(X, X), floor)
    return float(xp.mean(4 * slope * slope * squared)) or 1.0


def _slope(xp: Any, cost: Cost, C: Array, floor: float) -> Array:
    """Differentiate the cost by the squared distance, given the cost itself."""
    if cost.name == "sqeuclidean":
        return xp.ones_like(C)
    if cost.name == "gaussian":
        return (1 - C / 2) / cost.parameter**2
    power = 1.0 if cost.name == "euclidean" else cost.parameter
    distance = C if power == 1.0 else C ** (1 / power)
    near = distance <= floor
    safe = xp.where(near, xp.ones_like(C), distance)
    return xp.where(near, xp.zeros_like(C), (power / 2) * safe ** (power - 2))


def _signs(xp: Any, X: Array, rows: slice, weight: Array) -> Array:
    columns = [
        xp.sum(weight * xp.sign(X[rows, column, None] - X[None, :, column]), axis=1)
        for column in range(X.shape[1])
    ]
    return xp.stack(columns, axis=1)
