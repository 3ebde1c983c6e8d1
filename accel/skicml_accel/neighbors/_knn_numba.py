"""Compiled exact k nearest neighbors for NumPy arrays and torch tensors on the CPU.

Two ideas carry it.

*Fused search.* The data pass through the cache in blocks, transposed and centered.
A register tile of 4 queries x 16 rows accumulates :math:`|x|^2 - 2 q x` over the
columns in single precision and is compared with the worst score held of each query
before anything is stored; only the few scores that pass are looked at one by one. No
score matrix exists.

*Certified selection.* A single-precision score may be wrong by a known bound. The
``k + 2`` best rows are measured again in double precision, and if the first discarded
row may, within the bound, be nearer than the k-th kept one, the query is searched
again, keeping every row that the bound cannot exclude.

Contract: float32 or float64, any strides, k <= 256. 2 m n d flops; reads the data once
a thread. Deterministic for any number of threads.
"""

# Types of compiled functions are the compiler's business.
# mypy: disable-error-code="no-untyped-def, call-arg, var-annotated"
from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from skicml_accel._chunks import thread_rows
from skicml_accel._namespaces import array_kind
from skicml_accel._types import Array
from skicml_accel.neighbors._knn import check_knn

ROWS, LANES = 4, 16
SPARE = 2
BLOCK_BYTES = 32_768
UNIT = float(np.finfo(np.float32).eps)
TINY = float(np.finfo(np.float32).tiny)
#: Sums of single-precision products up to this size do not overflow.
LARGE = 1e38
NOBODY = np.iinfo(np.int64).max
_NO_QUERY = {np.dtype(t): np.empty((0, 0), t) for t in (np.float32, np.float64)}

_jit = numba.njit(cache=True, nogil=True, boundscheck=False)


def knn(
    query: Array,
    data: Array,
    *,
    k: int,
    exclude: Array | None = None,
    chunk_bytes: int | None = None,
) -> tuple[Array, Array]:
    """See :func:`skicml_accel.neighbors.knn`."""
    del chunk_bytes  # temporaries are smaller than the output
    check_knn(query, data, k, exclude)
    if array_kind(query) == "torch":
        import torch

        hidden = None if exclude is None else exclude.numpy()
        distance, index = _knn(query.numpy(), data.numpy(), k, hidden)
        return torch.from_numpy(distance), torch.from_numpy(index)
    return _knn(query, data, k, exclude)


