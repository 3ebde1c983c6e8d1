"""Minimization with SciPy's calling convention."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy.optimize import OptimizeResult

from skicml.base import Progress, to_host
from skicml.optimize._turbo_enn import TuRBOENN


def minimize_turbo_enn(
    fun: Callable[..., float],
    bounds: Any,
    args: tuple[Any, ...] = (),
    *,
    maxfev: int | None = None,
    maxiter: int | None = None,
    max_time: float | None = None,
    target: float | None = None,
    x0: Any = None,
    callback: Callable[[OptimizeResult], bool | None] | None = None,
    workers: int | Callable[..., Iterable[Any]] = 1,
    batch_size: int | None = None,
    disp: bool = False,
    noise: str = "auto",
    options: dict[str, Any] | None = None,
    random_state: Any = None,
) -> OptimizeResult:
    """Minimize an expensive function over a box or a mixed space by TuRBO-ENN.

    The function form of :class:`TuRBOENN`, called as SciPy's global optimizers are. It
    suits thousands of evaluations, noise and parallel workers.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args) -> float``, to be minimized. With named bounds x is a dict,
        else an array of shape (n_params,). A call that raises an exception or returns
        a value that is not finite counts as the worst value so far and is reported in
        one warning.
    bounds : sequence or mapping of dimensions, or scipy.optimize.Bounds
        As for :class:`TuRBOENN`.
    args : tuple, default=()
        Further arguments of ``fun``.
    maxfev : int or None, default=None
        Evaluations at most; 1000 if neither this nor another limit is given.
    maxiter : int or None, default=None
        Rounds of ``batch_size`` evaluations at most.
    max_time : float or None, default=None
        Seconds after which no new round begins.
    target : float or None, default=None
        Stop when a value is at most this.
    x0 : array of shape (n_params,) or (n, n_params), dict, list of dict or None
        Points to evaluate first; None has none.
    callback : callable or None, default=None
        Called after each round with an ``OptimizeResult`` of "x", "fun", "nfev" and
        "nit". Returning True or raising StopIteration stops.
    workers : int or map-like callable, default=1
        Processes that evaluate a batch (-1 for all processors), or a map function,
        such as that of a pool.
    batch_size : int or None, default=None
        Evaluations of a round; None means one for each worker (1 for a map function).
    disp : bool, default=False
        Show a progress bar with the best value.
    noise : {"auto", "none"}, default="auto"
        "none" promises that ``fun`` is exact, see :class:`TuRBOENN`.
    options : dict or None, default=None
        Further parameters of :class:`TuRBOENN`.
    random_state : int, RandomState, Generator or None, default=None
        Source of all randomness.

    Returns
    -------
    scipy.optimize.OptimizeResult
        "x", "fun" (for ``noise="auto"`` the predicted mean at x), "nfev", "nit",
        "success", "message", "x_iters" and "func_vals". Interrupted by Ctrl-C it holds
        all finished evaluations and "success" is False.

    Raises
    ------
    ValueError
        If a limit or the bounds are invalid, or if no evaluation succeeded.

    See Also
    --------
    scipy.optimize.differential_evolution : Needs no model, but more evaluations.
    TuRBOENN : To drive the loop yourself.

    Notes
    -----
    Overhead of a round: one proposal, O(n_candidates n d) for n evaluations so far.

    References
    ----------
    K. Bafna, S. Jadhav and D. Sweet, "Taking the GP Out of the Loop", ICML 2026,
    arXiv 2506.12818.

    Examples
    --------
    >>> from skicml import minimize_turbo_enn
    >>> result = minimize_turbo_enn(
    ...     lambda x: ((x - 0.5) ** 2).sum(), [(-2.0, 2.0)] * 3,
    ...     maxfev=150, noise="none", random_state=0,
    ... )
    >>> result.nfev, bool(result.fun < 0.05)
    (150, True)
    """
    for name, count in (
        ("maxfev", maxfev),
        ("maxiter", maxiter),
        ("batch_size", batch_size),
    ):
        if count is not None and not (isinstance(count, Integral) and count > 0):
            raise ValueError(
                f"minimize_turbo_enn: {name} must be an integer above 0, got {count!r}."
                " Raise it, or leave it out."
            )
    if max_time is not None and not (isinstance(max_time, Real) and max_time > 0):
        raise ValueError(
            f"minimize_turbo_enn: max_time must be above 0 seconds, got {max_time!r}. "
            "Raise it, or leave it out."
        )
    if not callable(fun):
        raise TypeError(
            f"minimize_turbo_enn: fun must be callable, got {fun!r}. Give a function "
            "of one point."
        )
    if not callable(workers) and (not isinstance(workers, Integral) or workers == 0):
        raise ValueError(
            "minimize_turbo_enn: workers must be a number of processes, -1 or a map "
            f"function, got {workers!r}. Use 1 to evaluate here."
        )
    if maxfev is None and maxiter is None and max_time is None:
        maxfev = 1000
    if batch_size is None:
        batch_size = 1 if callable(workers) else effective_n_jobs(workers)
    optimizer = TuRBOENN(
        bounds,
        batch_size=batch_size,
        noise=noise,
        random_state=random_state,
        **(options or {}),
    )
    run = workers if callable(workers) else _process_map(workers)
    evaluate = _Evaluate(fun, args)
    first = [] if x0 is None else list(optimizer.as_points(x0))
    errors: list[str] = []
    start, rounds, message, success = time.monotonic(), 0, "", True
    with Progress(maxfev or maxiter, "minimize", enabled=disp) as bar:
        try:
            while not message:
                left = np.inf if maxfev is None else maxfev - optimizer.n_evaluations_
                size = int(min(batch_size, left))
                batch, first = first[:size], first[size:]
                if len(batch) < size:
                    batch += list(optimizer.ask(size - len(batch)))
                # told one by one, so that an interruption loses none that is done
                for x, (value, error) in zip(batch, run(evaluate, batch), strict=True):
                    errors += [error] if error else []
                    _tell(optimizer, x, value)
                    bar.advance(1 if maxfev else 0, best=_smallest(optimizer))
                rounds += 1
                bar.advance(0 if maxfev else 1, best=_smallest(optimizer))
                if maxfev is not None and optimizer.n_evaluations_ >= maxfev:
                    message = f"Maximum number of evaluations ({maxfev}) reached."
                elif maxiter is not None and rounds >= maxiter:
                    message = f"Maximum number of rounds ({maxiter}) reached."
                elif max_time is not None and time.monotonic() - start > max_time:
                    message = f"Time limit of {max_time} s reached."
                elif target is not None and _smallest(optimizer) <= target:
                    message = f"Target {target} reached."
                elif callback is not None and _stops(callback, optimizer, rounds):
                    message = "The callback asked to stop."
        except KeyboardInterrupt:
            if optimizer.n_evaluations_ == 0:
                raise
            message, success = "Interrupted; finished evaluations are kept.", False
    if errors:
        warnings.warn(
            f"minimize_turbo_enn: {len(errors)} of {optimizer.n_evaluations_} "
            f"evaluations failed and count as the worst value; the first said: "
            f"{errors[0]}. Mend fun, or narrow the bounds.",
            UserWarning,
            stacklevel=2,
        )
    result = _summary(optimizer, rounds)
    result.update(success=success, message=message)
    return result


class _Evaluate:
    """Calls the user's function; an exception becomes a value that is not finite."""

    def __init__(self, fun: Callable[..., float], args: tuple[Any, ...]) -> None:
        self.fun, self.args = fun, args

    def __call__(self, x: Any) -> tuple[float, str]:
        """Return the value and what went wrong, if anything."""
        try:
            value = float(np.asarray(to_host(self.fun(x, *self.args))).item())
        # whatever one evaluation raises must not cost the others
        except Exception as error:  # noqa: BLE001
            return np.nan, f"{type(error).__name__}: {error}"
        return value, "" if np.isfinite(value) else f"the value is {value}"


