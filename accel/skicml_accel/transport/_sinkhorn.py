r"""Entropic transport between factored costs, without the matrix.

The Gibbs kernel of all operations here is :math:`\exp z_{ij}` with
:math:`z_{ij} = \langle \ell_i, r_j \rangle`: costs of Gromov-Wasserstein, squared
Euclidean costs and inner products have this form, with epsilon divided out. A coupling
of marginals a and b is :math:`P_{ij} = a_i b_j \exp(z_{ij} + p_i + q_j)`.
"""

from __future__ import annotations

import sys
from typing import Any

from skicml_accel._chunks import n_threads, row_chunks
from skicml_accel._namespaces import (
    array_kind,
    dtype_name,
    namespace_of,
    require_same,
)
from skicml_accel._registry import op
from skicml_accel._types import Array

#: Below this many entries NumPy is as fast as a compiled kernel, and importing the
#: compiler would cost more than a few passes.
SMALL_WORK = 250_000


@op
def sinkhorn_pass(
    left: Array,
    right: Array,
    p: Array,
    q: Array,
    a: Array,
    b: Array,
    *,
    jacobi: bool = False,
    chunk_bytes: int | None = None,
) -> tuple[Array, Array]:
    r"""One Sinkhorn iteration of both marginals, in one pass over the Gibbs kernel.

    .. math::
        p'_i = -\log \sum_j b_j e^{z_{ij} + q_j}, \qquad
        \log c_j = \log \sum_i a_i e^{z_{ij} + p'_i + q_j}.

    The rows of the coupling of (p', q) sum to a, and its columns to :math:`b_j c_j`,
    so that :math:`\sum_j b_j |c_j - 1|` is its marginal error. The iteration ends with
    :math:`q_j \leftarrow q_j - \log c_j`.

    Since a row is complete before its share of the columns is added, the two half
    steps follow each other, as in Sinkhorn's algorithm, and yet each entry of the
    kernel is computed once. With ``jacobi`` the columns are those of (p, q) instead,
    as the symmetrized iteration needs them.

    Parameters
    ----------
    left : array of shape (n, d)
        Factors of the rows; float32 or float64.
    right : array of shape (m, d)
        Factors of the columns.
    p : array of shape (n,)
        Potential of the rows. Without ``jacobi`` only a guess of the result, such as
        that of the last pass, which keeps the exponential in range: a bad one costs
        time, not accuracy.
    q : array of shape (m,)
        Potential of the columns.
    a : array of shape (n,)
        Weights of the rows, not negative.
    b : array of shape (m,)
        Weights of the columns, not negative, not all zero.
    jacobi : bool, default=False
        Whether the column sums are those of the given p rather than of the new one.
    chunk_bytes : int or None, default=None
        Bytes of temporaries to stay below where that is possible; None means 64 MiB.

    Returns
    -------
    p : array of shape (n,)
        New potential of the rows.
    log_c : array of shape (m,)
        Logarithm of the relative column sums.

    Raises
    ------
    TypeError
        If the arrays do not share library and device.
    ValueError
        If shapes do not fit.

    Notes
    -----
    n m (2 d + 3) flops and n m exponentials. What the bytes are says
    :func:`sinkhorn_pass_estimate_bytes`. Rows or columns whose sums leave the range of
    the dtype are summed again, shifted by their largest term. Deterministic, for any
    number of threads.
    """
    check_factors("sinkhorn_pass", left, right, p=p, q=q, a=a, b=b)
    xp = namespace_of(left)
    n, m = left.shape[0], right.shape[0]
    log_b = log_weights(b)
    potentials, highest, total = [], None, None
    bytes_per_row = 4 * m * itemsize(left)
    for rows in row_chunks(n, bytes_per_row, chunk_bytes):
        z = left[rows, :] @ right.T + q
        row = -logsumexp(xp, z + log_b, axis=1)
        potentials.append(row)
        known = p[rows] if jacobi else row
        z = z + (known + log_weights(a[rows]))[:, None]
        top = xp.max(z, axis=0)
        top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
        if highest is None:
            highest, total = top, xp.sum(xp.exp(z - top), axis=0)
            continue
        higher = xp.maximum(highest, top)
        total = total * xp.exp(highest - higher) + xp.sum(xp.exp(z - higher), axis=0)
        highest = higher
    return xp.concat(potentials), xp.log(total) + highest