def _knn(
    query: np.ndarray, data: np.ndarray, k: int, exclude: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    m, n = query.shape[0], data.shape[0]
    query, data = _uniform(query), _uniform(data)
    distance = np.empty((m, k), query.dtype)
    index = np.empty((m, k), np.int64)
    if m == 0:
        return distance, index
    # distances do not change, but rounding is relative to the spread, not to the mean
    with np.errstate(over="ignore", invalid="ignore"):
        sample = data[:: max(1, n // 1024)]
        center = np.asarray(sample.mean(axis=0, dtype=np.float64))
    if not np.all(np.isfinite(center)):
        center = np.zeros_like(center)
    hidden = np.full(m, -1) if exclude is None else exclude.astype(np.int64)

    def run(rows: slice) -> None:
        _search(query[rows], data, center, hidden[rows], distance[rows], index[rows])

    thread_rows(m, 128, run)
    return distance, index


def _uniform(array: np.ndarray) -> np.ndarray:
    """Give every array one memory layout, so that one compiled version serves all."""
    native = array.dtype.newbyteorder("=")
    view = np.ascontiguousarray(array, native).view()
    # compiled code distinguishes arrays by this flag as well
    view.flags.writeable = False
    return view


@intrinsic
def _tile(
    typingctx: Any, out: Any, block: Any, norm: Any, query: Any, limit: Any, at: Any
) -> Any:
    """Score 4 queries against 16 rows; return one bit for each score below its limit.

    ``out`` (64,) receives ``norm + query @ block`` for the 16 columns of ``block``
    (d, width) from ``at``; bit 16 r + l is set unless score (r, l) >= limit[r], so that
    a NaN counts as below. Written in LLVM's vector types, because the accumulators
    must stay in registers over the loop along d, and a loop nest in Python source does
    not get there.
    """
    signature = types.int64(out, block, norm, query, limit, types.intp)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        i64, i32, i1s = ir.IntType(64), ir.IntType(32), ir.IntType(LANES)
        vector = ir.VectorType(ir.FloatType(), LANES)
        undefined = ir.Constant(vector, ir.Undefined)
        arrays = [
            context.make_array(t)(context, builder, a)
            for t, a in zip(sig.args[:5], args[:5], strict=True)
        ]
        out_p, block_p, norm_p, query_p, limit_p = (a.data for a in arrays)
        depth, width = cgutils.unpack_tuple(builder, arrays[1].shape)
        at = args[5]

        def number(value: int) -> Any:
            return ir.Constant(i64, value)

        def address(pointer: Any, offset: Any) -> Any:
            place = builder.gep(pointer, [offset])
            return builder.bitcast(place, vector.as_pointer())

        def spread(pointer: Any, offset: Any) -> Any:
            scalar = builder.load(builder.gep(pointer, [offset]))
            first = builder.insert_element(undefined, scalar, ir.Constant(i32, 0))
            zeros = ir.Constant(ir.VectorType(i32, LANES), [0] * LANES)
            return builder.shuffle_vector(first, undefined, zeros)

        multiply_add = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector] * 3),
            f"llvm.fma.v{LANES}f32",
        )
        entry = builder.block
        start = builder.load(address(norm_p, at), align=4)
        loop = builder.append_basic_block("columns")
        after = builder.append_basic_block("scored")
        builder.branch(loop)

        builder.position_at_end(loop)
        column = builder.phi(i64)
        column.add_incoming(number(0), entry)
        sums = [builder.phi(vector) for _ in range(ROWS)]
        values = builder.load(
            address(block_p, builder.add(builder.mul(column, width), at)), align=4
        )
        scores = []
        for row, total in enumerate(sums):
            offset = builder.add(builder.mul(number(row), depth), column)
            score = builder.call(multiply_add, [spread(query_p, offset), values, total])
            total.add_incoming(start, entry)
            total.add_incoming(score, loop)
            scores.append(score)
        following = builder.add(column, number(1))
        column.add_incoming(following, loop)
        more = builder.icmp_signed("<", following, depth)
        builder.cbranch(more, loop, after)

        builder.position_at_end(after)
        bits = number(0)
        for row, score in enumerate(scores):
            builder.store(score, address(out_p, number(row * LANES)), align=4)
            below = builder.fcmp_unordered("<", score, spread(limit_p, number(row)))
            word = builder.zext(builder.bitcast(below, i1s), i64)
            bits = builder.or_(bits, builder.shl(word, number(row * LANES)))
        return bits

    return signature, codegen


