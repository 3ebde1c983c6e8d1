"""The rows that a nearest-neighbor estimator has learned, with targets and weights."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
from sklearn.utils.sparsefuncs import mean_variance_axis

from skicml.base import to_host
from skicml.base._growing import GrowingRows
from skicml_accel._namespaces import array_kind, namespace_of
from skicml_accel._types import Array


class TrainingRows:
    """Rows, targets and optional weights and variances that grow together.

    Parameters
    ----------
    X : array or CSR of shape (n, d)
        Rows.
    y : array of shape (n,) or (n, t)
        Targets.
    weight : array of shape (n,) or None
        Positive; None counts every row once.
    y_var : array with the shape of y or None
        Variance of the noise of each target.
    """

    def __init__(
        self, X: Array, y: Array, weight: Array | None, y_var: Array | None
    ) -> None:
        self._X = GrowingRows(X)
        self._y = GrowingRows(y)
        self._weight = None if weight is None else GrowingRows(weight)
        self._y_var = None if y_var is None else GrowingRows(y_var)

    def append(
        self, X: Array, y: Array, weight: Array | None, y_var: Array | None
    ) -> None:
        """Add rows of the same kind; rows without a weight count once."""
        if (y_var is None) != (self._y_var is None):
            raise ValueError(
                "ENNRegressor.partial_fit: y_var must be given in every call or in "
                "none. Give zeros for targets that are exact."
            )
        if weight is not None and self._weight is None:
            self._weight = GrowingRows(_ones(len(self), y))
        if weight is None and self._weight is not None:
            weight = _ones(y.shape[0], y)
        for store, rows in (
            (self._X, X),
            (self._y, y),
            (self._weight, weight),
            (self._y_var, y_var),
        ):
            if store is not None:
                store.append(rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._y)

    @property
    def X(self) -> Array:
        """Rows, of shape (n, d)."""
        return self._X.rows

    @property
    def y(self) -> Array:
        """Targets as they were given, of shape (n,) or (n, t)."""
        return self._y.rows

    @property
    def y_table(self) -> Array:
        """Targets as a matrix of shape (n, t)."""
        return as_table(self._y.rows)

    @property
    def y_var_table(self) -> Array | None:
        """Variances as a matrix of shape (n, t), None if there are none."""
        return None if self._y_var is None else as_table(self._y_var.rows)

    @property
    def weight(self) -> Array | None:
        """Weights of shape (n,) where the rows are, None where all count once."""
        return None if self._weight is None else self._weight.rows

    @property
    def host_weight(self) -> np.ndarray | None:
        """Weights as float64 on the host."""
        return None if self._weight is None else to_host(self.weight).astype(float)

    def fork(self) -> TrainingRows:
        """Share the rows with a copy that grows on its own, see GrowingRows.fork."""
        forked = copy.copy(self)
        for name, store in vars(self).items():
            setattr(forked, name, None if store is None else store.fork())
        return forked

    def map_arrays(self, change: Callable[[Array], Array]) -> TrainingRows:
        """Copy with every array changed, as by a move to a device."""
        changed = copy.copy(self)
        for name, store in vars(self).items():
            setattr(changed, name, None if store is None else store.map_arrays(change))
        return changed


def as_table(rows: Array) -> Array:
    """One output becomes a matrix of one column."""
    return rows[:, None] if rows.ndim == 1 else rows


def take_rows(rows: Array, index: Array) -> Array:
    """Rows at a 1-D or 2-D index, as an array with the index's shape in front."""
    if array_kind(rows) == "scipy.sparse":
        return rows[index]
    xp = namespace_of(rows)
    taken = xp.take(rows, xp.reshape(index, (-1,)), axis=0)
    return xp.reshape(taken, (*index.shape, *rows.shape[1:]))


def check_magnitude(X: Array) -> None:
    """Refuse values whose squared distances would not be finite."""
    values = X.data if array_kind(X) == "scipy.sparse" else X
    xp = namespace_of(values)
    if 0 in values.shape:
        return
    largest = float(xp.max(xp.abs(values)))
    limit = (float(xp.finfo(values.dtype).max) / (8 * X.shape[1])) ** 0.5
    if largest > limit:
        raise ValueError(
            f"ENNRegressor: X holds values as large as {largest:.3g}, whose squared "
            f"distances overflow {values.dtype}. Scale X, for example with "
            "sklearn.preprocessing.StandardScaler."
        )


def check_target_magnitude(y: Array) -> None:
    """Refuse targets whose variance would not be finite."""
    xp = namespace_of(y)
    largest = float(xp.max(xp.abs(y)))
    # room for the square of each, and for their sum
    limit = float(xp.finfo(y.dtype).max) ** 0.5 * 1e-4
    if largest > limit:
        raise ValueError(
            f"ENNRegressor: y holds values as large as {largest:.3g}, whose squares "
            f"overflow {y.dtype}. Scale y, for example with "
            "sklearn.compose.TransformedTargetRegressor."
        )


def check_y_var(y_var: Array, y: Array) -> None:
    """Refuse variances of another shape, below zero or not finite."""
    shape = tuple(y_var.shape)
    if shape != tuple(y.shape):
        got = f"shape {shape}, while y has {tuple(y.shape)}"
    else:
        xp = namespace_of(y_var)
        bad = ~((y_var >= 0) & xp.isfinite(y_var))
        if not bool(xp.any(bad)):
            return
        got = f"the value {float(y_var[bad][0])}"
    raise ValueError(
        f"y_var must be non-negative with the shape of y, got {got}. "
        "Give the variance of each target, in squared units of y."
    )


def column_scale(X: Array, weight: Array | None) -> np.ndarray:
    """Weighted standard deviation of each column on the host, 1 where it vanishes."""
    if array_kind(X) == "scipy.sparse":
        _, variance = mean_variance_axis(X, axis=0, weights=weight)
    elif weight is None:
        variance = to_host(namespace_of(X).var(X, axis=0))
    else:
        xp = namespace_of(X)
        share = weight[:, None] / xp.sum(weight)
        mean = xp.sum(X * share, axis=0)
        variance = to_host(xp.sum((X - mean) ** 2 * share, axis=0))
    scale = np.sqrt(variance.astype(float))
    return np.where(scale > 0, scale, 1.0)


def target_spread(y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Weighted standard deviation of each output, 1 where it vanishes."""
    y = y.astype(float)
    mean = np.average(y, axis=0, weights=weight)
    spread = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weight))
    # rounding leaves a constant y a spread of a few units in the last place
    constant = np.all(y == y[:1], axis=0)
    return np.where((spread > 0) & np.isfinite(spread) & ~constant, spread, 1.0)


def _ones(n: int, like: Array) -> Array:
    return namespace_of(like).ones(n, dtype=like.dtype, device=like.device)
