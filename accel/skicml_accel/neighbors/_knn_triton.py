"""Exact k nearest neighbors on a CUDA device, fused: no matrix of scores in memory.

*Selection.* A program takes a tile of queries and streams over its share of the data.
It accumulates :math:`|x|^2 - 2 q x` of centered rows in single precision and holds the
best rows of each query in registers, each as one 64-bit key: the bits of the score,
made to sort like an integer, above the index of the row. A tile of data in which no
score beats the worst one held costs one comparison a score; from any other the
smallest keys are taken one by one, until none beats the worst. Few queries leave most
of the device idle, so the data are split over programs as well and what they hold is
merged.

*Certificate.* As on the CPU, at least two spare rows are held, all are measured again
as differences in double precision, and queries for which a bound of the rounding error
does not prove the selection are searched again in double precision. So double
precision input is searched as fast, and ties are ordered by index.

Contract: torch tensors on one CUDA device, float32 or float64, any strides, k <= 32,
fewer than 2**31 rows. 2 m n d flops in single precision, d rounded up to a multiple
of 16. Reads the data once to center them, then m / 32 times, of which the L2 cache
serves most. Temporaries: 8 n d bytes for the centered data and their squares, 4 m d
of queries, 8 m h s of keys, with h <= 64 rows held and s shares of the data, and
``chunk_bytes`` (a quarter of the free memory by default) to measure rows. The host
waits for the device once, to learn whether all queries are certified. Deterministic:
the keys are distinct, and sums have a fixed order.
"""

# Types of compiled functions are the compiler's business.
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from skicml_accel._chunks import row_chunks
from skicml_accel._types import Array
from skicml_accel.neighbors._knn import check_knn
from skicml_accel.neighbors._knn_torch import chunk_budget

SPARE = 2
UNIT = torch.finfo(torch.float32).eps
TINY = torch.finfo(torch.float32).tiny
#: Sums of single-precision products up to this size do not overflow.
LARGE = 1e38
#: Keys from here on belong to no row: its score would be infinite.
NO_ROW = 0x7F800000 << 32


@dataclass(frozen=True)
class Launch:
    """Tile sizes of a launch and the number of shares of the data."""

    block_m: int = 32
    block_n: int = 128
    block_d: int = 16
    n_splits: int = 1
    num_warps: int = 4


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
    launch = plan(query.shape[0], data.shape[0], _n_processors(query.device))
    return search(
        query, data, k=k, exclude=exclude, chunk_bytes=chunk_bytes, launch=launch
    )


