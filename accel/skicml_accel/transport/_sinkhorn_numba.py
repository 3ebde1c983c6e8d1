r"""Compiled Sinkhorn passes for NumPy arrays and torch tensors on the CPU.

Eight rows of the Gibbs kernel are made at a time. A register tile of 8 rows and one
vector of columns accumulates the inner products, takes the exponential without leaving
the registers, adds it to the row sums and stores it. When the rows are complete they
are still in the cache, and are added to the column sums with their normalization: each
entry of the kernel costs one exponential and is written once, to the cache.

The exponential is :math:`2^k \sum_t (f \ln 2)^t / t!` with k the nearest integer of
:math:`x / \ln 2` and :math:`|f| \le 1/2`; its error is that of rounding.

Contract: float32 or float64, any strides. n m (2 d + 3) flops. Temporaries as
:func:`skicml_accel.transport.sinkhorn_pass_estimate_bytes` says. Deterministic: rows
are split into eight pieces whatever the number of threads.
"""

# Types of compiled functions are the compiler's business.
# mypy: disable-error-code="no-untyped-def, call-arg, var-annotated"
from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from skicml_accel._chunks import n_threads, row_chunks, thread_rows
from skicml_accel._types import Array
from skicml_accel.transport._sinkhorn import (
    BLOCK_BYTES,
    check_factors,
    log_weights,
    logsumexp,
)
from skicml_accel.transport._sinkhorn_blas import _plan_contract as without_guess
from skicml_accel.transport._sinkhorn_blas import (
    least_column,
    least_row,
    on_host,
    settle_columns,
    tiles,
)

ROWS = 8
PIECES = 8
#: Numbers in one vector of 64 bytes, terms of the exponential, and where it is cut off:
#: beyond, the result is 0 or infinite.
LANES = {"float32": 16, "float64": 8}
TERMS = {"float32": 7, "float64": 14}
CUTS = {"float32": (-87.0, 88.0), "float64": (-707.0, 709.0)}

_jit = numba.njit(cache=True, nogil=True, boundscheck=False)


