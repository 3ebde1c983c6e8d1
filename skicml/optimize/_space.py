"""Search spaces: user parameters on one side, the unit cube on the other."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.optimize import Bounds

__all__ = ["Space"]

# Quantiles of an unbounded distribution stop here: the normal one at 6.0 standard
# deviations. Discrete ones too, because scipy puts ppf(0) one below the support.
_TAIL = 1e-9
# Points may leave a range by this share of it, which is what a round trip through
# a logarithm or a text file costs; they are moved back to the bound.
_SLACK = 1e-12
# Whole numbers up to here are exact in float64.
_MAX_INT = 2**53


class Space:
    """Map points of a mixed search space to the unit cube and back.

    Every dimension takes one unit coordinate, except a list of three or more levels,
    which takes one per level. Discrete values own cells of the coordinate and map to
    the centers of these, so that ``from_unit(to_unit(x))`` returns x.

    Parameters
    ----------
    bounds : sequence, mapping, scipy.optimize.Bounds or Space
        The dimensions, as a sequence (or an array of shape (n_params, 2)), or by name.
        A dimension is

        - ``(int, int)``: whole numbers, both ends included;
        - ``(float, float)``: real numbers; ``(1, 2.5)`` is real as well;
        - ``(low, high, "log-uniform")``: the same, uniform on a logarithmic scale;
        - a list: its levels, unordered. Two levels share one coordinate; three or
          more have one each, and the largest coordinate wins;
        - a distribution with ``ppf`` and ``cdf``, such as a frozen one of scipy.stats:
          the coordinate u stands for ``ppf(u)``. Unbounded tails are cut at the
          quantiles 1e-9 and 1 - 1e-9.

        Bounds of scipy are real dimensions. A space is copied, without a warning.

    Attributes
    ----------
    n_dims : int
        Number of unit coordinates.
    n_params : int
        Number of user parameters, at most `n_dims`.
    names : tuple of str or None
        Keys of a mapping; None for a sequence.
    fixed : bool array of shape (n_dims,)
        Coordinates that cannot change anything: ranges of width zero, lists of one
        level.

    Raises
    ------
    ValueError
        If there is no dimension, or bounds are reversed or not finite. The message
        names the dimension.
    TypeError
        If something is no dimension at all.

    Warns
    -----
    UserWarning
        Once, naming the ranges of width zero.

    See Also
    --------
    scipy.optimize.Bounds : Real ranges only.
    sklearn.model_selection.ParameterSampler : Draws from lists and distributions.

    Notes
    -----
    Both directions cost O(n_points * n_dims) and are vectorized over points; mappings
    add one dict per point.

    Examples
    --------
    >>> from skicml.optimize._space import Space
    >>> space = Space({"C": (1e-3, 1e3, "log-uniform"), "kernel": ["rbf", "poly"]})
    >>> space.n_dims
    2
    >>> space.from_unit([[0.0, 0.9]])
    [{'C': 0.001, 'kernel': 'poly'}]
    >>> space.to_unit([{"C": 0.001, "kernel": "poly"}])
    array([[0.  , 0.75]])
    """

    def __init__(self, bounds: Any) -> None:
        if isinstance(bounds, Space):
            vars(self).update(vars(bounds))
            return
        self.names: tuple[str, ...] | None = None
        if isinstance(bounds, Mapping):
            self.names = tuple(bounds)
            values = list(bounds.values())
        elif isinstance(bounds, Bounds):
            lower, upper = np.broadcast_arrays(
                np.float64(bounds.lb), np.float64(bounds.ub)
            )
            values = list(
                zip(lower.ravel().tolist(), upper.ravel().tolist(), strict=True)
            )
        elif isinstance(bounds, np.ndarray):
            if bounds.ndim != 2 or bounds.shape[1] != 2:
                raise ValueError(
                    f"Bounds given as an array have shape {bounds.shape}. "
                    "Use one row (low, high) per dimension."
                )
            values = [tuple(row) for row in bounds]
        elif isinstance(bounds, Sequence) and not isinstance(bounds, str):
            values = list(bounds)
        else:
            raise TypeError(
                f"Bounds are of type {type(bounds).__name__}. Use a sequence of "
                "dimensions, a dict from names to dimensions, or scipy.optimize.Bounds."
            )
        if not values:
            raise ValueError("Bounds are empty. Give at least one dimension.")

        self._dimensions = [
            _dimension(value, self._label(j)) for j, value in enumerate(values)
        ]
        self.n_params = len(values)
        widths = [dimension.width for dimension in self._dimensions]
        self.n_dims = sum(widths)
        ends = np.cumsum(widths)
        self._columns = [
            slice(end - width, end)
            for end, width in zip(ends.tolist(), widths, strict=True)
        ]
        # the common case, a plain box, needs no loop over its dimensions
        self._box = None
        if self.names is None and all(map(_is_plain, self._dimensions)):
            limits = [(d.low, d.high) for d in self._dimensions]  # type: ignore[union-attr]
            self._box = tuple(np.array(limits, dtype=np.float64).T)
        # where the unit coordinate itself is not what the user's point stands for
        self._uneven = [
            (dimension, where)
            for dimension, where in zip(self._dimensions, self._columns, strict=True)
            if not (isinstance(dimension, _Range) and dimension.even)
        ]
        self.fixed = np.repeat([d.fixed for d in self._dimensions], widths)
        frozen = [
            dimension.label
            for dimension in self._dimensions
            # a list of one level cannot be an oversight
            if dimension.fixed and not isinstance(dimension, _Levels)
        ]
        if frozen:
            warnings.warn(
                f"Bounds of width zero never change: {', '.join(frozen)}. "
                "Remove them from the search, or widen them.",
                UserWarning,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        """Return the counts of parameters and coordinates."""
        return f"Space(n_params={self.n_params}, n_dims={self.n_dims})"

    def to_unit(self, points: Any) -> np.ndarray:
        """Return unit-cube coordinates of user points.

        Parameters
        ----------
        points : array of shape (n, n_params), list of rows, or list of dict
            Dicts if the bounds were a mapping, rows otherwise. Rows hold levels
            themselves where a dimension is a list.

        Returns
        -------
        U : float64 array of shape (n, n_dims)
            Values in [0, 1]; discrete values at the centers of their cells.

        Raises
        ------
        ValueError
            If a point is outside the bounds, has missing or unknown parameters, or
            is not a number where one is due.
        """
        if self._box is not None and _is_matrix(points, self.n_params):
            low, high = self._box
            if np.all((points >= low) & (points <= high)):
                return (points - low) / (high - low)
        if self.names is None:
            n, columns = self._columns_of_rows(points)
        else:
            n, columns = self._columns_of_dicts(points)
        U = np.empty((n, self.n_dims))
        for dimension, where, column in zip(
            self._dimensions, self._columns, columns, strict=True
        ):
            U[:, where] = dimension.to_unit(column)
        return U

    def from_unit(self, U: Any) -> Any:
        """Return the user points at unit-cube coordinates.

        Parameters
        ----------
        U : array of shape (n, n_dims)
            Values outside [0, 1] are moved to the nearer end.

        Returns
        -------
        points : array of shape (n, n_params), or list of n dict
            For a mapping, dicts with Python values. For a sequence an array: int64 if
            all dimensions are whole numbers, object if one is a list of levels,
            float64 otherwise (whole numbers then appear as whole floats).
        """
        U = self._check_unit(U)
        if self._box is not None:
            low, high = self._box
            u = np.clip(U, 0.0, 1.0)
            return np.clip(low * (1.0 - u) + high * u, low, high)
        columns = [
            dimension.from_unit(U[:, where])
            for dimension, where in zip(self._dimensions, self._columns, strict=True)
        ]
        if self.names is not None:
            rows = zip(*(column.tolist() for column in columns), strict=True)
            return [dict(zip(self.names, row, strict=True)) for row in rows]
        points = np.empty((U.shape[0], self.n_params), np.result_type(*columns))
        for j, column in enumerate(columns):
            points[:, j] = column
        return points

    def snap(self, U: Any) -> np.ndarray:
        """Move unit points to where the user points they stand for really are.

        A surrogate that learns from the snapped points sees what was evaluated:
        discrete coordinates move to the centers of their cells.

        Parameters
        ----------
        U : array of shape (n, n_dims)
            Values outside [0, 1] are moved to the nearer end.

        Returns
        -------
        U : float64 array of shape (n, n_dims)
            A new array.
        """
        U = self._check_unit(U)
        snapped = np.clip(U, 0.0, 1.0)
        for dimension, where in self._uneven:
            snapped[:, where] = dimension.snap(U[:, where])
        return snapped

    def _label(self, j: int) -> str:
        """Return how messages call the j-th parameter."""
        return f"coordinate {j}" if self.names is None else repr(self.names[j])

    def _check_unit(self, U: Any) -> np.ndarray:
        U = np.asarray(U, dtype=np.float64)
        if U.ndim != 2 or U.shape[1] != self.n_dims:
            raise ValueError(
                f"Unit points have shape {U.shape}. "
                f"Use (n_points, {self.n_dims}), one row per point."
            )
        return U

    def _columns_of_rows(self, points: Any) -> tuple[int, list[Any]]:
        shape: tuple[int, ...]
        if isinstance(points, np.ndarray):
            shape = points.shape
            columns = list(points.T) if points.ndim == 2 else []
        else:
            # np.asarray would also split levels that are sequences
            rows = [
                list(row)
                if isinstance(row, (Sequence, np.ndarray)) and not isinstance(row, str)
                else [row]
                for row in points
            ]
            lengths = {len(row) for row in rows} or {self.n_params}
            shape = (len(rows), *lengths)
            columns = (
                [list(column) for column in zip(*rows, strict=False)] if rows else []
            )
            columns = columns or [[] for _ in range(self.n_params)]
        if len(shape) != 2 or shape[1] != self.n_params:
            raise ValueError(
                f"Points have shape {shape}. "
                f"Use (n_points, {self.n_params}), one row per point."
            )
        return shape[0], columns

    def _columns_of_dicts(self, points: Any) -> tuple[int, list[Any]]:
        assert self.names is not None
        if isinstance(points, Mapping) or not all(
            isinstance(point, Mapping) for point in points
        ):
            raise ValueError(
                f"Points of a named space are not a list of dicts: {points!r:.80}. "
                f"Use dicts with the keys {list(self.names)}."
            )
        expected = set(self.names)
        for point in points:
            if point.keys() != expected:
                raise ValueError(
                    f"A point has the parameters {list(point)}. "
                    f"Use dicts with the keys {list(self.names)}."
                )
        return len(points), [[point[name] for point in points] for name in self.names]


class _Range:
    """Numbers from `low` to `high`, real or whole, on a linear or log scale.

    Whole numbers are mapped as the real range that reaches half a step beyond both
    ends, and rounded; so all of them own cells of equal width on a linear scale.
    """

    width = 1

    def __init__(self, low: Any, high: Any, *, log: bool, label: str) -> None:
        self.label = label
        self.whole = isinstance(low, Integral) and isinstance(high, Integral)
        self.dtype = np.int64 if self.whole else np.float64
        # Python's numbers: NumPy's small integers would wrap around below
        low, high = (int(low), int(high)) if self.whole else (float(low), float(high))
        if not (np.isfinite(low) and np.isfinite(high) and np.isfinite(high - low)):
            raise ValueError(
                f"Bounds of {label} are ({low}, {high}), whose width is not finite. "
                "Give finite ends."
            )
        if low > high:
            raise ValueError(
                f"Bounds of {label} are reversed: {low} is above {high}. "
                f"Use ({high}, {low})."
            )
        if log and low <= 0:
            raise ValueError(
                f"Bounds of {label} are log-uniform but start at {low}. "
                "Start above zero, or use a linear scale."
            )
        if self.whole and max(-low, high) > _MAX_INT:
            raise ValueError(
                f"Bounds of {label} are ({low}, {high}), and whole numbers beyond 2^53 "
                "are not exact. Use floats."
            )
        self.low, self.high, self.log = self.dtype(low), self.dtype(high), log
        self.fixed = bool(low == high)
        half = 0.5 if self.whole else 0.0
        self._ends = low - half, high + half

    def to_unit(self, values: Any) -> np.ndarray:
        x = _numbers(values, self.label)
        slack = _SLACK * max(abs(float(self.low)), abs(float(self.high)))
        wrong = ~((x >= self.low - slack) & (x <= self.high + slack))
        if wrong.any():
            raise ValueError(
                f"{_first(values, wrong)} is outside the bounds ({self.low}, "
                f"{self.high}) of {self.label}. Move the point inside."
            )
        x = np.clip(x, self.low, self.high)
        if self.whole:
            wrong = x != np.rint(x)
            if wrong.any():
                raise ValueError(
                    f"{_first(values, wrong)} is not a whole number, but {self.label} "
                    f"takes ({self.low}, {self.high}). Round it."
                )
        return self._unit(x)[:, None]

    def from_unit(self, u: np.ndarray) -> np.ndarray:
        u = np.clip(u[:, 0], 0.0, 1.0)
        first, last = self._ends
        # both forms give the very ends at u = 0 and 1
        x = first ** (1.0 - u) * last**u if self.log else first * (1.0 - u) + last * u
        if self.whole:
            x = np.rint(x)
        return np.clip(x, self.low, self.high).astype(self.dtype, copy=False)

    @property
    def even(self) -> bool:
        """Whether every unit coordinate stands for a value of its own."""
        return not (self.whole or self.fixed)

    def snap(self, u: np.ndarray) -> np.ndarray:
        return self._unit(self.from_unit(u))[:, None]

    def _unit(self, x: np.ndarray) -> np.ndarray:
        """Return unit coordinates (n,) of valid values (n,)."""
        if self.fixed:
            return np.full(x.shape, 0.5)
        first, last = self._ends
        if not self.log:
            return (x - first) / (last - first)
        place = np.log(x)
        if self.whole:
            # the center of a cell on the log scale, not the value's own place
            place = 0.5 * (np.log(x - 0.5) + np.log(x + 0.5))
        return (place - np.log(first)) / (np.log(last) - np.log(first))


class _Levels:
    """One of a list of levels, without an order."""

    dtype = np.dtype(object)

    def __init__(self, levels: list[Any], *, label: str) -> None:
        if not levels:
            raise ValueError(f"The list of {label} is empty. Give at least one level.")
        self.label = label
        self.levels = np.empty(len(levels), dtype=object)
        for i, level in enumerate(levels):
            self.levels[i] = level
        self.fixed = len(levels) == 1
        self.width = 1 if len(levels) <= 2 else len(levels)
        self._index: dict[Any, int] = {}
        for i, level in reversed(list(enumerate(levels))):
            try:
                # 1, 1.0 and True are equal but different levels
                self._index[type(level), level] = i
            except TypeError:
                pass  # unhashable: found by comparison

    def to_unit(self, values: Any) -> np.ndarray:
        index = np.fromiter((self._find(v) for v in values), np.intp, len(values))
        return self._unit(index)

    def from_unit(self, u: np.ndarray) -> np.ndarray:
        return self.levels[self._chosen(u)]

    def snap(self, u: np.ndarray) -> np.ndarray:
        return self._unit(self._chosen(u))

    def _chosen(self, u: np.ndarray) -> np.ndarray:
        if self.width > 1:
            return np.argmax(u, axis=1)
        return np.where(u[:, 0] < 0.5, 0, len(self.levels) - 1)

    def _unit(self, index: np.ndarray) -> np.ndarray:
        if self.width > 1:
            # the centroid of the cell in which this coordinate is the largest; a corner
            # of the cube would be out of reach of the others in a trust region
            rest = 0.5 * self.width / (self.width + 1.0)
            return rest + rest * np.eye(self.width)[index]
        return (index[:, None] + 0.5) / len(self.levels)

    def _find(self, value: Any) -> int:
        try:
            found = self._index.get((type(value), value))
        except TypeError:
            found = None
        if found is not None:
            return found
        for same in (_identical, _equal):
            for i, level in enumerate(self.levels):
                if same(level, value):
                    return i
        raise ValueError(
            f"{value!r} is not a level of {self.label}. "
            f"Use one of {self.levels.tolist()}."
        )


class _Distribution:
    """Quantiles of a distribution, continuous or discrete."""

    width = 1

    def __init__(self, distribution: Any, *, label: str) -> None:
        self.label = label
        self.distribution = distribution
        self.discrete = hasattr(distribution, "pmf")
        ends = np.asarray(distribution.ppf([0.0, 1.0]), dtype=np.float64)
        cut = self.discrete | ~np.isfinite(ends)
        self._limits = np.where(cut, [_TAIL, 1.0 - _TAIL], [0.0, 1.0])
        probe = np.asarray(distribution.ppf([*self._limits, 0.5]), dtype=np.float64)
        if not np.isfinite(probe).all():
            raise ValueError(
                f"The distribution of {label} has the quantiles {probe.tolist()}. "
                "Check its parameters: they have to be finite."
            )
        self.low, self.high = probe[:2]
        self.fixed = bool(self.low == self.high)
        atoms = getattr(distribution, "xk", probe)
        whole = self.discrete and np.array_equal(atoms, np.rint(atoms))
        self.dtype = np.int64 if whole else np.float64

    def to_unit(self, values: Any) -> np.ndarray:
        x = _numbers(values, self.label)
        if self.discrete:
            inside = self.distribution.pmf(x) > 0
        else:
            # not self.low: values beyond the cut are legal and move to it
            lower, upper = self.distribution.ppf([0.0, 1.0])
            inside = (x >= lower) & (x <= upper)
        if not inside.all():
            raise ValueError(
                f"{_first(values, ~inside)} is outside the support of {self.label}. "
                "Move the point inside."
            )
        return self._unit(x)[:, None]

    def from_unit(self, u: np.ndarray) -> np.ndarray:
        x = self.distribution.ppf(np.clip(u[:, 0], *self._limits))
        return np.asarray(x).astype(self.dtype, copy=False)

    def snap(self, u: np.ndarray) -> np.ndarray:
        if self.discrete or self.fixed:
            return self._unit(self.from_unit(u))[:, None]
        return np.clip(u, *self._limits)

    def _unit(self, x: np.ndarray) -> np.ndarray:
        if self.fixed:
            return np.full(x.shape, 0.5)
        place = self.distribution.cdf(x)
        if self.discrete:
            place = place - 0.5 * self.distribution.pmf(x)
        return np.clip(place, *self._limits)


def _dimension(value: Any, label: str) -> _Range | _Levels | _Distribution:
    """Return the dimension that a user's value describes."""
    if isinstance(value, list):
        return _Levels(value, label=label)
    if hasattr(value, "ppf") and hasattr(value, "cdf"):
        return _Distribution(value, label=label)
    if (
        isinstance(value, tuple)
        and len(value) in (2, 3)
        and all(_is_number(end) for end in value[:2])
    ):
        scale = value[2] if len(value) == 3 else None
        if scale not in (None, "log-uniform"):
            raise ValueError(
                f"The scale of {label} is {scale!r}. "
                'Use "log-uniform", or leave it out for a linear one.'
            )
        return _Range(*value[:2], log=scale is not None, label=label)
    raise TypeError(
        f"{value!r} of type {type(value).__name__} is no dimension for {label}. Use "
        '(low, high) or (low, high, "log-uniform") with numbers, a list of levels, or '
        "a distribution with ppf and cdf."
    )


