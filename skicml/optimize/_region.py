"""What one trust region knows: its observations, its model and its center."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skicml.base import to_device, to_host
from skicml.base._growing import GrowingRows
from skicml.neighbors import ENNRegressor
from skicml.neighbors._enn import extended
from skicml.optimize._space import Space
from skicml.optimize._trust_region import TrustRegion

#: An improvement must exceed this part of the range of the values seen before.
IMPROVEMENT = 1e-3

#: Values are cut here for the model.
LARGEST = 1e150


class ObservationLog:
    """Every value told, in order, at points of the unit cube.

    Parameters
    ----------
    n_dims : int
        Coordinates of the unit cube.
    """

    def __init__(self, n_dims: int) -> None:
        self._rows = {
            "unit": GrowingRows(np.empty((0, n_dims))),
            "y": GrowingRows(np.empty(0)),
            "failed": GrowingRows(np.empty(0, dtype=bool)),
            "length": GrowingRows(np.empty(0)),
        }
        self._keys: set[bytes] = set()
        self._n_keys = 0

    def append(
        self,
        unit: np.ndarray,
        y: np.ndarray,
        failed: np.ndarray,
        length: np.ndarray,
        y_var: np.ndarray | None,
    ) -> None:
        """Add rows; the value of a failed evaluation is not looked at."""
        new = {"unit": unit, "y": np.where(failed, 0.0, y), "failed": failed}
        new["length"] = length
        if y_var is not None:
            new["y_var"] = y_var
            self._rows.setdefault("y_var", GrowingRows(np.empty(0)))
        for name, rows in new.items():
            self._rows[name].append(rows)

    def __len__(self) -> int:
        """Return the number of values told."""
        return len(self._rows["y"])

    @property
    def unit(self) -> np.ndarray:
        """Points, of shape (n, n_dims)."""
        return self._rows["unit"].rows

    @property
    def failed(self) -> np.ndarray:
        """Whether each evaluation failed."""
        return self._rows["failed"].rows

    @property
    def length(self) -> np.ndarray:
        """Side of the trust region when each value was told."""
        return self._rows["length"].rows

    @property
    def y_var(self) -> np.ndarray | None:
        """Variance of the noise of each value, None if it was never given."""
        return self._rows["y_var"].rows if "y_var" in self._rows else None

    def values(self) -> np.ndarray:
        """Values, failures as the worst of the others (0 if there are no others)."""
        y, failed = self._rows["y"].rows, self.failed
        if not failed.any() or failed.all():
            return y.copy()
        return np.where(failed, y[~failed].min(), y)

    def keys(self) -> set[bytes]:
        """Bytes of every point told, to recognize it by."""
        for row in self.unit[self._n_keys :]:
            self._keys.add(row.tobytes())
        self._n_keys = len(self)
        return self._keys


class ToldPoints:
    """Points as they were told: the unit cube would round them."""

    def __init__(self, space: Space) -> None:
        empty = space.from_unit(np.empty((0, space.n_dims)))
        self._named = space.names is not None
        self._dtype = None if self._named else empty.dtype
        self._store: Any = [] if self._named else GrowingRows(empty)

    def append(self, points: Any) -> None:
        """Add points, arrays or dicts as the space has them."""
        if self._named:
            self._store.extend(map(dict, points))
            return
        rows = np.empty((len(points), *self._store.rows.shape[1:]), self._dtype)
        if isinstance(points, np.ndarray):
            rows[:] = points
        else:
            # row by row: NumPy would turn a list of mixed rows into text
            for row, point in zip(rows, points, strict=True):
                row[:] = point
        self._store.append(rows)

    @property
    def rows(self) -> Any:
        """All points: an array of shape (n, n_params), or a list of dict."""
        return self._store if self._named else self._store.rows


@dataclass
class Region:
    """A trust region with its model.

    Parameters
    ----------
    trust : TrustRegion
        Its size and counters.
    noisy : bool
        Whether predicted means are compared rather than values.
    n_neighbors : int
        Neighbors of the model.
    device : str or None
        Where the model computes.
    """

    trust: TrustRegion
    noisy: bool
    n_neighbors: int
    device: str | None
    #: Points of the Latin hypercube not yet asked for.
    design: list[np.ndarray] = field(default_factory=list)
    #: Rows of the log told since the last proposal.
    fresh: list[int] = field(default_factory=list)
    #: Best point, None until something is known.
    center: np.ndarray | None = None

    def __post_init__(self) -> None:
        self._fresh_trust = replace(self.trust)
        self.restart([])

    def restart(self, design: list[np.ndarray]) -> None:
        """Forget all observations and begin with a design."""
        self.trust = replace(self._fresh_trust)
        self.design = design
        self.center = None
        self._model: Model | None = None
        self._n_design = len(design)
        self._best = -np.inf
        #: Rows of the log that the model holds.
        self._known = np.empty(0, dtype=np.int64)
        self._half_learned = False

    def learn(self, log: ObservationLog, rng: np.random.Generator) -> None:
        """Take in what was told since the last proposal, as one round."""
        if not self.fresh or log.failed.all():
            return
        values, variance = log.values(), log.y_var
        started, old = len(self._known) >= self._n_design > 0, self.center
        spread = np.ptp(values[self._known]) if len(self._known) else 0.0
        fresh = np.array(self.fresh)
        known, rows = np.concatenate((self._known, fresh)), fresh
        if self._half_learned:
            # an interrupt may have left the model with a part of the rows
            self._model, rows = None, known
        self._half_learned = True
        if self._model is None:
            self._model = Model(self.n_neighbors, self.noisy, self.device, rng)
        model = self._model
        model.add(
            log.unit[rows], values[rows], None if variance is None else variance[rows]
        )
        self._known, self.fresh = known, []
        # points told from elsewhere stand in for those of the design
        del self.design[max(0, self._n_design - len(self._known)) :]
        row, value, again = model.incumbent(old)
        self.center = model.point(row)
        if started:
            # noise may have flattered the old incumbent: ask the model again
            best = again if self.noisy else self._best
            self.trust.update(value > best + IMPROVEMENT * spread, len(fresh))
        self._best = max(self._best, value)
        self._half_learned = False

    def predict(
        self, unit: np.ndarray, pending: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and epistemic standard deviation; zeros while nothing is known."""
        if self._model is None:
            return np.zeros(len(unit)), np.zeros(len(unit))
        return self._model.predict(unit, pending)

    def draw(self, unit: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Values of n functions, of shape (len(unit), n)."""
        if self._model is None:
            return rng.random((len(unit), n))
        return self._model.draw(unit, n)


class Model:
    """The nearest-neighbor model of one set of observations.

    Parameters
    ----------
    n_neighbors : int
        Neighbors, as soon as there are so many observations.
    noisy : bool
        Exact values need no fit: any scale ranks candidates the same.
    device : str or None
        Where to compute.
    rng : numpy.random.Generator
        Draws the rows that each fit holds out.
    """

    def __init__(
        self,
        n_neighbors: int,
        noisy: bool,
        device: str | None,
        rng: np.random.Generator,
    ) -> None:
        fixed = {} if noisy else {"epistemic_scale": 1.0, "aleatoric_variance": 0.0}
        self._enn = ENNRegressor(warm_start=True, random_state=rng, **fixed)
        self._n_neighbors = n_neighbors
        self._noisy = noisy
        self._device = device
        self._rng = rng
        self.n_rows = 0

    @property
    def y(self) -> np.ndarray:
        """Values known, of shape (n_rows,)."""
        return to_host(self._enn.y_train_)

    def add(self, unit: np.ndarray, y: np.ndarray, y_var: np.ndarray | None) -> None:
        """Add observations and fit the scales again."""
        self.n_rows += len(y)
        # a penalty such as -1e200 shall be bad, not beyond what can be squared
        y = np.clip(y, -LARGEST, LARGEST)
        self._enn.n_neighbors = min(self._n_neighbors, self.n_rows)
        self._enn.partial_fit(to_device(unit, self._device), y, y_var=y_var)

    def incumbent(self, old: np.ndarray | None = None) -> tuple[int, float, float]:
        """Find the best observation known.

        Parameters
        ----------
        old : ndarray of shape (n_dims,) or None, default=None
            A point to predict once more, at no further search of the data.

        Returns
        -------
        row : int
            That of the largest value; where values are noisy, that of the largest
            predicted mean among the ``n_neighbors`` rows of the largest values.
        value : float
            Its value, or its predicted mean.
        again : float
            Predicted mean at ``old`` where values are noisy, else nan.
        """
        y, again = self.y, np.nan
        if self._noisy:
            count = min(self._n_neighbors, y.size)
            top = np.argpartition(-y, count - 1)[:count]
            points = to_host(self._enn.X_train_[top, :])
            if old is not None:
                points = np.concatenate((points, old[None]))
            value = to_host(self._enn.predict(to_device(points, self._device)))
            value, again = value[:count], value[-1]
        else:
            top = np.flatnonzero(y == y.max())
            value = y[top]
        best = np.flatnonzero(value == value.max())
        row = best[self._rng.integers(best.size)] if best.size > 1 else best[0]
        return int(top[row]), float(value[row]), float(again)

    def point(self, row: int) -> np.ndarray:
        """Point of one observation, of shape (n_dims,)."""
        return np.array(to_host(self._enn.X_train_[row, :]))

    def predict(
        self, unit: np.ndarray, pending: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and epistemic standard deviation, pending points taken as seen."""
        enn = self._enn
        if pending is not None:
            rows = to_device(pending, self._device)
            enn = extended(enn, rows, enn.predict(rows))
        mean, std = enn.predict(
            to_device(unit, self._device), return_std=True, include_noise=False
        )
        return to_host(mean), to_host(std)

    def draw(self, unit: np.ndarray, n: int) -> np.ndarray:
        """Values of n functions drawn from the model, of shape (len(unit), n)."""
        rows = to_device(unit, self._device)
        return to_host(self._enn.sample_y(rows, n_samples=n, random_state=self._rng))
