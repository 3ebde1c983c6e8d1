"""Exact k nearest neighbors in Euclidean distance."""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import Any

from skicml_accel._chunks import n_threads, row_chunks
from skicml_accel._namespaces import array_kind, namespace_of, require_same
from skicml_accel._registry import op
from skicml_accel._types import Array

#: Below this many multiply-adds a library call is as fast as a compiled kernel, and
#: importing the compiler would cost more than the search.
SMALL_WORK = 20_000_000


@op
def knn(
    query: Array,
    data: Array,
    *,
    k: int,
    exclude: Array | None = None,
    chunk_bytes: int | None = None,
) -> tuple[Array, Array]:
    r"""Find the k rows of ``data`` nearest to each row of ``query``.

    .. math:: d^2(q, x) = \sum_f (q_f - x_f)^2

    Neighbors are exact and equal distances are ordered by index: the compiled
    implementations use single precision to discard rows only where an error bound
    proves that they may. The implementation "torch", which carries gradients, selects
    in the dtype of ``query``; there rows whose distances agree to rounding may change
    places.

    Parameters
    ----------
    query : array of shape (m, d)
        Rows whose neighbors are wanted; float32 or float64. NumPy, SciPy CSR, torch,
        or any other array of the array API standard.
    data : array of shape (n, d)
        Rows to search, of the same kind, dtype and device.
    k : int
        Number of neighbors, 1 <= k <= n (n - 1 with ``exclude``).
    exclude : array of shape (m,) or None, default=None
        Integer index of one row of ``data`` that each query must not return, such as
        its own; -1 excludes nothing.
    chunk_bytes : int or None, default=None
        Bytes of temporaries to stay below; None means 64 MiB. The result does not
        depend on it beyond rounding.

    Returns
    -------
    squared_distance : array of shape (m, k)
        Nearest first, in the dtype of ``query``; summed in double precision where
        neighbors are exact.
    index : array of shape (m, k)
        Rows of ``data``, int64.

    Raises
    ------
    TypeError
        If the arrays do not share library and device.
    ValueError
        If k is below 1 or above the number of rows that may be returned, or if the
        arrays are not matrices with the same columns.

    Notes
    -----
    2 m n d flops. On the CPU the compiled implementation reads ``data`` once per
    thread and holds what :func:`knn_estimate_bytes` says; the others hold at most
    ``chunk_bytes`` beside a copy of the data. Deterministic.
    """
    check_knn(query, data, k, exclude)
    if array_kind(query) == "scipy.sparse":
        query, data = query.toarray(), data.toarray()
    xp = namespace_of(query)
    (m, d), n = query.shape, data.shape[0]
    distances, indices = [], []
    bytes_per_row = 3 * n * 8
    for rows in row_chunks(m, bytes_per_row, chunk_bytes):
        block = query[rows, :]
        squared = xp.zeros((block.shape[0], n), dtype=query.dtype, device=query.device)
        for f in range(d):
            squared = squared + (block[:, f, None] - data[None, :, f]) ** 2
        if exclude is not None:
            every = xp.arange(n, dtype=xp.int64, device=query.device)
            squared = xp.where(
                every[None, :] == exclude[rows, None],
                xp.asarray(float("inf"), dtype=squared.dtype, device=query.device),
                squared,
            )
        order = xp.argsort(squared, axis=1, stable=True)[:, :k]
        distances.append(xp.take_along_axis(squared, order, axis=1))
        indices.append(xp.astype(order, xp.int64))
    if not distances:
        shape = (0, k)
        return (
            xp.zeros(shape, dtype=query.dtype, device=query.device),
            xp.zeros(shape, dtype=xp.int64, device=query.device),
        )
    return xp.concat(distances, axis=0), xp.concat(indices, axis=0)


def check_knn(query: Array, data: Array, k: int, exclude: Array | None) -> None:
    """Raise the errors of :func:`knn` for arguments that no implementation takes."""
    if array_kind(query) == "scipy.sparse":
        # the index is a vector, which SciPy has no sparse kind of
        require_same("knn", query=query, data=data)
    else:
        require_same("knn", query=query, data=data, exclude=exclude)
    columns = [array.shape[1:] for array in (query, data)]
    if columns[0] != columns[1] or len(columns[0]) != 1 or columns[0][0] == 0:
        raise ValueError(
            "knn: query and data must be matrices with equally many columns, got "
            f"shapes {tuple(query.shape)} and {tuple(data.shape)}. Reshape them."
        )
    available = data.shape[0] - (exclude is not None)
    if not 1 <= k <= available:
        raise ValueError(
            f"knn: k must be between 1 and the {available} rows that may be returned, "
            f"got {k}. Lower k or give more data."
        )


def knn_estimate_bytes(m: int, n: int, d: int, k: int) -> int:
    """Peak bytes of temporaries and output of the compiled :func:`knn` on the CPU.

    Arrays that are not C-contiguous are copied, which comes on top.

    Parameters
    ----------
    m, n, d, k : int
        Rows of the query, rows of the data, columns and neighbors.

    Returns
    -------
    int
        Output of 16 m k bytes, candidates of 12 m max(k + 2, 16), the centered query
        of 4 m d, 32 bytes a query and one block of data a thread; and, for a search
        in which no query is certified, another 16 m k + 12 m d.
    """
    del n  # the data are read in place, block by block
    first = 16 * m * k + 12 * m * max(k + 2, 16) + 4 * m * (d + 8)
    second = 16 * m * k + 12 * m * d
    block = max(32_768, 64 * d) + 4096
    return first + second + n_threads() * block


def _few_neighbors(
    query: Array, data: Array, *, k: int, most: int, **_: Any
) -> str | None:
    return f"k={k} is above {most}" if k > most else _no_grad(query, data)


def _worth_compiling(query: Array, data: Array, *, module: str, **_: Any) -> str | None:
    if _HERE + module in sys.modules:
        return None
    work = math.prod(query.shape) * data.shape[0]
    if work < SMALL_WORK:
        return f"{work} multiply-adds are too few to load a compiler for"
    return None


def _no_grad(query: Array, data: Array, **_: Any) -> str | None:
    if _needs_grad(query) or _needs_grad(data):
        return "gradients are asked for"
    return None


def _needs_grad(array: Array) -> bool:
    return array_kind(array) == "torch" and array.requires_grad


_FLOATS = {"float32", "float64"}
_HERE = "skicml_accel.neighbors._knn_"
knn.implementation(
    "numba",
    _HERE + "numba:knn",
    kinds={"numpy", "torch"},
    devices={"cpu"},
    dtypes=_FLOATS,
    requires=("numba",),
    accepts=partial(_few_neighbors, most=256),
    pays=partial(_worth_compiling, module="numba"),
)
knn.implementation(
    "blas",
    _HERE + "blas:knn",
    kinds={"numpy", "torch"},
    devices={"cpu"},
    dtypes=_FLOATS,
    accepts=_no_grad,
)
knn.implementation(
    "sparse", _HERE + "sparse:knn", kinds={"scipy.sparse"}, dtypes=_FLOATS
)
knn.implementation(
    "triton",
    _HERE + "triton:knn",
    kinds={"torch"},
    devices={"cuda"},
    dtypes=_FLOATS,
    requires=("triton",),
    accepts=partial(_few_neighbors, most=32),
    pays=partial(_worth_compiling, module="triton"),
)
knn.implementation("torch", _HERE + "torch:knn", kinds={"torch"}, dtypes=_FLOATS)
