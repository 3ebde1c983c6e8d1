r"""Products with cost matrices that are never stored.

The costs are functions of differences, summed without the expansion
:math:`|x|^2 - 2 x y + |y|^2`, whose cancellation would leave a cost of a point to
itself: such noise on the diagonal of a distance is of the order of the square root of
the rounding error.
"""

from __future__ import annotations

import sys
from typing import Any

from skicml_accel._chunks import row_chunks
from skicml_accel._namespaces import array_kind, dtype_name, namespace_of, require_same
from skicml_accel._registry import op
from skicml_accel._types import Array

#: Costs and whether they take a parameter.
COSTS = {
    "sqeuclidean": False,
    "euclidean": False,
    "cityblock": False,
    "power": True,
    "gaussian": True,
}

#: Bytes of a block of the cost matrix on the CPU, which shall stay in the cache.
TILE_BYTES = 2**20


@op
def cost_block(
    X: Array, Y: Array, *, cost: str = "euclidean", parameter: float = 1.0
) -> Array:
    r"""Costs between all rows of two tables.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows; float32 or float64.
    Y : array of shape (m, d)
        Rows.
    cost : {"sqeuclidean", "euclidean", "cityblock", "power", "gaussian"}
        :math:`|x - y|^2`, :math:`|x - y|`, :math:`|x - y|_1`, :math:`|x - y|^p`, or
        :math:`2 - 2 \exp(-|x - y|^2 / 2 \sigma^2)`.
    parameter : float, default=1.0
        The p of "power" or the :math:`\sigma` of "gaussian"; others ignore it.

    Returns
    -------
    array of shape (n, m)
        Exactly 0 between equal rows.

    Raises
    ------
    TypeError
        If the arrays do not share library and device.
    ValueError
        If shapes do not fit or the cost is unknown.

    Notes
    -----
    3 n m d flops and n m roots, powers or exponentials. Deterministic.
    """
    check_rows("cost_block", X, Y, cost)
    xp = namespace_of(X)
    total = xp.zeros((X.shape[0], Y.shape[0]), dtype=X.dtype, device=X.device)
    for column in range(X.shape[1]):
        gap = X[:, column, None] - Y[None, :, column]
        total = total + (xp.abs(gap) if cost == "cityblock" else gap * gap)
    return _of_sum(xp, total, cost, parameter)


@op
def cost_block_matvec(
    X: Array,
    Y: Array,
    V: Array,
    *,
    cost: str = "euclidean",
    parameter: float = 1.0,
    weights: Array | None = None,
    chunk_bytes: int | None = None,
) -> tuple[Array, Array | None]:
    r"""Multiply the matrix of costs by vectors, block by block.

    .. math::
        O = C V, \qquad o_i = \sum_j C_{ij}^2 w_j, \qquad C_{ij} = c(x_i, y_j).

    Parameters
    ----------
    X : array of shape (n, d)
        Rows; float32 or float64.
    Y : array of shape (m, d)
        Rows.
    V : array of shape (m, k)
        What C is multiplied by.
    cost : {"sqeuclidean", "euclidean", "cityblock", "power", "gaussian"}
        See :func:`cost_block`.
    parameter : float, default=1.0
        See :func:`cost_block`.
    weights : array of shape (m,) or None, default=None
        The w of the squared costs.
    chunk_bytes : int or None, default=None
        Bytes of temporaries to stay below where that is possible; None means 64 MiB.

    Returns
    -------
    product : array of shape (n, k)
        The product.
    squared : array of shape (n,) or None
        Weighted sums of the squared costs; None without ``weights``.

    Raises
    ------
    TypeError
        If the arrays do not share library and device.
    ValueError
        If shapes do not fit or the cost is unknown.

    Notes
    -----
    n m (3 d + 2 k) flops, and two more with ``weights``; n m roots, powers or
    exponentials. What the bytes are says :func:`cost_block_matvec_estimate_bytes`.
    Deterministic.
    """
    check_rows("cost_block_matvec", X, Y, cost, V=V, weights=weights)
    xp = namespace_of(X)
    products, squares = [], []
    bytes_per_row = 4 * Y.shape[0] * (4 if dtype_name(X) == "float32" else 8)
    for rows in row_chunks(X.shape[0], bytes_per_row, chunk_bytes):
        block = cost_block(X[rows, :], Y, cost=cost, parameter=parameter)
        products.append(block @ V)
        if weights is not None:
            squares.append((block * block) @ weights)
    if not products:
        return X[:, :1] * V[:1, :], None if weights is None else X[:, 0]
    return xp.concat(products), None if weights is None else xp.concat(squares)


