"""Exact k nearest neighbors of sparse rows: blocks of both sides are made dense.

Contract: SciPy CSR, float32 or float64. 2 m n d flops on dense blocks, at most
``chunk_bytes`` of them at a time. Deterministic.
"""

from __future__ import annotations

import numpy as np

from skicml_accel._chunks import DEFAULT_CHUNK_BYTES, row_chunks
from skicml_accel._types import Array
from skicml_accel.neighbors import _knn_blas
from skicml_accel.neighbors._knn import check_knn


def knn(
    query: Array,
    data: Array,
    *,
    k: int,
    exclude: Array | None = None,
    chunk_bytes: int | None = None,
) -> tuple[Array, Array]:
    """See :func:`skicml_accel.neighbors.knn`; the answer is dense NumPy."""
    check_knn(query, data, k, exclude)
    m, n, d = query.shape[0], data.shape[0], query.shape[1]
    hidden = np.full(m, -1) if exclude is None else np.asarray(exclude)
    # a quarter for the queries, a quarter for the data, half for the search
    quarter = (DEFAULT_CHUNK_BYTES if chunk_bytes is None else chunk_bytes) // 4
    itemsize = query.dtype.itemsize
    distance = np.full((m, k), np.inf, query.dtype)
    index = np.zeros((m, k), np.int64)
    for rows in row_chunks(m, d * itemsize, quarter):
        block = query[rows].toarray()
        best: tuple[np.ndarray, np.ndarray] | None = None
        for part in row_chunks(n, d * itemsize, quarter):
            piece = data[part].toarray()
            own = hidden[rows] - part.start
            own = np.where((own >= 0) & (own < piece.shape[0]), own, -1)
            best = _merge(best, _search(block, piece, k, own, 2 * quarter), part, k)
        if best is not None:
            distance[rows], index[rows] = best
    return distance, index


def _search(
    block: np.ndarray, piece: np.ndarray, k: int, own: np.ndarray, chunk_bytes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest rows of one dense piece, as many as it has."""
    count = min(k, piece.shape[0])
    if np.all(own < 0):
        return _knn_blas.knn(block, piece, k=count, chunk_bytes=chunk_bytes)
    if count < piece.shape[0]:
        return _knn_blas.knn(
            block, piece, k=count, exclude=own, chunk_bytes=chunk_bytes
        )
    # all rows of the piece are wanted, the hidden one too, but NaN sorts it last
    distance, index = _knn_blas.knn(block, piece, k=count, chunk_bytes=chunk_bytes)
    return np.where(index == own[:, None], np.nan, distance), index


def _merge(
    best: tuple[np.ndarray, np.ndarray] | None,
    found: tuple[np.ndarray, np.ndarray],
    part: slice,
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Best k of what was known and what one piece of the data adds."""
    distance, index = found[0], found[1] + part.start
    if best is not None:
        distance = np.concatenate([best[0], distance], axis=1)
        index = np.concatenate([best[1], index], axis=1)
    order = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distance, order, 1), np.take_along_axis(index, order, 1)
