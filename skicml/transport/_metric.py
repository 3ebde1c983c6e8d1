"""Distances by the names of scikit-learn, where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from skicml.base import to_host, to_like
from skicml_accel._chunks import row_chunks
from skicml_accel._namespaces import array_kind, dtype_name, namespace_of
from skicml_accel._types import Array
from skicml_accel.transport import cost_block

#: Metrics that are computed where the rows are, without their detour over the host.
KERNELS = {"euclidean", "sqeuclidean", "cityblock"}


@dataclass(frozen=True)
class Metric:
    """A metric of scikit-learn, or a function of two rows.

    Parameters
    ----------
    metric : str or callable
        As in :func:`sklearn.metrics.pairwise_distances`.
    params : dict
        Its keyword arguments.
    """

    metric: str | Callable[..., float]
    params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        needed = {"seuclidean": "V", "mahalanobis": "VI"}.get(str(self.metric))
        if needed is not None and needed not in self.params:
            raise ValueError(
                f"metric={self.metric!r} needs {needed!r} in metric_params, or it would "
                "differ between fitted and new rows. Pass it, or scale the rows."
            )

    def within(self, X: Array) -> Array:
        """Distances between all rows of X (n, d), (n, n)."""
        return self._checked(self._block(X, None), X)

    def between(self, X: Array, Y: Array) -> Array:
        """Distances from rows of X (n, d) to rows of Y (m, d), (n, m)."""
        return self._checked(self._block(X, Y), X)

    def _block(self, X: Array, Y: Array | None) -> Array:
        dense = array_kind(X) != "scipy.sparse" and array_kind(Y) != "scipy.sparse"
        if self.metric in KERNELS and not self.params and dense:
            with np.errstate(over="ignore"):
                return cost_block(X, X if Y is None else Y, cost=self.metric)
        block = pairwise_distances(
            to_host(X),
            None if Y is None else to_host(Y),
            metric=self.metric,
            **self.params,
        )
        return to_like(block, X)

    def _checked(self, block: Array, X: Array) -> Array:
        xp = namespace_of(block)
        if not bool(xp.all(xp.isfinite(block))):
            raise ValueError(
                f"metric={self.metric!r} gives NaN or infinity for some rows in "
                f"{dtype_name(X)}. Remove constant or zero rows, rescale the columns, "
                "or choose another metric."
            )
        return block

    def nearest_mean(self, X: Array, rows: Array, values: Array) -> Array:
        """Values of the nearest row, the mean of several that are equally near.

        Parameters
        ----------
        X : array of shape (k, d)
            Queries.
        rows : array of shape (n, d)
            What is looked through, in blocks: there is no array of shape (k, n).
        values : array of shape (n, v)
            What is averaged.

        Returns
        -------
        array of shape (k, v)
            The means.
        """
        xp = namespace_of(values)
        means = []
        for near in self._nearest(X, rows):
            weight = xp.astype(near, values.dtype)
            means.append(weight @ values / xp.sum(weight, axis=1, keepdims=True))
        return xp.concat(means)

    def nearest_first(self, X: Array, rows: Array) -> Array:
        """Index of the nearest of the rows (n, d), the first of equals, int64 (k,)."""
        found = []
        for near in self._nearest(X, rows):
            xp = namespace_of(near)
            found.append(xp.argmax(xp.astype(near, xp.int64), axis=1))
        return xp.concat(found)

    def _nearest(self, X: Array, rows: Array) -> Iterator[Array]:
        for part in row_chunks(X.shape[0], 24 * rows.shape[0], None):
            distance = self.between(X[part, :], rows)
            xp = namespace_of(distance)
            yield distance == xp.min(distance, axis=1, keepdims=True)