def cost_block_matvec_estimate_bytes(
    n: int, m: int, d: int, k: int, itemsize: int = 4
) -> int:
    """Peak bytes of temporaries and output of :func:`cost_block_matvec` on the CPU.

    Parameters
    ----------
    n, m, d, k : int
        Rows of X and Y, their columns, and the columns of V.
    itemsize : int, default=4
        Bytes of a number.

    Returns
    -------
    int
        A block of 1 MiB of the costs, or one row, its square, the transposed rows of
        Y, and the output.
    """
    row = m * itemsize
    return 2 * max(TILE_BYTES, row) + itemsize * (m * d + n * (k + 1))


def _of_sum(xp: Any, total: Array, cost: str, parameter: float) -> Array:
    """Cost of a sum of squared, or for "cityblock" absolute, differences."""
    if cost == "euclidean":
        return xp.sqrt(total)
    if cost == "power":
        return total ** (parameter / 2)
    if cost == "gaussian":
        # 1 - exp keeps its digits where rows are close
        return -2 * xp.expm1(total * (-0.5 / parameter**2))
    return total


def check_rows(name: str, X: Array, Y: Array, cost: str, **vectors: Any) -> None:
    """Raise the errors of the operations above."""
    require_same(name, X=X, Y=Y, **vectors)
    if cost not in COSTS:
        raise ValueError(
            f"{name}: cost must be one of {', '.join(sorted(COSTS))}, got {cost!r}."
        )
    if X.ndim != 2 or Y.ndim != 2 or X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"{name}: X and Y must be matrices with equally many columns, got shapes "
            f"{tuple(X.shape)} and {tuple(Y.shape)}. Reshape them."
        )
    for key, vector in vectors.items():
        if vector is not None and vector.shape[0] != Y.shape[0]:
            raise ValueError(
                f"{name}: {key} must have {Y.shape[0]} rows, as Y has, got "
                f"{vector.shape[0]}."
            )


def _no_grad(*arrays: Array, weights: Array | None = None, **_: Any) -> str | None:
    given = arrays if weights is None else (*arrays, weights)
    if any(array_kind(x) == "torch" and x.requires_grad for x in given):
        return "gradients are asked for"
    return None


def _worth_compiling(X: Array, Y: Array, *_: Any, **__: Any) -> str | None:
    if _HERE + "numba" in sys.modules or X.shape[0] * Y.shape[0] >= SMALL_WORK:
        return None
    return f"{X.shape[0]} x {Y.shape[0]} costs are too few to compile for"


#: Below this many entries SciPy is fast enough, and importing the compiler is not.
SMALL_WORK = 250_000

_HERE = "skicml_accel.transport._cost_"
_CPU: dict[str, Any] = {
    "kinds": {"numpy", "torch"},
    "devices": {"cpu"},
    "dtypes": {"float32", "float64"},
    "accepts": _no_grad,
}
for _op in (cost_block, cost_block_matvec):
    _op.implementation(
        "numba",
        f"{_HERE}numba:{_op.name}",
        requires=("numba",),
        pays=_worth_compiling,
        **_CPU,
    )
    _op.implementation("scipy", f"{_HERE}scipy:{_op.name}", **_CPU)