def _is_plain(dimension: Any) -> bool:
    """Whether a dimension is a real range on a linear scale."""
    return isinstance(dimension, _Range) and dimension.even and not dimension.log


def _is_matrix(points: Any, n_columns: int) -> bool:
    return (
        isinstance(points, np.ndarray)
        and points.dtype == np.float64
        and points.ndim == 2
        and points.shape[1] == n_columns
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def _numbers(values: Any, label: str) -> np.ndarray:
    """Return values as float64 (n,), refusing text and booleans."""
    x = np.asarray(values)
    if x.dtype.kind == "O" and all(map(_is_number, values)):
        x = x.astype(np.float64)
    if x.ndim != 1 or (x.dtype.kind not in "iuf" and x.size):
        raise ValueError(
            f"Values of {label} are not numbers: {list(values)!r:.80}. "
            "Use ints or floats."
        )
    return x.astype(np.float64, copy=False)


def _first(values: Any, wrong: np.ndarray) -> Any:
    """Return the first wrong value, as the user gave it."""
    return values[int(np.argmax(wrong))]


def _identical(level: Any, value: Any) -> bool:
    return level is value


def _equal(level: Any, value: Any) -> bool:
    if isinstance(level, np.ndarray) or isinstance(value, np.ndarray):
        return np.array_equal(level, value)
    return bool(level == value)
