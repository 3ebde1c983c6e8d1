"""What a fit will take, said before it begins."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from skicml.base import audible
from skicml.transport._egw_solver import Coupling, Spaces
from skicml.transport._srgw_solver import Problem
from skicml_accel._namespaces import dtype_name, namespace_of
from skicml_accel.transport import masked_gw_grad, sinkhorn_pass_estimate_bytes

logger = logging.getLogger("skicml")

#: Rows of the sample whose time is measured.
SAMPLE = 1_000
MASKED_SAMPLE = 200


def say_lifted(spaces: Spaces, solver: str, eps: float, verbose: int) -> None:
    """Log rows, solver, memory and time of :class:`LiftedGWAligner`, if asked for."""
    if verbose < 1:
        return
    (n, d), m = spaces.U.shape, spaces.W.shape[0]
    itemsize = 4 if dtype_name(spaces.U) == "float32" else 8
    held = 8 * 6 * (n + m) * d + sinkhorn_pass_estimate_bytes(n, m, d + 1, itemsize)
    if spaces.dense:
        held += 3 * 8 * n * m
    few, some = min(n, SAMPLE), min(m, SAMPLE)
    xp = namespace_of(spaces.U)
    sample = Spaces(
        spaces.U[:few, :],
        spaces.s[:few],
        xp.full_like(spaces.a[:few], 1 / few),
        spaces.W[:some, :],
        spaces.t[:some],
        xp.full_like(spaces.b[:some], 1 / some),
        spaces.signs,
        spaces.constant,
        spaces.dense,
    )
    coupling = Coupling(sample, xp.zeros_like(spaces.signs), eps)
    p, q = xp.zeros_like(sample.s), xp.zeros_like(sample.t)
    seconds = _timed(lambda: coupling.iterate(p, q, False)) * n * m / (few * some)
    _say(
        verbose,
        f"LiftedGWAligner: {n:,} x {m:,} rows, solver {solver!r}; about "
        f"{_size(held)} and {seconds:.2g} s a pass over the plan, of which an iteration "
        "takes some 5 to 30",
    )


def say_masked(problem: Problem, solver: str, max_iter: int, verbose: int) -> None:
    """Log rows, solver, memory and time of :class:`SRGWMatcher`, if asked for."""
    if verbose < 1:
        return
    n, m = problem.a.shape[0], problem.b.shape[0]
    itemsize = 4 if dtype_name(problem.a) == "float32" else 8
    few, some = min(n, MASKED_SAMPLE), min(m, MASKED_SAMPLE)
    xp = namespace_of(problem.a)
    source = problem.whole[0][:, :few, :few]
    target = problem.whole[1][:, :some, :some]
    plan = xp.full_like(problem.a[:few, None] * problem.b[None, :some], 1 / few / some)
    share = n * m * (n + m) / (few * some * (few + some))
    seconds = _timed(lambda: masked_gw_grad(source, target, plan)) * share
    _say(
        verbose,
        f"SRGWMatcher: {n:,} x {m:,} rows, solver {solver!r}; about "
        f"{_size(8 * itemsize * (n * n + m * m + n * m))} and {seconds:.2g} s a "
        f"gradient, of which a step takes some 2 to 20, up to {max_iter} steps a start",
    )


def _timed(run: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    # the first ones load code and wake threads
    return min(times)


def _say(verbose: int, text: str) -> None:
    with audible(verbose >= 1):
        logger.info("%s", text)


def _size(n_bytes: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"
