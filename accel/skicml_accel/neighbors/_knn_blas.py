"""Exact k nearest neighbors with NumPy alone: one matrix product, then selection.

Scores :math:`|x|^2 - 2 q x` of centered rows come from one single-precision matrix
product. They are split in groups; the k groups with the smallest minima contain the k
smallest scores, so that only these are sorted. As in the compiled implementation, two
spare rows are kept, distances are measured again in double precision, and a query
whose selection the error bound does not prove is searched in double precision.

Contract: float32 or float64, any strides. 2 m n d flops; at most ``chunk_bytes`` of
temporaries beside a single-precision copy of the data. Deterministic.
"""

from __future__ import annotations

import numpy as np

from skicml_accel._chunks import row_chunks
from skicml_accel._namespaces import array_kind
from skicml_accel._types import Array
from skicml_accel.neighbors._knn import check_knn

GROUP = 64
SPARE = 2
UNIT = float(np.finfo(np.float32).eps)
TINY = float(np.finfo(np.float32).tiny)
#: Sums of single-precision products up to this size do not overflow.
LARGE = 1e38


def knn(
    query: Array,
    data: Array,
    *,
    k: int,
    exclude: Array | None = None,
    chunk_bytes: int | None = None,
) -> tuple[Array, Array]:
    """See :func:`skicml_accel.neighbors.knn`."""
    check_knn(query, data, k, exclude)
    if array_kind(query) == "torch":
        import torch

        hidden = None if exclude is None else exclude.numpy()
        distance, index = _knn(query.numpy(), data.numpy(), k, hidden, chunk_bytes)
        return torch.from_numpy(distance), torch.from_numpy(index)
    return _knn(query, data, k, exclude, chunk_bytes)


def _knn(
    query: np.ndarray,
    data: np.ndarray,
    k: int,
    exclude: np.ndarray | None,
    chunk_bytes: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    m, n = query.shape[0], data.shape[0]
    hidden = np.full(m, -1) if exclude is None else exclude.astype(np.int64)
    distance = np.empty((m, k), query.dtype.newbyteorder("="))
    index = np.empty((m, k), np.int64)
    # overflow and its NaNs only make a query fail the proof
    with np.errstate(over="ignore", invalid="ignore"):
        center = np.mean(data, axis=0, dtype=np.float64)
        if not np.all(np.isfinite(center)):
            center = np.zeros_like(center)
        single = np.empty(data.shape, np.float32)
        np.subtract(data, center, out=single, casting="same_kind")
        norm = np.einsum("nf,nf->n", single, single)
        # such a row is too far to be certified, and its NaN would hide its group
        single[~np.isfinite(norm)] = 0
        norm[~np.isfinite(norm)] = np.inf
        for rows in row_chunks(m, n * 12, chunk_bytes):
            block, own = query[rows], hidden[rows]
            score = norm - 2 * (block - center).astype(np.float32) @ single.T
            skipped = np.flatnonzero(own >= 0)
            score[skipped, own[skipped]] = np.inf
            kept = _smallest(score, min(k + SPARE, n))
            squared, order = _measure(block, data, kept, own, k)
            distance[rows], index[rows] = squared, order
            last = np.take_along_axis(score, kept, axis=1).max(axis=1)
            doubtful = _doubtful(block - center, squared[:, -1], last)
            for row in np.flatnonzero(doubtful & (kept.shape[1] < n)):
                every = np.arange(n)[None]
                one = slice(row, row + 1)
                squared, order = _measure(block[one], data, every, own[one], k)
                place = rows.start + row
                distance[place], index[place] = squared[0], order[0]
    return distance, index


def _smallest(score: np.ndarray, count: int) -> np.ndarray:
    """Positions of the ``count`` smallest entries of each row, in no order."""
    m, n = score.shape
    groups = n // GROUP
    if groups <= 2 * count:
        return np.argpartition(score, count - 1, axis=1)[:, :count]
    whole = groups * GROUP
    minima = score[:, :whole].reshape(m, groups, GROUP).min(axis=2)
    best = np.argpartition(minima, count - 1, axis=1)[:, :count]
    places = (best[:, :, None] * GROUP + np.arange(GROUP)).reshape(m, -1)
    rest = np.broadcast_to(np.arange(whole, n), (m, n - whole))
    places = np.concatenate([places, rest], axis=1)
    values = np.take_along_axis(score, places, axis=1)
    chosen = np.argpartition(values, count - 1, axis=1)[:, :count]
    return np.take_along_axis(places, chosen, axis=1)


def _measure(
    query: np.ndarray, data: np.ndarray, places: np.ndarray, own: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Exact squared distances of some rows, the k nearest first, ties by index."""
    places = np.sort(places, axis=1)
    squared = np.zeros(places.shape)
    # column by column, which is the order of the compiled implementation: the same
    # bits, whichever of them runs
    for f in range(query.shape[1]):
        squared += (query[:, f, None].astype(np.float64) - data[places, f]) ** 2
    squared[places == own[:, None]] = np.nan  # sorts behind infinity
    order = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return (
        np.take_along_axis(squared, order, axis=1),
        np.take_along_axis(places, order, axis=1),
    )


def _doubtful(
    centered: np.ndarray, kth_squared: np.ndarray, last_score: np.ndarray
) -> np.ndarray:
    """Find queries for which rounding may have discarded one of the k nearest rows."""
    from_center = np.einsum("mf,mf->m", centered, centered)
    norm = np.sqrt(from_center)
    reach = (norm + np.sqrt(kth_squared)) * (1 + 1e-6)
    scale = reach * (reach + 2 * norm)
    error = (centered.shape[1] + 4) * (UNIT * scale + TINY)
    return ~((last_score > kth_squared - from_center + error) & (scale < LARGE))