def sinkhorn_pass_estimate_bytes(n: int, m: int, d: int, itemsize: int = 4) -> int:
    """Peak bytes of temporaries and output of the compiled :func:`sinkhorn_pass`.

    Parameters
    ----------
    n, m, d : int
        Rows, columns and factors.
    itemsize : int, default=4
        Bytes of a number.

    Returns
    -------
    int
        The transposed right factors, a block of rows of the kernel and column sums a
        thread, ten of column sums in double precision, and the output.
    """
    factors = itemsize * (m + 16) * (d + 3)
    rows = n_threads() * itemsize * (8 * (m + 16) + m + 16)
    return factors + rows + 10 * 8 * (m + 16) + itemsize * (2 * n + 2 * m)


@op
def plan_contract(
    left: Array,
    right: Array,
    bias: Array,
    values: Array,
    *,
    guess: Array | None = None,
    chunk_bytes: int | None = None,
) -> Array:
    r"""Average values over the rows of a softmax of inner products.

    .. math:: o_i = \frac{\sum_j e^{z_{ij} + \beta_j} v_j}{\sum_j e^{z_{ij} + \beta_j}}

    With :math:`\beta_j = q_j + \log b_j` these are the conditional means of the
    coupling that :func:`sinkhorn_pass` describes: times a, its product with
    ``values``.

    Parameters
    ----------
    left : array of shape (n, d)
        Factors of the rows; float32 or float64.
    right : array of shape (m, d)
        Factors of the columns.
    bias : array of shape (m,)
        Added to every row; -inf leaves a column out, but not all of them.
    values : array of shape (m, k)
        What is averaged.
    guess : array of shape (n,) or None, default=None
        About minus the logarithm of the denominators, such as the p of
        :func:`sinkhorn_pass`; makes it faster. A bad guess costs time, not accuracy.
    chunk_bytes : int or None, default=None
        Bytes of temporaries to stay below where that is possible; None means 64 MiB.

    Returns
    -------
    array of shape (n, k)
        Within the range of the values, up to rounding.

    Raises
    ------
    TypeError
        If the arrays do not share library and device.
    ValueError
        If shapes do not fit.

    Notes
    -----
    n m (2 d + 2 k + 3) flops and n m exponentials. Never overflows, whatever the
    factors. Deterministic.
    """
    check_factors("plan_contract", left, right, q=bias, p=guess)
    xp = namespace_of(left)
    pieces = []
    bytes_per_row = 3 * right.shape[0] * itemsize(left)
    for rows in row_chunks(left.shape[0], bytes_per_row, chunk_bytes):
        z = left[rows, :] @ right.T + bias
        weight = xp.exp(z - xp.max(z, axis=1, keepdims=True))
        total = xp.sum(weight, axis=1, keepdims=True)
        pieces.append((weight @ values) / total)
    if not pieces:
        return left[:, :1] * values[:1, :]
    return xp.concat(pieces)


def plan_contract_estimate_bytes(
    n: int, m: int, d: int, k: int, itemsize: int = 4
) -> int:
    """Peak bytes of temporaries and output of :func:`plan_contract` on the CPU.

    Parameters
    ----------
    n, m, d, k : int
        Rows, columns, factors and values.
    itemsize : int, default=4
        Bytes of a number.

    Returns
    -------
    int
        A block of rows of the kernel, of at most 64 MiB unless one row is larger,
        factors with the bias beside them, and the output.
    """
    block = min(n * m * itemsize, max(BLOCK_BYTES, m * itemsize))
    return block + itemsize * ((n + m) * (d + 1) + n * k + 4 * n)


@op
def plan_argmax(
    left: Array, right: Array, bias: Array, *, chunk_bytes: int | None = None
) -> Array:
    r"""Find the column of the largest :math:`z_{ij} + \beta_j` in each row.

    Parameters
    ----------
    left : array of shape (n, d)
        Factors of the rows; float32 or float64.
    right : array of shape (m, d)
        Factors of the columns.
    bias : array of shape (m,)
        Added to every row.
    chunk_bytes : int or None, default=None
        Bytes of temporaries to stay below where that is possible; None means 64 MiB.

    Returns
    -------
    array of shape (n,)
        Column, int64; the first of equal ones.

    Raises
    ------
    TypeError
        If the arrays do not share library and device.
    ValueError
        If shapes do not fit.

    Notes
    -----
    n m (2 d + 2) flops. Deterministic.
    """
    check_factors("plan_argmax", left, right, q=bias)
    xp = namespace_of(left)
    pieces = [
        xp.argmax(left[rows, :] @ right.T + bias, axis=1)
        for rows in row_chunks(
            left.shape[0], 2 * right.shape[0] * itemsize(left), chunk_bytes
        )
    ]
    if not pieces:
        return xp.zeros((0,), dtype=xp.int64, device=left.device)
    return xp.astype(xp.concat(pieces), xp.int64)


