"""k nearest neighbors with torch operations, on any device and with gradients.

Rows are selected by the expanded square in the dtype of the query, with spare ones,
and their distances are measured again as differences, which is what gradients flow
through. Contract: float32 or float64; 2 m n d flops; temporaries below ``chunk_bytes``.
Rows whose distances agree to rounding may change places; so may others if torch is
set to multiply float32 matrices in a shorter format.
"""

from __future__ import annotations

import torch

from skicml_accel._chunks import row_chunks
from skicml_accel._types import Array
from skicml_accel.neighbors._knn import check_knn

SPARE = 6


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
    n = data.shape[0]
    chunk_bytes = chunk_budget(query, chunk_bytes)
    with torch.no_grad():
        center = data.mean(dim=0)
        centered = data - center
        norm = centered.square().sum(dim=1)
    distances, indices = [], []
    for rows in row_chunks(query.shape[0], 3 * n * query.element_size(), chunk_bytes):
        block = query[rows]
        own = None if exclude is None else exclude[rows]
        with torch.no_grad():
            score = torch.addmm(norm, block - center, centered.T, alpha=-2)
            if own is not None:
                skipped = torch.nonzero(own >= 0).squeeze(1)
                score[skipped, own[skipped]] = torch.inf
            score = score.nan_to_num(nan=torch.inf)
            kept = score.topk(min(k + SPARE, n), dim=1, largest=False).indices
            kept = kept.sort(dim=1).values
        squared = (block[:, None, :] - data[kept]).square().sum(dim=2)
        if own is not None:
            squared = squared.masked_fill(kept == own[:, None], torch.inf)
        order = squared.detach().argsort(dim=1, stable=True)[:, :k]
        distances.append(squared.gather(1, order))
        indices.append(kept.gather(1, order))
    if not distances:
        return query.new_zeros((0, k)), query.new_zeros((0, k), dtype=torch.int64)
    return torch.cat(distances), torch.cat(indices)


def chunk_budget(query: torch.Tensor, chunk_bytes: int | None) -> int | None:
    """Bytes of temporaries to stay below: a quarter of what a device has free."""
    if chunk_bytes is None and query.is_cuda:
        return torch.cuda.mem_get_info(query.device)[0] // 4
    return chunk_bytes
