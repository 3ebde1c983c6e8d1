"""Bayesian optimization with many observations: TuRBO on nearest neighbors.

Sources: arXiv 2506.12818 (TuRBO-ENN), arXiv 1910.01739 (TuRBO).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult
from scipy.stats import qmc

from skicml.base import check_generator, resolve_device, to_host
from skicml.optimize._region import Model, ObservationLog, Region, ToldPoints
from skicml.optimize._space import Space
from skicml.optimize._trust_region import TrustRegion
from skicml_accel.optimize import pareto_fronts_2d, raasp

ACQUISITIONS = ("auto", "ucb", "pareto", "thompson", "random")

#: Coordinates of the unit cube that differ by less belong to one point.
SAME_POINT = 1e-6


class TuRBOENN:
    r"""Maximize an expensive function by asking for points and telling their values.

    Use it when evaluations number in the thousands, come in batches or out of order,
    or are noisy: a proposal costs one nearest neighbor search over the observations,
    where a Gaussian process refits at cubic cost. Prefer a Gaussian process below a few
    hundred evaluations of a smooth function in few dimensions, and a gradient method
    where there is a gradient.

    The optimizer keeps a cube around the best point (a trust region, TuRBO) that grows
    when rounds improve and shrinks when they do not. Each proposal draws candidates
    that differ from the center in about ``n_perturb`` coordinates, predicts their mean
    :math:`\mu` and epistemic standard deviation :math:`\sigma` with
    :class:`~skicml.neighbors.ENNRegressor`, and takes the best by
    :math:`\mu + \beta\sigma` ("ucb"), from the Pareto fronts of :math:`(\mu, \sigma)`
    ("pareto"), or by function draws ("thompson"). When the cube has become too small it
    starts anew, and the best point over all restarts is reported.

    Parameters
    ----------
    bounds : sequence or mapping of dimensions, or scipy.optimize.Bounds
        A pair of ints is an integer range with both ends, a pair of floats a real
        range, ``(low, high, "log-uniform")`` a range on a log scale, a list a set of
        categories, a frozen distribution of scipy.stats its quantiles. With a mapping
        the points are dicts.
    n_neighbors : int, default=10
        Neighbors of the model.
    acquisition : {"auto", "ucb", "pareto", "thompson", "random"}, default="auto"
        How candidates are chosen; "auto" is "ucb", which found better points than
        "pareto", the paper's choice for exact values, on all functions we measured.
        "random" ignores the model, as a baseline.
    noise : {"auto", "none"}, default="auto"
        "none" promises exact values: the largest value seen is the incumbent, and the
        model's scales stay at 1 and 0 instead of being fitted. "auto" fits them and
        compares predicted means.
    beta : float, default=1.0
        Weight of the standard deviation in "ucb".
    n_init : int or None, default=None
        Points of the Latin hypercube that starts each trust region; None means two for
        each coordinate.
    n_candidates : int or None, default=None
        Candidates of each proposal; None means 100 for each coordinate, at most 5000.
    n_trust_regions : int, default=1
        Trust regions that compete for the evaluations.
    batch_size : int, default=1
        Points that ``ask()`` returns.
    length_init, length_min, length_max : float, default=0.8, 0.5**7, 1.6
        Side of the trust region at its start, its end and at most, in units of the
        range of each coordinate.
    n_perturb : int, default=20
        Coordinates in which a candidate differs from the center, on average.
    device : str or None, default=None
        Where the model computes, such as "cuda"; None is the CPU.
    random_state : int, RandomState, Generator or None, default=None
        Source of all randomness.

    Attributes
    ----------
    best_x_ : ndarray of shape (n_params,) or dict
        Best point over all restarts: of the largest value if ``noise="none"``, else of
        the largest predicted mean among the points with the largest values.
    best_y_ : float
        Its value, or its predicted mean.
    trust_region_ : dict or list of dict
        "length", "center", "successes", "failures" as of the last proposal; a list
        with several regions.
    history_ : dict of ndarray of shape (n_evaluations,)
        "y", its running maximum "best_y", "failed", and the side "length" of the
        trust region when the value was told.
    n_evaluations_ : int
        Values told, failures included.

    See Also
    --------
    minimize_turbo_enn : The same as a function with SciPy's calling convention.
    TuRBOENNSearchCV : The same for hyperparameters.

    Notes
    -----
    A proposal costs O((n_candidates + 100) n d) flops for n observations; ``tell``
    costs O(1) for each value. Points asked for and not yet told enter later proposals
    with their predicted value, so that several workers can ask in turn. The object can
    be pickled at any moment and goes on as if nothing had happened.

    ``device`` changes where neighbors are searched and nothing else.

    References
    ----------
    K. Bafna, S. Jadhav and D. Sweet, "Taking the GP Out of the Loop", ICML 2026,
    arXiv 2506.12818. D. Eriksson et al., "Scalable Global Optimization via Local
    Bayesian Optimization", NeurIPS 2019, arXiv 1910.01739. Pending points, the global
    archive, several regions over nearest neighbors and the profile fit are additions
    of ours.

    Examples
    --------
    >>> from skicml import TuRBOENN
    >>> optimizer = TuRBOENN([(-5.0, 5.0)] * 2, noise="none", random_state=0)
    >>> for _ in range(60):
    ...     x = optimizer.ask()
    ...     optimizer.tell(x, -((x - 1.0) ** 2).sum(axis=1))
    >>> abs(optimizer.best_y_) < 0.1
    True
    """

    def __init__(
        self,
        bounds: Any,
        *,
        n_neighbors: int = 10,
        acquisition: str = "auto",
        noise: str = "auto",
        beta: float = 1.0,
        n_init: int | None = None,
        n_candidates: int | None = None,
        n_trust_regions: int = 1,
        batch_size: int = 1,
        length_init: float = 0.8,
        length_min: float = 0.5**7,
        length_max: float = 1.6,
        n_perturb: int = 20,
        device: str | None = None,
        random_state: Any = None,
    ) -> None:
        self._space = Space(bounds)
        _check_choice("acquisition", acquisition, ACQUISITIONS)
        _check_choice("noise", noise, ("auto", "none"))
        for name, value in (
            ("n_neighbors", n_neighbors),
            ("n_trust_regions", n_trust_regions),
            ("batch_size", batch_size),
            ("n_perturb", n_perturb),
        ):
            _check_at_least(name, value, 1)
        if n_init is not None:
            _check_at_least("n_init", n_init, 1)
        if n_candidates is not None:
            _check_at_least("n_candidates", n_candidates, 1)
        for name, number in (
            ("beta", beta),
            ("length_init", length_init),
            ("length_min", length_min),
            ("length_max", length_max),
        ):
            if not isinstance(number, Real) or not np.isfinite(number):
                raise ValueError(
                    f"TuRBOENN: {name} must be a finite number, got {number!r}. "
                    "Give a float."
                )
        if not 0 < length_min <= length_init <= length_max:
            raise ValueError(
                "TuRBOENN: expected 0 < length_min <= length_init <= length_max, got "
                f"{length_min}, {length_init}, {length_max}. Reorder them."
            )
        if beta < 0:
            raise ValueError(
                f"TuRBOENN: beta must be at least 0, got {beta}. "
                "Use 0 to ignore the uncertainty."
            )
        self._free = np.flatnonzero(~self._space.fixed)
        n_dims = max(1, self._free.size)
        self._noisy = noise != "none"
        self._acquisition = "ucb" if acquisition == "auto" else acquisition
        self._beta = beta
        self._n_neighbors = n_neighbors
        self._n_init = 2 * n_dims if n_init is None else n_init
        self._n_candidates = (
            min(5000, 100 * n_dims) if n_candidates is None else n_candidates
        )
        self._batch_size = batch_size
        self._n_perturb = n_perturb
        self._device = resolve_device(device)
        self._rng = check_generator(random_state)
        trust = TrustRegion(n_dims, length_init, length_min, length_max)
        self._regions = [
            Region(trust, self._noisy, n_neighbors, self._device)
            for _ in range(n_trust_regions)
        ]
        for region in self._regions:
            self._start(region)
        self._log = ObservationLog(self._space.n_dims)
        self._points = ToldPoints(self._space)
        #: Points that are out, each with its region.
        self._pending: list[tuple[np.ndarray, int]] = []
        self._n_rounds = 0
        self._reported: tuple[int, int, float] | None = None

    def ask(self, n: int | None = None) -> Any:
        """Propose points to evaluate.

        The first points are a Latin hypercube, less as many as were told before. May be
        called again before the values are told: points that are out enter the model
        with their predicted value.

        Parameters
        ----------
        n : int or None, default=None
            How many; None means ``batch_size``.

        Returns
        -------
        ndarray of shape (n, n_params) or list of dict
            Points in the units of the bounds: floats, int64 if all dimensions are
            integers, objects if there are categories, dicts if the bounds have names.
        """
        n = self._batch_size if n is None else n
        _check_at_least("n", n, 1)
        for region in self._regions:
            region.learn(self._log, self._rng)
            if region.trust.collapsed:
                self._start(region)
        chosen: list[tuple[np.ndarray, int]] = []
        for number, region in enumerate(self._regions):
            while region.design and len(chosen) < n:
                chosen.append((region.design.pop(0), number))
        chosen += self._propose(n - len(chosen))
        self._pending += chosen
        self._n_rounds += 1
        return self._space.from_unit(np.array([unit for unit, _ in chosen]))

    def tell(self, x: Any, y: Any, y_var: Any = None) -> None:
        """Report values, of points asked for or of any others.

        Parameters
        ----------
        x : array of shape (n, n_params) or (n_params,), dict or list of dict
            Points in the units of the bounds.
        y : array of shape (n,) or float
            Values to be maximized. A value that is not finite marks a failed
            evaluation; it counts as the worst value so far.
        y_var : array of shape (n,), float or None, default=None
            Variance of the noise of each value, in squared units of y; given either
            always or never.

        Raises
        ------
        ValueError
            If shapes do not match, a point is out of bounds, or y_var is negative or
            given for some calls only.
        """
        points = self.as_points(x)
        unit = self._space.to_unit(points)
        y = _as_values(y)
        if y.shape[0] != unit.shape[0]:
            raise ValueError(
                f"TuRBOENN.tell: {unit.shape[0]} points but {y.shape[0]} values were "
                "given. Give one value for each point."
            )
        y_var = self._check_variance(y_var, y)
        failed = ~np.isfinite(y)
        if failed.any() and not self._log.failed.any():
            warnings.warn(
                f"TuRBOENN.tell: {int(failed.sum())} of {y.size} values are not "
                "finite; such evaluations count as the worst value so far. This is "
                "said once.",
                UserWarning,
                stacklevel=2,
            )
        homes = self._homes_of(unit)
        lengths = np.array([self._regions[h].trust.length for h in homes])
        self._log.append(unit, y, failed, lengths, y_var)
        self._points.append(points)
        first = len(self._log) - len(homes)
        for number, region in enumerate(self._regions):
            region.fresh.extend((first + np.flatnonzero(homes == number)).tolist())

    def result(self) -> OptimizeResult:
        """Summarize the run so far.

        Returns
        -------
        scipy.optimize.OptimizeResult
            "x" and "fun" are the best point and value (maximized), "nfev" the values
            told, "nit" the calls of ask, "x_iters" and "func_vals" all points and
            values in order, failures as the worst value.

        Raises
        ------
        ValueError
            If no finite value has been told.
        """
        return OptimizeResult(
            x=self.best_x_,
            fun=self.best_y_,
            nfev=self.n_evaluations_,
            nit=self._n_rounds,
            success=True,
            message=f"Best of {self.n_evaluations_} evaluations.",
            x_iters=self._points.rows[:],
            func_vals=self._log.values(),
        )

    def get_state(self) -> dict[str, Any]:
        """Copy everything that a later run needs to go on bit by bit.

        Returns
        -------
        dict
            To be pickled or given to :meth:`set_state`.
        """
        return copy.deepcopy(self.__dict__)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`.

        Parameters
        ----------
        state : dict
            It replaces the settings too, and is not changed.
        """
        self.__dict__.clear()
        self.__dict__.update(copy.deepcopy(state))

    def as_points(self, x: Any) -> Any:
        """Put one point alone into a batch of one.

        Parameters
        ----------
        x : array of shape (n_params,) or (n, n_params), dict or list of dict
            A point or several, in the units of the bounds.

        Returns
        -------
        array of shape (n, n_params) or list of dict
            Not yet checked against the bounds.
        """
        if self._space.names is not None:
            return [x] if isinstance(x, Mapping) else x
        x = to_host(x)
        if x is None or np.ndim(x) == 0:
            x = [x]
        if len(x) == self._space.n_params and all(np.ndim(v) == 0 for v in x):
            return [x]
        return x

    # -- what the run has found --------------------------------------------------

    @property
    def n_evaluations_(self) -> int:
        """Values told, failures included."""
        return len(self._log)

    @property
    def best_x_(self) -> Any:
        """Best point over all restarts, in the units of the bounds."""
        return self._points.rows[self._best()[0]]

    @property
    def best_y_(self) -> float:
        """Value of the best point, or its predicted mean where values are noisy."""
        return self._best()[1]

    @property
    def trust_region_(self) -> dict[str, Any] | list[dict[str, Any]]:
        """State of the trust regions as of the last proposal."""
        states = []
        for region in self._regions:
            center = region.center
            if center is not None:
                center = self._space.from_unit(center[None])[0]
            trust = region.trust
            states.append(
                {
                    "length": trust.length,
                    "center": center,
                    "successes": trust.successes,
                    "failures": trust.failures,
                }
            )
        return states[0] if len(states) == 1 else states

    @property
    def history_(self) -> dict[str, np.ndarray]:
        """One entry for each value told."""
        y = self._log.values()
        return {
            "y": y,
            "best_y": np.maximum.accumulate(y),
            "failed": self._log.failed.copy(),
            "length": self._log.length.copy(),
        }

    def _best(self) -> tuple[int, float]:
        """Row and value of the best observation in the whole log."""
        if self._log.failed.all():
            raise ValueError(
                f"TuRBOENN: none of the {len(self._log)} values told is finite, so "
                "there is no best point. Evaluate more points."
            )
        if self._reported is None or self._reported[0] != len(self._log):
            # a generator of its own: looking must not change the run
            rng = np.random.default_rng(0)
            model = Model(self._n_neighbors, self._noisy, self._device, rng)
            model.add(self._log.unit, self._log.values(), self._log.y_var)
            row, value, _ = model.incumbent()
            if not self._noisy:
                value = float(self._log.values()[row])
            self._reported = (len(self._log), row, value)
        return self._reported[1:]

    # -- one proposal ------------------------------------------------------------

    def _start(self, region: Region) -> None:
        """Forget what a region knew and give it a new Latin hypercube."""
        design = np.full((self._n_init, self._space.n_dims), 0.5)
        sampler = qmc.LatinHypercube(max(1, self._free.size), rng=self._rng)
        design[:, self._free] = sampler.random(self._n_init)[:, : self._free.size]
        region.restart(list(self._space.snap(design)))

    def _homes_of(self, unit: np.ndarray) -> np.ndarray:
        """Region that each told point belongs to; the point is out no longer."""
        homes = np.zeros(len(unit), dtype=np.int64)
        known = [i for i, r in enumerate(self._regions) if r.center is not None]
        if len(known) > 1:
            gaps = [np.abs(unit - self._regions[i].center).max(axis=1) for i in known]
            homes = np.array(known)[np.argmin(gaps, axis=0)]
        still = []
        for point, number in self._pending:
            # told points may have gone through a text file or single precision
            gap = np.abs(unit - point).max(axis=1)
            row = int(np.argmin(gap))
            if gap[row] > SAME_POINT:
                still.append((point, number))
            else:
                homes[row] = number
        self._pending = still
        return homes

    def _propose(self, n: int) -> list[tuple[np.ndarray, int]]:
        """Best candidates of all regions, with the region each comes from."""
        if n <= 0:
            return []
        chosen, rest = self._best_candidates(n, everywhere=False)
        if len(chosen) < n:
            # a trust region over few discrete values may hold nothing new
            self._pending += chosen
            more, again = self._best_candidates(n - len(chosen), everywhere=True)
            del self._pending[len(self._pending) - len(chosen) :]
            chosen, rest = chosen + more, again or rest
        # nothing new is left in the whole space
        chosen += [rest[i % len(rest)] for i in range(n - len(chosen))]
        return chosen

    def _best_candidates(
        self, n: int, everywhere: bool
    ) -> tuple[list[tuple[np.ndarray, int]], list[tuple[np.ndarray, int]]]:
        """Draw candidates; return at most n new ones and those seen before, ranked."""
        units, numbers, means, stds = [], [], [], []
        for number, region in enumerate(self._regions):
            unit = self._space.snap(self._candidates(region, n, everywhere))
            if self._acquisition == "thompson":
                mean, std = region.draw(unit, n, self._rng), np.zeros(len(unit))
            else:
                mean, std = region.predict(unit, self._waiting(number))
            units.append(unit)
            numbers.append(np.full(len(unit), number))
            means.append(mean)
            stds.append(std)
        order = self._ranking(np.concatenate(means), np.concatenate(stds), n)
        return self._split(np.concatenate(units), np.concatenate(numbers), order, n)

    def _candidates(self, region: Region, n: int, everywhere: bool) -> np.ndarray:
        """Points around the center of a region, or anywhere; n of them at least."""
        count = max(self._n_candidates, n)
        candidates = np.full((count, self._space.n_dims), 0.5)
        center = candidates[0] if region.center is None else region.center
        half = region.trust.length / 2
        if everywhere or region.center is None:
            half = 1.0
        free = center[self._free]
        if free.size:
            candidates[:, self._free] = raasp(
                free,
                np.clip(free - half, 0, 1),
                np.clip(free + half, 0, 1),
                n_candidates=count,
                n_perturb=self._n_perturb,
                rng=self._rng,
            )
        return candidates

    def _waiting(self, number: int) -> np.ndarray | None:
        """Points of a region that are out, None if there are none."""
        out = [unit for unit, home in self._pending if home == number]
        return np.array(out) if out else None

    def _ranking(self, mean: np.ndarray, std: np.ndarray, n: int) -> np.ndarray:
        """Candidates from the most to the least wanted; ties in random order."""
        shuffled = self._rng.permutation(std.shape[0])
        if self._acquisition == "random":
            return shuffled
        if self._acquisition == "thompson":
            # the best of each draw first, then the second best of each, ...
            ranks = np.argsort(-mean[shuffled], axis=0, kind="stable")
            return shuffled[ranks[: max(1, 4 * n)].ravel()]
        if self._acquisition == "ucb":
            score = mean[shuffled] + self._beta * std[shuffled]
            return shuffled[np.argsort(-score, kind="stable")]
        front = pareto_fronts_2d(mean[shuffled], std[shuffled], q=n)
        return shuffled[np.argsort(front, kind="stable")]

    def _split(
        self, unit: np.ndarray, number: np.ndarray, order: np.ndarray, n: int
    ) -> tuple[list[tuple[np.ndarray, int]], list[tuple[np.ndarray, int]]]:
        """First n of the ranking that are new, and those passed over.

        New is what is neither out nor chosen twice. Exact values need no second look,
        so told points are passed over too.
        """
        seen = {u.tobytes() for u, _ in self._pending}
        if not self._noisy:
            seen |= self._log.keys()
        new: list[tuple[np.ndarray, int]] = []
        old: list[tuple[np.ndarray, int]] = []
        for place in order:
            pair = unit[place], int(number[place])
            key = pair[0].tobytes()
            (old if key in seen else new).append(pair)
            seen.add(key)
            if len(new) == n:
                break
        return new, old

    # -- input -------------------------------------------------------------------

    def _check_variance(self, y_var: Any, y: np.ndarray) -> np.ndarray | None:
        if len(self._log) and (y_var is None) != (self._log.y_var is None):
            raise ValueError(
                "TuRBOENN.tell: y_var must be given in every call or in none. Give "
                "zeros for values that are exact."
            )
        if y_var is None:
            return None
        y_var = np.broadcast_to(np.asarray(to_host(y_var), dtype=float), y.shape)
        if not np.all((y_var >= 0) & np.isfinite(y_var)):
            raise ValueError(
                "TuRBOENN.tell: y_var must be non-negative with the shape of y, got "
                f"{y_var[~(y_var >= 0) | ~np.isfinite(y_var)][0]}. Give the variance "
                "of each value, in squared units of y."
            )
        return y_var


def _as_values(y: Any) -> np.ndarray:
    """Give told values as floats; None stands for a failure."""
    try:
        return np.atleast_1d(np.asarray(to_host(y), dtype=float)).ravel()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"TuRBOENN.tell: y must hold real numbers, but {error}. Give one float "
            "for each point, NaN for a failure."
        ) from error


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(
            f"TuRBOENN: {name} must be one of {list(choices)}, got {value!r}. "
            "Choose one of these."
        )


def _check_at_least(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(
            f"TuRBOENN: {name} must be an integer of at least {least}, got {value!r}. "
            "Raise it."
        )