@intrinsic
def _lowest_bit(typingctx: Any, word: Any) -> Any:
    """Position of the lowest set bit of a nonzero 64-bit integer."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@intrinsic
def _insert_lanes(
    typingctx: Any, values: Any, index: Any, row: Any, value: Any, j: Any
) -> Any:
    """Put one pair into a sorted row of 16, dropping its last pair, without a branch.

    Behind equal values. A loop would mispredict its end at every call.
    """
    signature = types.void(values, index, types.intp, values.dtype, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        i32, i64 = ir.IntType(32), ir.IntType(64)
        flags = ir.VectorType(ir.IntType(1), LANES)
        places = ir.VectorType(i32, LANES)
        offset = builder.mul(args[2], ir.Constant(i64, LANES))

        def row_of(position: int) -> tuple[Any, Any, Any]:
            array = context.make_array(sig.args[position])(
                context, builder, args[position]
            )
            element = context.get_value_type(sig.args[position].dtype)
            vector = ir.VectorType(element, LANES)
            place = builder.gep(array.data, [offset])
            pointer = builder.bitcast(place, vector.as_pointer())
            return vector, pointer, builder.load(pointer, align=8)

        def spread(vector: Any, scalar: Any) -> Any:
            undefined = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(undefined, scalar, ir.Constant(i32, 0))
            return builder.shuffle_vector(
                first, undefined, ir.Constant(places, [0] * LANES)
            )

        def shifted(vector: Any, fill: Any) -> Any:
            order = ir.Constant(places, [LANES, *range(LANES - 1)])
            return builder.shuffle_vector(vector, fill, order)

        vector, pointer, old = row_of(0)
        new = spread(vector, args[3])
        behind = builder.fcmp_ordered(">", old, new)
        far_behind = shifted(behind, ir.Constant(flags, [0] * LANES))

        def store(pointer: Any, old: Any, new: Any) -> None:
            moved = builder.select(far_behind, shifted(old, old), new)
            builder.store(builder.select(behind, moved, old), pointer, align=8)

        store(pointer, old, new)
        vector, pointer, old = row_of(1)
        store(pointer, old, spread(vector, args[4]))
        return context.get_dummy_value()

    return signature, codegen


@_jit
def _insert(values, index, row, value, j):
    """Put one pair into a row sorted by (value, index), dropping the row's last pair.

    Whole matrices are passed, since a view of the row would cost more than the rest.
    """
    place = values.shape[1] - 1
    while place > 0 and (
        values[row, place - 1] > value
        or (values[row, place - 1] == value and index[row, place - 1] > j)
    ):
        values[row, place] = values[row, place - 1]
        index[row, place] = index[row, place - 1]
        place -= 1
    values[row, place] = value
    index[row, place] = j


@_jit
def _squared_distance(a, b):
    """Sum of squared differences in double precision."""
    total = 0.0
    for f in range(a.size):
        difference = np.float64(a[f]) - np.float64(b[f])
        total += difference * difference
    return total


@_jit
def _load_block(data, first, center, block, norm):
    """Copy rows transposed, centered and rounded; pad with rows infinitely far."""
    width = norm.size
    count = min(width, data.shape[0] - first)
    for j in range(count):
        total = np.float32(0.0)
        for f in range(center.size):
            value = np.float32(data[first + j, f] - center[f])
            block[f, j] = value
            total += value * value
        norm[j] = total
    for j in range(count, width):
        for f in range(center.size):
            block[f, j] = np.float32(0.0)
        norm[j] = np.float32(np.inf)


@_jit
def _scan(query, limit, data, center, hidden, exact, keep, score, index):
    """Collect for every query the ``keep`` best rows whose score is not above its limit.

    With ``exact`` of shape (0, 0) rows are ordered by their single-precision score and
    the limit sinks to the worst score kept. Otherwise ``exact`` holds the queries as
    given, the limit stays, and rows are ordered by their exact squared distance.
    """
    m, n, depth = score.shape[0], data.shape[0], query.shape[1]
    width = min(256, max(LANES, BLOCK_BYTES // (4 * depth) // LANES * LANES))
    block = np.empty((depth, width), np.float32)
    norm = np.empty(width, np.float32)
    tile = np.empty(ROWS * LANES, np.float32)
    measure = exact.size > 0
    narrow = score.shape[1] == LANES
    for first in range(0, n, width):
        _load_block(data, first, center, block, norm)
        for top in range(0, query.shape[0], ROWS):
            queries = query[top : top + ROWS]
            limits = limit[top : top + ROWS]
            for at in range(0, width, LANES):
                bits = _tile(tile, block, norm, queries, limits, at)
                while bits != 0:
                    place = _lowest_bit(bits)
                    bits &= bits - 1
                    row = top + place // LANES
                    j = first + at + place % LANES
                    if row >= m or j >= n or j == hidden[row]:
                        continue
                    if measure:
                        value = _squared_distance(exact[row], data[j])
                        if value < score[row, -1] or index[row, -1] == NOBODY:
                            _insert(score, index, row, value, j)
                    elif tile[place] < limit[row]:
                        if narrow:
                            _insert_lanes(score, index, row, tile[place], j)
                        else:
                            _insert(score, index, row, tile[place], j)
                        limit[row] = score[row, keep - 1]


@_jit
def _settle(query, data, center, hidden, keep, score, index, out_distance, out_index):
    """Write the k nearest of the selected rows; return what is not certified.

    The result holds, for each query, NaN where the selection is proved to contain the
    k nearest rows, else the score up to which rows must be looked at again (infinite
    where the bound says nothing).
    """
    n, depth = data.shape
    k = out_distance.shape[1]
    again = np.full(query.shape[0], np.nan)
    values = np.empty((1, keep))
    places = np.empty((1, keep), np.int64)
    for row in range(query.shape[0]):
        values[:] = np.inf
        places[:] = NOBODY
        count = 0
        for slot in range(keep):
            j = index[row, slot]
            if j != NOBODY:
                _insert(values, places, 0, _squared_distance(query[row], data[j]), j)
                count += 1
        out_distance[row] = values[0, :k]
        out_index[row] = places[0, :k]
        if count == n - (hidden[row] >= 0):
            continue
        from_center = 0.0
        for f in range(depth):
            from_center += (query[row, f] - center[f]) ** 2
        norm = np.sqrt(from_center)
        # a row farther than this from the center is farther than the k-th neighbor
        reach = (norm + np.sqrt(values[0, k - 1])) * (1 + 1e-6)
        scale = reach * (reach + 2 * norm)
        bound = values[0, k - 1] - from_center + (depth + 4) * (UNIT * scale + TINY)
        if not scale < LARGE:
            again[row] = np.inf
        elif not score[row, keep - 1] > bound:
            again[row] = bound
    return again


def _search(
    query: np.ndarray,
    data: np.ndarray,
    center: np.ndarray,
    hidden: np.ndarray,
    out_distance: np.ndarray,
    out_index: np.ndarray,
) -> None:
    """Fill both outputs for one piece of the queries."""
    k = out_index.shape[1]
    keep = min(k + SPARE, data.shape[0])
    scaled, limit = _scaled(query, center)
    # room for whole vectors: sorting into 16 costs less than into fewer
    score = np.full((query.shape[0], max(keep, LANES)), np.inf, np.float32)
    index = np.full(score.shape, NOBODY)
    selected = keep, score, index
    _scan(scaled, limit, data, center, hidden, _NO_QUERY[query.dtype], *selected)
    again = _settle(query, data, center, hidden, *selected, out_distance, out_index)
    rows = np.flatnonzero(~np.isnan(again))
    if rows.size == 0:
        return
    scaled, limit = _scaled(query[rows], center)
    bound = again[rows]
    with np.errstate(over="ignore"):
        limit[: rows.size] = bound + 1e-6 * np.abs(bound) + 1e-30
    # every comparison with NaN lets the row through
    limit[~np.isfinite(limit)] = np.nan
    distance = np.full((rows.size, k), np.inf)
    nearest = np.full(distance.shape, NOBODY)
    hidden = hidden[rows]
    _scan(scaled, limit, data, center, hidden, query[rows], k, distance, nearest)
    with np.errstate(over="ignore"):
        out_distance[rows] = distance
    out_index[rows] = nearest


def _scaled(query: np.ndarray, center: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centered queries times -2 in whole tiles of rows, and limits that let all pass."""
    m = query.shape[0]
    padded = -(-m // ROWS) * ROWS
    scaled = np.zeros((padded, query.shape[1]), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        # written in place: a double-precision copy would outweigh all else held
        np.subtract(query, center, out=scaled[:m], casting="same_kind")
        scaled[:m] *= -2
    limit = np.full(padded, -np.inf, np.float32)
    limit[:m] = np.inf
    return scaled, limit