def _process_map(n_jobs: int) -> Callable[..., Iterable[Any]]:
    """Map over processes that yields results in order, as they come."""

    def run(evaluate: _Evaluate, batch: list[Any]) -> Iterable[Any]:
        if effective_n_jobs(n_jobs) == 1:
            return map(evaluate, batch)
        parallel = Parallel(n_jobs=n_jobs, return_as="generator")
        return parallel(delayed(evaluate)(x) for x in batch)

    return run


def _tell(optimizer: TuRBOENN, x: Any, value: float) -> None:
    with warnings.catch_warnings():
        # the warning at the end says how many failed, and why
        warnings.filterwarnings("ignore", message="TuRBOENN.tell", category=UserWarning)
        optimizer.tell(x if isinstance(x, dict) else [x], -value)


def _smallest(optimizer: TuRBOENN) -> float:
    history = optimizer.history_
    done = history["y"][~history["failed"]]
    return float(-done.max()) if done.size else np.inf


def _stops(
    callback: Callable[[OptimizeResult], bool | None], optimizer: TuRBOENN, rounds: int
) -> bool:
    if not np.isfinite(_smallest(optimizer)):
        return False
    try:
        return callback(_summary(optimizer, rounds)) is True
    except StopIteration:
        return True


def _summary(optimizer: TuRBOENN, rounds: int) -> OptimizeResult:
    """Give the result of the optimizer the sign of a minimization."""
    result = optimizer.result()
    result.update(fun=-result.fun, func_vals=-result.func_vals, nit=rounds)
    return result