#: Bytes of the kernel's block of rows in :func:`plan_contract` on the CPU.
BLOCK_BYTES = 4 * 2**20


def itemsize(array: Array) -> int:
    """Bytes of an element of a floating array."""
    return 4 if dtype_name(array) == "float32" else 8


def log_weights(weights: Array) -> Array:
    """Logarithm of weights, -inf at zero, without a warning."""
    xp = namespace_of(weights)
    positive = weights > 0
    safe = xp.where(positive, weights, xp.ones_like(weights))
    return xp.where(positive, xp.log(safe), xp.full_like(weights, float("-inf")))


def logsumexp(xp: Any, z: Array, axis: int) -> Array:
    """Logarithm of summed exponentials that neither overflows nor underflows."""
    top = xp.max(z, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    total = xp.sum(xp.exp(z - top), axis=axis)
    return xp.log(total) + xp.squeeze(top, axis=axis)


def check_factors(
    name: str, left: Array, right: Array, **vectors: Array | None
) -> None:
    """Raise the errors of the operations above."""
    require_same(name, left=left, right=right, **vectors)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[1]:
        raise ValueError(
            f"{name}: left and right must be matrices with equally many columns, got "
            f"shapes {tuple(left.shape)} and {tuple(right.shape)}. Reshape them."
        )
    if right.shape[0] == 0:
        raise ValueError(f"{name}: right has no rows. Give at least one.")
    lengths = {"p": left, "a": left, "q": right, "b": right}
    for key, vector in vectors.items():
        if vector is not None and tuple(vector.shape) != (lengths[key].shape[0],):
            raise ValueError(
                f"{name}: {key} must have shape ({lengths[key].shape[0]},), got "
                f"{tuple(vector.shape)}. Give one number per row."
            )


def _no_grad(*arrays: Array, **_: Any) -> str | None:
    if any(array_kind(x) == "torch" and x.requires_grad for x in arrays):
        return "gradients are asked for"
    return None


def _guessed(*arrays: Array, guess: Array | None = None, **_: Any) -> str | None:
    return "no guess was given" if guess is None else _no_grad(*arrays)


def _narrow(
    left: Array, right: Array, *rest: Array, guess: Array | None = None, **_: Any
) -> str | None:
    widest = max(left.shape[1], *(x.shape[1] for x in rest if x.ndim == 2), 1)
    if widest > MOST_COLUMNS:
        return f"{widest} columns are more than {MOST_COLUMNS}"
    return _no_grad(left, right, *rest)


def _worth_compiling(left: Array, right: Array, *_: Any, **__: Any) -> str | None:
    if _HERE + "numba" in sys.modules:
        return None
    if left.shape[0] * right.shape[0] < SMALL_WORK:
        return f"{left.shape[0]} x {right.shape[0]} entries are too few to compile for"
    return None


#: Columns that fit into the registers of a GPU.
MOST_COLUMNS = 64

_HERE = "skicml_accel.transport._sinkhorn_"
_FLOATS = {"float32", "float64"}
_CPU: dict[str, Any] = {
    "kinds": {"numpy", "torch"},
    "devices": {"cpu"},
    "dtypes": _FLOATS,
}
sinkhorn_pass.implementation(
    "numba",
    _HERE + "numba:sinkhorn_pass",
    requires=("numba",),
    accepts=_no_grad,
    pays=_worth_compiling,
    **_CPU,
)
plan_contract.implementation(
    "numba",
    _HERE + "numba:plan_contract",
    requires=("numba",),
    accepts=_guessed,
    pays=_worth_compiling,
    **_CPU,
)
for _op in (sinkhorn_pass, plan_contract, plan_argmax):
    _op.implementation("blas", f"{_HERE}blas:{_op.name}", accepts=_no_grad, **_CPU)
for _op in (sinkhorn_pass, plan_contract):
    _op.implementation(
        "triton",
        f"{_HERE}triton:{_op.name}",
        kinds={"torch"},
        devices={"cuda"},
        dtypes={"float32"},
        requires=("triton",),
        accepts=_narrow,
    )
