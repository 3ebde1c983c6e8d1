"""Bounded temporaries and threads over pieces of the rows."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

#: Bytes of temporaries that a kernel may hold on the CPU unless told otherwise.
DEFAULT_CHUNK_BYTES = 64 * 2**20


def row_chunks(
    n_rows: int, bytes_per_row: int, chunk_bytes: int | None
) -> Iterator[slice]:
    """Yield slices of the rows whose temporaries stay within ``chunk_bytes``.

    A single row is always allowed, however large.
    """
    budget = DEFAULT_CHUNK_BYTES if chunk_bytes is None else chunk_bytes
    step = max(1, budget // max(1, bytes_per_row))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def n_threads() -> int:
    """Threads that a CPU kernel may use.

    ``SKICML_NUM_THREADS`` if set, else ``OMP_NUM_THREADS`` if set (joblib sets it in
    its workers, so that ``n_jobs`` does not oversubscribe), else the processors that
    this process may run on.
    """
    for variable in ("SKICML_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(variable, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_rows(n_rows: int, min_rows: int, run: Callable[[slice], None]) -> None:
    """Call ``run`` on slices of the rows, one slice a thread.

    ``run`` must release the GIL to gain from it. Pieces are never smaller than
    ``min_rows``; one piece runs in the calling thread.
    """
    pieces = max(1, min(n_threads(), n_rows // max(1, min_rows)))
    bounds = [n_rows * i // pieces for i in range(pieces + 1)]
    slices = [slice(a, b) for a, b in itertools.pairwise(bounds)]
    if pieces == 1:
        run(slices[0])
        return
    with ThreadPoolExecutor(pieces) as pool:
        for future in [pool.submit(run, piece) for piece in slices]:
            future.result()