@intrinsic
def _tile(
    typingctx: Any,
    left: Any,
    right: Any,
    shift: Any,
    bias: Any,
    weight: Any,
    kernel: Any,
    sums: Any,
    at: Any,
) -> Any:
    """Make 8 rows of one vector of columns of the kernel.

    ``kernel`` (8, width) receives ``exp(left @ right + shift + bias)`` from column
    ``at``, for ``left`` (8, d) and ``right`` (d, width), and ``sums`` (8, lanes) what it
    gives times ``weight`` (width,). Written in LLVM's vector types, because the
    accumulators must stay in registers until they are exponentiated.
    """
    signature = types.void(left, right, shift, bias, weight, kernel, sums, types.intp)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        element = sig.args[0].dtype
        name = str(element)
        lanes = LANES[name]
        scalar = context.get_value_type(element)
        width_of_integer = 32 if name == "float32" else 64
        integer = ir.IntType(width_of_integer)
        i64, i32 = ir.IntType(64), ir.IntType(32)
        vector = ir.VectorType(scalar, lanes)
        integers = ir.VectorType(integer, lanes)
        suffix = f"v{lanes}f{width_of_integer}"
        align = width_of_integer // 8
        arrays = [
            context.make_array(t)(context, builder, a)
            for t, a in zip(sig.args[:7], args[:7], strict=True)
        ]
        left_p, right_p, shift_p, bias_p, weight_p, kernel_p, sums_p = (
            a.data for a in arrays
        )
        depth, width = cgutils.unpack_tuple(builder, arrays[1].shape)
        at = args[7]

        def number(value: int) -> Any:
            return ir.Constant(i64, value)

        def constant(value: float) -> Any:
            return ir.Constant(vector, [value] * lanes)

        def address(pointer: Any, offset: Any) -> Any:
            place = builder.gep(pointer, [offset])
            return builder.bitcast(place, vector.as_pointer())

        def spread(pointer: Any, offset: Any) -> Any:
            value = builder.load(builder.gep(pointer, [offset]))
            undefined = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(undefined, value, ir.Constant(i32, 0))
            zeros = ir.Constant(ir.VectorType(i32, lanes), [0] * lanes)
            return builder.shuffle_vector(first, undefined, zeros)

        def function(operation: str, n_arguments: int) -> Any:
            return cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(vector, [vector] * n_arguments),
                f"llvm.{operation}.{suffix}",
            )

        fma, nearest = function("fma", 3), function("rint", 1)
        entry = builder.block
        columns = builder.load(address(bias_p, at), align=align)
        starts = [
            builder.fadd(columns, spread(shift_p, number(row))) for row in range(ROWS)
        ]
        loop = builder.append_basic_block("factors")
        after = builder.append_basic_block("product")
        builder.branch(loop)

        builder.position_at_end(loop)
        factor = builder.phi(i64)
        factor.add_incoming(number(0), entry)
        totals = [builder.phi(vector) for _ in range(ROWS)]
        values = builder.load(
            address(right_p, builder.add(builder.mul(factor, width), at)), align=align
        )
        products = []
        for row, total in enumerate(totals):
            offset = builder.add(builder.mul(number(row), depth), factor)
            product = builder.call(fma, [spread(left_p, offset), values, total])
            total.add_incoming(starts[row], entry)
            total.add_incoming(product, loop)
            products.append(product)
        following = builder.add(factor, number(1))
        factor.add_incoming(following, loop)
        more = builder.icmp_signed("<", following, depth)
        builder.cbranch(more, loop, after)

        builder.position_at_end(after)
        low, high = CUTS[name]
        log2e = constant(1 / math.log(2))
        terms = [math.log(2) ** t / math.factorial(t) for t in range(TERMS[name])]
        mantissa, offset = (23, 127) if name == "float32" else (52, 1023)
        weights = builder.load(address(weight_p, at), align=align)
        for row, x in enumerate(products):
            whole = builder.call(nearest, [builder.fmul(x, log2e)])
            part = builder.call(fma, [x, log2e, builder.fneg(whole)])
            value = constant(terms[-1])
            for term in reversed(terms[:-1]):
                value = builder.call(fma, [value, part, constant(term)])
            # out of range the integer is meaningless, and so not looked at
            inside = builder.and_(
                builder.fcmp_ordered(">=", x, constant(low)),
                builder.fcmp_ordered("<=", x, constant(high)),
            )
            safe = builder.select(inside, whole, constant(0.0))
            exponent = builder.add(
                builder.fptosi(safe, integers),
                ir.Constant(integers, [offset] * lanes),
            )
            power = builder.bitcast(
                builder.shl(exponent, ir.Constant(integers, [mantissa] * lanes)),
                vector,
            )
            outside = builder.select(
                builder.fcmp_ordered("<", x, constant(low)),
                constant(0.0),
                constant(math.inf),
            )
            value = builder.select(inside, builder.fmul(value, power), outside)
            place = builder.add(builder.mul(number(row), width), at)
            builder.store(value, address(kernel_p, place), align=align)
            sum_at = address(sums_p, number(row * lanes))
            added = builder.call(
                fma, [value, weights, builder.load(sum_at, align=align)]
            )
            builder.store(added, sum_at, align=align)
        return context.get_dummy_value()

    return signature, codegen


@_jit
def _piece(left, right, p, bias, a, weight, jacobi, least, potential, total, doubtful):
    """Pass over some rows; ``total`` (width,) gets their share of the columns.

    Rows whose sum is below ``least`` or infinite are marked in ``doubtful`` and add
    nothing, unless ``jacobi`` wants them as they are.
    """
    n, depth = left.shape
    width = right.shape[1]
    lanes = 64 // left.itemsize
    block = np.zeros((ROWS, depth), left.dtype)
    shift = np.zeros(ROWS, left.dtype)
    share = np.zeros(ROWS, left.dtype)
    sums = np.empty((ROWS, lanes), left.dtype)
    kernel = np.empty((ROWS, width), left.dtype)
    columns = np.zeros(width, left.dtype)
    since = 0
    for top in range(0, n, ROWS):
        count = min(ROWS, n - top)
        for row in range(count):
            block[row] = left[top + row]
            shift[row] = p[top + row]
        sums[:] = 0
        for at in range(0, width, lanes):
            _tile(block, right, shift, bias, weight, kernel, sums, at)
        for row in range(ROWS):
            share[row] = 0
            if row < count:
                found = 0.0
                for lane in range(lanes):
                    found += np.float64(sums[row, lane])
                if found > least and found < np.inf:
                    potential[top + row] = p[top + row] - np.log(found)
                    share[row] = a[top + row] / found
                else:
                    doubtful[top + row] = True
                if jacobi:
                    share[row] = a[top + row]
        _add_rows(columns, kernel, share)
        since += 1
        if since == 32:
            # sums of few terms in single precision, of the rest in double
            _flush(total, columns)
            since = 0
    _flush(total, columns)


