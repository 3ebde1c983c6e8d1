"""Rows that are appended to, without copying what is there at each append."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from skicml_accel._namespaces import array_kind, namespace_of
from skicml_accel._types import Array


class GrowingRows:
    """An array whose first axis grows; room for the next rows is kept ready.

    Appending m rows to n costs O(m) on average. Sparse matrices are stacked instead,
    at O(n + m).

    Parameters
    ----------
    rows : array of shape (n, ...)
        First rows; copied, so that the caller's array is never written to.
    """

    def __init__(self, rows: Array) -> None:
        self._size = 0
        self._store: Array = None
        self.append(rows)

    def append(self, rows: Array) -> None:
        """Add rows of the same library, device, dtype and trailing shape.

        Parameters
        ----------
        rows : array of shape (m, ...)
        """
        if array_kind(rows) == "scipy.sparse":
            import scipy.sparse

            known = [] if self._store is None else [self._store]
            self._store = scipy.sparse.vstack([*known, rows], format="csr")
            self._size = self._store.shape[0]
            return
        size = self._size + rows.shape[0]
        if self._store is None:
            # most arrays never grow: the first rows get just what they need
            self._store = namespace_of(rows).asarray(rows, copy=True)
        else:
            if size > self._store.shape[0]:
                self._reserve(max(size, 2 * self._store.shape[0]))
            self._store[self._size : size, ...] = rows
        self._size = size

    def _reserve(self, room: int) -> None:
        xp, old = namespace_of(self._store), self.rows
        shape = (room, *old.shape[1:])
        self._store = xp.empty(shape, dtype=old.dtype, device=old.device)
        self._store[: self._size, ...] = old

    def fork(self) -> GrowingRows:
        """Share the rows so far with a copy that grows on its own.

        The copy may use the room that was kept ready, so only the one or the other
        may be appended to while both are in use.
        """
        return copy.copy(self)

    def map_arrays(self, change: Callable[[Array], Array]) -> GrowingRows:
        """Copy with the rows changed, as by a move to a device."""
        return GrowingRows(change(self.rows))

    @property
    def rows(self) -> Array:
        """The rows so far, a view of shape (n, ...)."""
        if self._size == self._store.shape[0]:
            return self._store
        return self._store[: self._size, ...]

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._size

    def __getstate__(self) -> dict[str, Any]:
        """Leave the spare room out of pickles."""
        store = self.rows
        if self._size < self._store.shape[0]:
            # a tensor's view would drag its whole storage along
            store = namespace_of(store).asarray(store, copy=True)
        return {"_size": self._size, "_store": store}
