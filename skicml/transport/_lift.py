r"""A space as points of a Hilbert space: c(x, x') = |phi(x) - phi(x')|^2.

A cost of conditionally negative type has such a lift (Schoenberg, 1938): kernel PCA of
:math:`K = -\tfrac12 J C J^\top` with :math:`J = I - 1 a^\top`. Its leading axes come
from a randomized subspace iteration that multiplies by C block by block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from skicml.base._sklearn_compat import widest_float
from skicml.transport._costs import Cost
from skicml_accel._namespaces import array_kind, dtype_name, namespace_of
from skicml_accel._types import Array

#: Passes of the subspace iteration before the last one, and columns beyond those
#: asked for, which speed its convergence.
PASSES = 4
SPARE = 10
#: Eigenvalues below this share of the largest are noise.
SMALLEST = 1e-6
#: Up to here all eigenvectors are computed at once; beyond LARGEST_MATRIX the matrix
#: of costs is never stored.
SMALL = 300
LARGEST_MATRIX = 2000


@dataclass
class Lift:
    """Coordinates of the rows of a space whose squared distances are its costs.

    Parameters
    ----------
    cost : Cost
        The cost.
    rows : array of shape (n, d)
        The space; for a precomputed cost its matrix.
    weights : array of shape (n,)
        Sum to one.
    embedding : array of shape (n, D)
        Centered coordinates in the dtype of the rows; the leading axes.
    signs : array of shape (D,)
        1, or -1 for the axes of an indefinite cost that are subtracted.
    diagonal : array of shape (n,)
        Squared distance to the center.
    eigenvalues : array of shape (D,)
        Weighted second moments of the axes, decreasing in size.
    mean_square : float
        Mean of the squared costs.
    defect : float
        Share of negative eigenvalues; 0 for a cost of conditionally negative type.
    to_axes : array of shape (n or d, D)
        Makes coordinates of other rows.
    shift : array of shape (D,)
        Subtracted from them.
    exact : bool
        Whether ``diagonal`` is that of all axes rather than of those kept.
    spread : float
        Mean squared distance to the center on all axes.
    """

    cost: Cost
    rows: Array
    weights: Array
    embedding: Array
    signs: Array
    diagonal: Array
    eigenvalues: Array
    mean_square: float
    defect: float
    to_axes: Array
    shift: Array
    exact: bool
    spread: float

    def embed(self, X: Array) -> tuple[Array, Array]:
        """Coordinates (m, D) and squared distances to the center (m,) of rows.

        The same formula as for the rows of the space itself.
        """
        xp = namespace_of(self.weights)
        if _is_linear(self.cost, X):
            centered = X - self.shift
            U = centered @ self.to_axes
            diagonal = xp.sum(centered * centered, axis=1)
        else:
            V = xp.concat([self.to_axes, self.weights[:, None]], axis=1)
            C = X if self.cost.name == "precomputed" else None
            product = self.cost.matvec(X, self.rows, V)[0] if C is None else C @ V
            U = self.shift - product[:, :-1] / 2
            # half of the mean cost is that of the center to itself
            diagonal = product[:, -1] - self.spread
        if not self.exact:
            diagonal = (U * U) @ self.signs
        return U, diagonal

    def map_arrays(self, move: Callable[[Array], Array]) -> Lift:
        """Apply a function to every array."""
        arrays = {
            f.name: move(getattr(self, f.name))
            for f in fields(self)
            if f.type == "Array"
        }
        return replace(self, **arrays)

    @property
    def explained(self) -> float:
        """Share of the mean squared distance to the center on the axes kept."""
        xp = namespace_of(self.weights)
        kept = float(xp.sum(self.eigenvalues * self.signs))
        return 1.0 if self.spread <= 0 else min(1.0, kept / self.spread)


def lift(
    cost: Cost,
    X: Array,
    a: Array,
    n_components: int | None,
    *,
    diagonal: str = "exact",
    dtype: str = "float64",
    rng: np.random.Generator | None = None,
) -> Lift:
    """Lift a space.

    Parameters
    ----------
    cost : Cost
        The cost.
    X : array of shape (n, d)
        Rows, or the matrix of a precomputed cost.
    a : array of shape (n,)
        Weights that sum to one.
    n_components : int or None
        Axes to keep; None keeps all, those of negative eigenvalues included.
    diagonal : {"exact", "truncated"}, default="exact"
        Whether distances to the center are those of all axes or of those kept.
    dtype : {"float32", "float64"}, default="float64"
        Precision of the passes that only find the subspace.
    rng : Generator or None, default=None
        Draws the start of the iteration.

    Returns
    -------
    Lift
        At most ``n_components`` axes, fewer if the others carry nothing.
    """
    if _is_linear(cost, X):
        found = _principal_axes(cost, X, a, n_components)
    elif n_components is None or _is_small(X.shape[0], n_components):
        found = _all_axes(cost, X, a, n_components)
    else:
        found = _leading_axes(cost, X, a, n_components, dtype, rng)
    return found if diagonal == "exact" else _truncated(found)


def _is_linear(cost: Cost, X: Array) -> bool:
    """Whether rows are their own lift, which sparse ones do not stay when centered."""
    return cost.name == "sqeuclidean" and array_kind(X) != "scipy.sparse"


def _cast(X: Array, dtype: Any) -> Array:
    """Cast rows, dense or sparse."""
    if array_kind(X) == "scipy.sparse":
        return X.astype(dtype, copy=False)
    return namespace_of(X).astype(X, dtype)


def _is_small(n: int, n_components: int) -> bool:
    return n <= SMALL or (n <= LARGEST_MATRIX and n_components >= n // 4)


def _principal_axes(cost: Cost, X: Array, a: Array, n_components: int | None) -> Lift:
    """Squared Euclidean: the space is its own lift, and PCA orders its axes."""
    xp = namespace_of(X)
    center = a @ X
    centered = X - center
    covariance = centered.T @ (a[:, None] * centered)
    eigenvalues, axes = xp.linalg.eigh(covariance)
    eigenvalues, axes = _kept(xp, eigenvalues, axes, n_components)
    diagonal = xp.sum(centered * centered, axis=1)
    spread = float(a @ diagonal)
    # of |x|^2 - 2 x y + |y|^2, whose cross terms vanish for centered rows
    mean_square = (
        2 * float(a @ (diagonal * diagonal))
        + 2 * spread**2
        + 4 * float(xp.sum(covariance * covariance))
    )
    return Lift(
        cost,
        X,
        a,
        centered @ axes,
        xp.ones_like(eigenvalues),
        diagonal,
        eigenvalues,
        mean_square,
        0.0,
        axes,
        center,
        True,
        spread,
    )


def _all_axes(cost: Cost, X: Array, a: Array, n_components: int | None) -> Lift:
    """Every axis of a small space by a dense eigendecomposition.

    In double precision where there is any: that of the rows would leave it to rounding
    whether an axis without extent is one.
    """
    xp, dtype = namespace_of(a), X.dtype
    wide = widest_float(xp, getattr(a, "device", None))
    rows, weights, X, a = X, a, _cast(X, wide), xp.astype(a, wide)
    C = X if cost.name == "precomputed" else cost.block(X, X)
    root = xp.sqrt(a)
    row_mean = C @ a
    half = float(a @ row_mean) / 2
    K = (row_mean[:, None] + row_mean[None, :] - C) / 2 - half
    eigenvalues, V = xp.linalg.eigh(root[:, None] * K * root[None, :])
    total = float(xp.sum(xp.abs(eigenvalues)))
    negative = xp.where(eigenvalues < 0, -eigenvalues, xp.zeros_like(eigenvalues))
    defect = float(xp.sum(negative)) / total if total > 0 else 0.0
    eigenvalues, V = _kept(xp, eigenvalues, V, n_components)
    signs = xp.sign(eigenvalues)
    eigenvalues = xp.abs(eigenvalues)
    # K W L^(1/2) = A^(-1/2) V L holds for weights of zero too
    W = root[:, None] * V / xp.sqrt(eigenvalues) * signs
    arrays = (W, C @ W, row_mean, (C * C) @ a, eigenvalues, signs)
    found = (xp.astype(array, dtype) for array in arrays)
    return _nystrom(cost, rows, weights, *found, defect=defect)


def _leading_axes(
    cost: Cost,
    X: Array,
    a: Array,
    n_components: int,
    dtype: str,
    rng: np.random.Generator | None,
) -> Lift:
    """Randomized subspace iteration; the matrix of costs is never stored."""
    xp = namespace_of(a)
    rng = np.random.default_rng(0) if rng is None else rng
    n = X.shape[0]
    size = min(n, n_components + SPARE)
    start = rng.standard_normal((n, size))
    fast = getattr(xp, dtype) if dtype_name(X) == "float64" else X.dtype
    rows, weights = _cast(X, fast), xp.astype(a, fast)
    root = xp.sqrt(weights)[:, None]
    Q = xp.asarray(start, dtype=fast, device=a.device)
    for _ in range(PASSES):
        Q = xp.linalg.qr(root * Q, mode="reduced")[0]
        V = root * Q
        V = V - weights[:, None] * xp.sum(V, axis=0)
        product = (
            rows @ V if cost.name == "precomputed" else cost.matvec(rows, rows, V)[0]
        )
        Q = (weights @ product - product) / 2
    root = xp.sqrt(a)[:, None]
    # twice is enough: the second pass removes the rounding of single precision
    Q = xp.linalg.qr(root * xp.astype(Q, X.dtype), mode="reduced")[0]
    Q = xp.linalg.qr(Q, mode="reduced")[0]
    V = root * Q
    V = V - a[:, None] * xp.sum(V, axis=0)
    V = xp.concat([V, a[:, None]], axis=1)
    if cost.name == "precomputed":
        product, squared = X @ V, (X * X) @ a
    else:
        product, squared = cost.matvec(X, X, V, a)
    row_mean = product[:, -1]
    Y = product[:, :-1]
    Y = (a @ Y - Y) / 2
    T = Q.T @ (root * Y)
    values, R = xp.linalg.eigh((T + T.T) / 2)
    total = float(xp.sum(xp.abs(values)))
    negative = xp.where(values < 0, -values, xp.zeros_like(values))
    defect = float(xp.sum(negative)) / total if total > 0 else 0.0
    values, R = _kept(xp, values, R, size)
    # Nystrom through all positive Ritz vectors: a lower bound of the kernel, of which
    # the leading axes of its own moments are kept
    mix = R / xp.sqrt(values)
    U = Y @ mix
    moments, turn = xp.linalg.eigh(U.T @ (a[:, None] * U))
    moments, turn = _kept(xp, moments, turn, n_components)
    mix = mix @ turn
    W = V[:, :-1] @ mix
    return _nystrom(
        cost,
        X,
        a,
        W,
        product[:, :-1] @ mix,
        row_mean,
        squared,
        moments,
        xp.ones_like(moments),
        defect=defect,
    )


def _nystrom(
    cost: Cost,
    X: Array,
    a: Array,
    W: Array,
    CW: Array,
    row_mean: Array,
    squared: Array,
    eigenvalues: Array,
    signs: Array,
    *,
    defect: float,
) -> Lift:
    """Coordinates k(x, .) W with the columns of W made to sum to zero."""
    spread = float(a @ row_mean) / 2
    total = namespace_of(a).sum(W, axis=0)
    # W' 1 = 0 leaves of the centered kernel -c/2 and a constant
    W = W - a[:, None] * total
    CW = CW - row_mean[:, None] * total
    shift = (a @ CW) / 2
    return Lift(
        cost,
        X,
        a,
        shift - CW / 2,
        signs,
        row_mean - spread,
        eigenvalues,
        float(a @ squared),
        defect,
        W,
        shift,
        True,
        spread,
    )


def _kept(
    xp: Any, eigenvalues: Array, axes: Array, n_components: int | None
) -> tuple[Array, Array]:
    """Keep the largest positive eigenvalues; with None all, largest in size first."""
    size = xp.abs(eigenvalues) if n_components is None else eigenvalues
    order = xp.flip(xp.argsort(size))
    largest = float(size[order[0]])
    if n_components is not None:
        order = order[:n_components]
    smallest = SMALLEST if n_components is not None else 1e-13
    n_kept = int(xp.sum(xp.astype(size[order] > smallest * largest, xp.int64)))
    order = order[: max(1, n_kept)]
    kept = xp.take(eigenvalues, order)
    if largest <= 0:
        # all rows are equal: one axis on which nothing varies
        kept = xp.ones_like(kept)
        return kept, xp.zeros_like(xp.take(axes, order, axis=1))
    return kept, xp.take(axes, order, axis=1)


def _truncated(full: Lift) -> Lift:
    """Take the distances of the axes kept for all there is."""
    U, a = full.embedding, full.weights
    full.diagonal = (U * U) @ full.signs
    moments = U.T @ (a[:, None] * U)
    weight = full.signs[:, None] * full.signs[None, :]
    xp = namespace_of(U)
    spread = float(a @ full.diagonal)
    full.mean_square = (
        2 * float(a @ (full.diagonal * full.diagonal))
        + 2 * spread**2
        + 4 * float(xp.sum(weight * moments * moments))
    )
    full.exact = False
    return full