@numba.njit(cache=True, nogil=True, boundscheck=False, fastmath={"contract"})
def _add_rows(columns, kernel, share):
    s0, s1, s2, s3 = share[0], share[1], share[2], share[3]
    s4, s5, s6, s7 = share[4], share[5], share[6], share[7]
    # infinite entries of a row that is left out must not become NaN
    if not (
        s0 > 0
        and s1 > 0
        and s2 > 0
        and s3 > 0
        and s4 > 0
        and s5 > 0
        and s6 > 0
        and s7 > 0
    ):
        for row in range(ROWS):
            if share[row] > 0:
                weight = share[row]
                for j in range(columns.size):
                    columns[j] += weight * kernel[row, j]
        return
    for j in range(columns.size):
        columns[j] += (
            (s0 * kernel[0, j] + s1 * kernel[1, j])
            + (s2 * kernel[2, j] + s3 * kernel[3, j])
        ) + (
            (s4 * kernel[4, j] + s5 * kernel[5, j])
            + (s6 * kernel[6, j] + s7 * kernel[7, j])
        )


@_jit
def _flush(total, columns):
    for j in range(total.size):
        total[j] += columns[j]
        columns[j] = 0


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
    """See :func:`skicml_accel.transport.sinkhorn_pass`."""
    check_factors("sinkhorn_pass", left, right, p=p, q=q, a=a, b=b)
    return on_host(
        _sinkhorn_pass,
        left,
        right,
        p,
        q,
        a,
        b,
        jacobi=jacobi,
        chunk_bytes=chunk_bytes,
    )