def plan(m: int, n: int, n_processors: int) -> Launch:
    """Choose the number of shares so that four programs wait for each processor."""
    launch = Launch()
    tiles = max(1, triton.cdiv(m, launch.block_m))
    # a share shorter than this spends its time on filling the lists
    most = max(1, n // (16 * launch.block_n))
    return Launch(n_splits=min(most, triton.cdiv(4 * n_processors, tiles)))


def _n_processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def search(
    query: Array,
    data: Array,
    *,
    k: int,
    exclude: Array | None,
    chunk_bytes: int | None,
    launch: Launch,
) -> tuple[Array, Array]:
    """Run :func:`knn` with given tiles; also under Triton's interpreter on the CPU."""
    m = query.shape[0]
    if m == 0:
        return query.new_zeros((0, k)), query.new_zeros((0, k), dtype=torch.int64)
    chunk_bytes = chunk_budget(query, chunk_bytes)
    center = data.mean(dim=0, dtype=torch.float64)
    center = center.where(center.isfinite().all(), 0.0)
    keys = _select(query, data, center, exclude, k, launch)
    distance, index = query.new_empty((m, k)), keys.new_empty((m, k))
    certified = torch.empty(m, dtype=torch.bool, device=query.device)
    bytes_per_row = 3 * keys.shape[1] * query.shape[1] * 8
    for rows in row_chunks(m, bytes_per_row, chunk_bytes):
        own = None if exclude is None else exclude[rows]
        squared, index[rows] = _measure(query[rows], data, keys[rows], k)
        distance[rows] = squared.to(query.dtype)
        certified[rows] = _certified(
            query[rows] - center, squared[:, -1], keys[rows], data.shape[0], own
        )
    doubtful = torch.nonzero(~certified).squeeze(1)
    for rows in row_chunks(doubtful.shape[0], 4 * data.shape[0] * 8, chunk_bytes):
        at = doubtful[rows]
        own = None if exclude is None else exclude[at]
        squared, index[at] = _search_all(query[at], data, own, k)
        distance[at] = squared.to(query.dtype)
    return distance, index


def _select(
    query: torch.Tensor,
    data: torch.Tensor,
    center: torch.Tensor,
    exclude: torch.Tensor | None,
    k: int,
    launch: Launch,
) -> torch.Tensor:
    """Keys of the rows with the smallest scores, (m, held), in no order."""
    (m, d), n = query.shape, data.shape[0]
    held = triton.next_power_of_2(k + SPARE)
    m_padded = _round_up(m, launch.block_m)
    n_padded = _round_up(n, launch.block_n)
    d_padded = _round_up(d, launch.block_d)
    device = query.device
    scaled = torch.zeros((m_padded, d_padded), dtype=torch.float32, device=device)
    scaled[:m, :d] = (query - center) * -2.0
    # subtracted in double precision, rounded while it is written
    rows = torch.zeros((d_padded, n_padded), dtype=torch.float32, device=device)
    torch.sub(data.T, center[:, None], out=rows[:d, :n])
    norm = torch.full((n_padded,), torch.inf, dtype=torch.float32, device=device)
    norm[:n] = rows[:, :n].square().sum(dim=0)
    hidden = torch.full((m_padded,), -1, dtype=torch.int32, device=device)
    if exclude is not None:
        hidden[:m] = exclude
    shape = (m_padded, launch.n_splits * held)
    keys = torch.empty(shape, dtype=torch.int64, device=device)
    _select_kernel[(m_padded // launch.block_m, launch.n_splits)](
        scaled,
        rows,
        norm,
        hidden,
        keys,
        n_padded,
        d_padded,
        triton.cdiv(n_padded // launch.block_n, launch.n_splits),
        HIDES=exclude is not None,
        HELD=held,
        BLOCK_M=launch.block_m,
        BLOCK_N=launch.block_n,
        BLOCK_D=launch.block_d,
        num_warps=launch.num_warps,
    )
    if launch.n_splits > 1:
        keys = keys[:m].topk(held, dim=1, largest=False, sorted=False).values
    return keys[:m]


def _round_up(value: int, step: int) -> int:
    return triton.cdiv(value, step) * step


@triton.jit
def _select_kernel(
    query,
    data,
    norm,
    hidden,
    out,
    n_padded,
    d_padded,
    tiles_per_split,
    HIDES: tl.constexpr,
    HELD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Hold the HELD smallest keys of BLOCK_M queries over one share of the data.

    ``query`` (m_padded, d_padded) is centered and times -2, ``data`` (d_padded,
    n_padded) is centered and transposed, ``norm`` (n_padded,) is infinite in the
    padding; ``out`` (m_padded, n_splits * HELD) receives the keys.
    """
    tile_m = tl.program_id(0)
    split = tl.program_id(1)
    row = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    depth = tl.arange(0, BLOCK_D)
    slot = tl.arange(0, HELD)
    query_tile = query + row[:, None].to(tl.int64) * d_padded + depth[None, :]
    own = tl.load(hidden + row)

    nothing: tl.constexpr = 0x7FFFFFFFFFFFFFFF
    # distinct even when empty, so that one comparison finds one slot
    best = nothing - (slot[None, :] + tl.zeros((BLOCK_M, HELD), tl.int64))
    worst = tl.max(best, 1)
    limit = tl.full((BLOCK_M,), float("inf"), tl.float32)

    first = split * tiles_per_split * BLOCK_N
    last = tl.minimum(first + tiles_per_split * BLOCK_N, n_padded)
    for start in range(first, last, BLOCK_N):
        column = start + tl.arange(0, BLOCK_N)
        score = tl.load(norm + column)[None, :] + tl.zeros(
            (BLOCK_M, BLOCK_N), tl.float32
        )
        data_tile = data + depth[:, None].to(tl.int64) * n_padded + column[None, :]
        for at in range(0, d_padded, BLOCK_D):
            score = tl.dot(
                tl.load(query_tile + at),
                tl.load(data_tile),
                acc=score,
                input_precision="ieee",
            )
            data_tile += n_padded.to(tl.int64) * BLOCK_D
        if HIDES:
            score = tl.where(column[None, :] == own[:, None], float("inf"), score)
        # written so that a NaN, from an overflow, does not hide the tile
        hopeless = tl.min(score, 1) >= limit
        if tl.min(hopeless.to(tl.int32), 0) == 0:
            bits = score.to(tl.int32, bitcast=True)
            ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
            key = (ordered.to(tl.int64) << 32) | column[None, :].to(tl.int64)
            key = tl.where(score < float("inf"), key, nothing)
            smallest = tl.min(key, 1)
            takes = smallest < worst
            while tl.max(takes.to(tl.int32), 0) > 0:
                replaced = (best == worst[:, None]) & takes[:, None]
                best = tl.where(replaced, smallest[:, None], best)
                worst = tl.max(best, 1)
                key = tl.where(key == smallest[:, None], nothing, key)
                smallest = tl.min(key, 1)
                takes = smallest < worst
            high = (worst >> 32).to(tl.int32)
            bits = high ^ ((high >> 31) & 0x7FFFFFFF)
            limit = bits.to(tl.float32, bitcast=True)
            # an empty slot takes whatever is finite
            limit = tl.where(high >= 0x7F800000, float("inf"), limit)

    width = tl.num_programs(1) * HELD
    place = row[:, None].to(tl.int64) * width + split * HELD + slot[None, :]
    tl.store(out + place, best)


def _rows_of(keys: torch.Tensor) -> torch.Tensor:
    """Index that a key holds; -1 for the key of no row."""
    return (keys & 0x7FFFFFFF).where(keys < NO_ROW, -1)


def _measure(
    query: torch.Tensor, data: torch.Tensor, keys: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Exact squared distances of the rows held, the k nearest first, ties by index."""
    n = data.shape[0]
    places = _rows_of(keys)
    # slots of no row sort behind every row, also behind one infinitely far
    places = places.where(places >= 0, n).sort(dim=1).values
    real = places < n
    near = data[places.where(real, 0)].double()
    squared = (query.double()[:, None, :] - near).square_().sum(dim=2)
    squared = squared.where(real, torch.inf)
    order = squared.argsort(dim=1, stable=True)[:, :k]
    return squared.gather(1, order), places.gather(1, order)


def _certified(
    centered: torch.Tensor,
    kth_squared: torch.Tensor,
    keys: torch.Tensor,
    n: int,
    own: torch.Tensor | None,
) -> torch.Tensor:
    """Whether each query's selection is proved to contain its k nearest rows."""
    d = centered.shape[1]
    from_center = centered.square().sum(dim=1)
    norm = from_center.sqrt()
    # a row farther than this from the center is farther than the k-th neighbor
    reach = (norm + kth_squared.sqrt()) * (1 + 1e-6)
    scale = reach * (reach + 2 * norm)
    bound = kth_squared - from_center + (d + 4) * (UNIT * scale + TINY)
    worst = keys.amax(dim=1)
    high = (worst >> 32).int()
    last = (high ^ ((high >> 31) & 0x7FFFFFFF)).view(torch.float32)
    # a row that found no slot although one was free has an infinite score
    last = last.where(worst < NO_ROW, torch.inf)
    available = n if own is None else n - (own >= 0).long()
    complete = (keys < NO_ROW).sum(dim=1) == available
    return ((last > bound) & (scale < LARGE)) | complete


def _search_all(
    query: torch.Tensor, data: torch.Tensor, own: torch.Tensor | None, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Nearest rows from all distances in double precision, (r, n) of them."""
    squared = torch.zeros(
        (query.shape[0], data.shape[0]), dtype=torch.float64, device=query.device
    )
    for f in range(query.shape[1]):
        squared += (query[:, f, None].double() - data[:, f].double()).square_()
    if own is not None:
        hides = torch.nonzero(own >= 0).squeeze(1)
        # sorts behind infinity and is never equal to the k-th distance
        squared[hides, own[hides]] = torch.nan
    kth = squared.kthvalue(k, dim=1, keepdim=True).values
    nearer, level = squared < kth, squared == kth
    room = k - nearer.sum(dim=1, keepdim=True)
    taken = nearer | (level & (level.cumsum(dim=1, dtype=torch.int32) <= room))
    index = torch.nonzero(taken)[:, 1].reshape(-1, k)
    distance = squared.gather(1, index)
    order = distance.argsort(dim=1, stable=True)
    return distance.gather(1, order), index.gather(1, order)