def _sinkhorn_pass(
    left: np.ndarray,
    right: np.ndarray,
    p: np.ndarray,
    q: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    *,
    jacobi: bool,
    chunk_bytes: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    n, m = left.shape[0], right.shape[0]
    dtype = left.dtype.newbyteorder("=")
    left, p, a = (np.ascontiguousarray(x, dtype) for x in (left, p, a))
    table = _transposed(right, dtype)
    width = table.shape[1]
    bias, weight = np.zeros(width, dtype), np.zeros(width, dtype)
    bias[:m], weight[:m] = q, b
    potential = np.empty(n, dtype)
    doubtful = np.zeros(n, bool)
    totals = np.zeros((PIECES, width))

    def run(piece: int) -> None:
        rows = slice(n * piece // PIECES, n * (piece + 1) // PIECES)
        _piece(
            left[rows],
            table,
            p[rows],
            bias,
            a[rows],
            weight,
            jacobi,
            least_row(dtype),
            potential[rows],
            totals[piece],
            doubtful[rows],
        )

    _on_threads(run, n * m)
    total = totals.sum(axis=0)[:m]
    bad = np.flatnonzero(doubtful)
    if bad.size:
        log_b = log_weights(b)
        for part in row_chunks(bad.size, 3 * m * dtype.itemsize, BLOCK_BYTES):
            at = bad[part]
            z = left[at] @ right.T + q
            potential[at] = -logsumexp(np, z + log_b, 1)
            if not jacobi:
                # a column without weight may overflow; it is summed again below
                with np.errstate(over="ignore", invalid="ignore"):
                    total += a[at] @ np.exp(z + potential[at, None])
    settled = (total > least_column(dtype)) & np.isfinite(total)
    log_c = np.log(total, where=settled, out=np.zeros_like(total)).astype(dtype)
    known = p if jacobi else potential
    settle_columns(left, right, known, q, a, log_c, settled, chunk_bytes)
    return potential, log_c


def _transposed(right: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Columns in rows, in whole vectors."""
    lanes = LANES[dtype.name]
    m, depth = right.shape
    table = np.zeros((depth, -(-m // lanes) * lanes), dtype)
    table[:, :m] = right.T
    return table


def _on_threads(run: Any, work: int) -> None:
    """Run the pieces, on threads if there is enough to do for them."""
    threads = min(n_threads(), PIECES) if work > 100_000 else 1
    if threads == 1:
        for piece in range(PIECES):
            run(piece)
        return
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(run, piece) for piece in range(PIECES)]:
            future.result()


@_jit
def _fill(left, right, shift, bias, weight, kernel, sums):
    """Make rows of the kernel, eight at a time, and their weighted sums."""
    lanes = 64 // left.itemsize
    partial = np.empty((ROWS, lanes), left.dtype)
    for top in range(0, left.shape[0], ROWS):
        rows = slice(top, top + ROWS)
        partial[:] = 0
        for at in range(0, right.shape[1], lanes):
            _tile(
                left[rows], right, shift[rows], bias, weight, kernel[rows], partial, at
            )
        for row in range(ROWS):
            found = 0.0
            for lane in range(lanes):
                found += np.float64(partial[row, lane])
            sums[top + row] = found


def plan_contract(
    left: Array,
    right: Array,
    bias: Array,
    values: Array,
    *,
    guess: Array | None = None,
    chunk_bytes: int | None = None,
) -> Array:
    """See :func:`skicml_accel.transport.plan_contract`."""
    check_factors("plan_contract", left, right, q=bias, p=guess)
    return on_host(
        _plan_contract, left, right, bias, values, guess, chunk_bytes=chunk_bytes
    )


def _plan_contract(
    left: np.ndarray,
    right: np.ndarray,
    bias: np.ndarray,
    values: np.ndarray,
    guess: np.ndarray,
    *,
    chunk_bytes: int | None,
) -> np.ndarray:
    (n, depth), m = left.shape, right.shape[0]
    dtype = left.dtype.newbyteorder("=")
    table = _transposed(right, dtype)
    width = table.shape[1]
    bias = np.asarray(bias, dtype)
    columns, weight = np.zeros(width, dtype), np.zeros(width, dtype)
    # columns that are left out, and the padding, count nothing
    weight[:m] = np.isfinite(bias)
    columns[:m] = np.where(np.isfinite(bias), bias, 0)
    padded = np.zeros((width, values.shape[1]), dtype)
    padded[:m] = values * weight[:m, None]
    out = np.empty((n, values.shape[1]), dtype)
    parts = list(tiles(left, right, chunk_bytes, BLOCK_BYTES))
    most = max(
        (-(-(rows.stop - rows.start) // ROWS) * ROWS for rows in parts), default=0
    )
    block, shift = np.zeros((most, depth), dtype), np.zeros(most, dtype)
    kernel, sums = np.empty((most, width), dtype), np.empty(most, dtype)
    for rows in parts:
        count = rows.stop - rows.start
        whole = -(-count // ROWS) * ROWS
        # what the last block leaves behind it counts for no row
        block[:count], shift[:count] = left[rows], guess[rows]

        def run(piece: slice) -> None:
            part = slice(piece.start * ROWS, piece.stop * ROWS)
            _fill(
                block[part],
                table,
                shift[part],
                columns,
                weight,
                kernel[part],
                sums[part],
            )

        thread_rows(whole // ROWS, max(1, 100_000 // (ROWS * width)), run)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            np.divide(kernel[:count] @ padded, sums[:count, None], out=out[rows])
        good = (sums[:count] > least_row(dtype)) & np.isfinite(sums[:count])
        bad = rows.start + np.flatnonzero(~good)
        if bad.size:
            out[bad] = without_guess(
                left[bad], right, bias, values, chunk_bytes=chunk_bytes
            )
    return out
