"""The door through which two spaces enter an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from skicml.base import (
    check_weights,
    check_X,
    is_device_array,
    to_host,
    to_like,
    warn_user,
)
from skicml_accel._namespaces import array_kind, dtype_name, namespace_of
from skicml_accel._types import Array


class _NotGiven:
    """Stands for an argument that the caller left out, where None means something."""

    def __repr__(self) -> str:
        return "<required>"


#: Default of ``y`` in ``fit(X, y)``.
NOT_GIVEN = _NotGiven()

#: Two spaces are centered, hence need two rows each.
MIN_ROWS = 2
#: Rows of the largest sample that is scored.
SCORED_ROWS = 2_000


def _names_of(y: Any) -> np.ndarray | None:
    """Names of columns, if all are text, as scikit-learn has it."""
    names = getattr(y, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, dtype=object)


class IntoTargetMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Name the columns of a transformer that carries rows into its target.

    ``_keep_names(y)`` is called in ``fit``; the estimator has ``_n_features_out``.
    """

    _target_names: np.ndarray | None

    def _keep_names(self, y: Any) -> None:
        self._target_names = _names_of(y)

    def _check_names(self, y: Any) -> None:
        """Raise unless rows of the target have the columns seen in ``fit``."""
        names = _names_of(y)
        seen = self._target_names
        if names is None or seen is None or np.array_equal(names, seen):
            return
        raise ValueError(
            f"y has the columns {list(names)}, but the target seen in fit has "
            f"{list(seen)}. Select these, in this order."
        )

    def get_feature_names_out(self, input_features: None = None) -> np.ndarray:
        """Name the columns that ``transform`` returns.

        Parameters
        ----------
        input_features : None
            Ignored; columns of the source do not name those of the target.

        Returns
        -------
        object array of shape (n_target_features,)
            Columns of y if it was a data frame, else numbered names.
        """
        check_is_fitted(self)
        if self._target_names is not None:
            return self._target_names.copy()
        return super().get_feature_names_out()


def check_spaces(
    estimator: Any, X: Any, y: Any, *, accept_sparse: bool | str = False
) -> tuple[Array, Array]:
    """Validate the rows of the source and of the target given to ``fit``.

    Parameters
    ----------
    estimator : estimator
        The estimator that is fitted; gets ``n_features_in_``.
    X : array-like of shape (n_samples, n_features)
        The source.
    y : array-like of shape (n_targets, n_target_features) or (n_targets,)
        The target; one dimension stands for one feature.
    accept_sparse : bool or str, default=False
        Whether SciPy's sparse matrices are accepted.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        float32 or float64.
    Y : array of shape (n_targets, n_target_features)
        In the library, on the device and in the dtype of ``X``.

    Raises
    ------
    TypeError
        If ``y`` was left out.
    ValueError
        If ``y`` is None, or either is not a finite table of two rows or more.
    """
    who = type(estimator).__name__
    if y is NOT_GIVEN:
        raise TypeError(
            f"{who}.fit needs two spaces: fit(X, Y). Their numbers of rows and columns "
            "may differ."
        )
    if y is None:
        raise ValueError(
            f"This {who} estimator requires y to be passed, but the target y is None."
        )
    X = check_X(estimator, X, accept_sparse=accept_sparse, ensure_min_samples=MIN_ROWS)
    return X, _check_target(estimator, y, X, accept_sparse)


def check_target_rows(
    estimator: Any, y: Any, like: Array, *, accept_sparse: bool | str = False
) -> Array:
    """Validate rows of the target space given to a fitted estimator.

    Parameters
    ----------
    estimator : estimator
        The fitted estimator.
    y : array-like of shape (n_rows, n_target_features) or (n_rows,)
        Rows; one dimension stands for one feature.
    like : array of shape (n_targets, n_target_features)
        The fitted target.
    accept_sparse : bool or str, default=False
        Whether SciPy's sparse matrices are accepted.

    Returns
    -------
    array of shape (n_rows, n_target_features)
        In the library, on the device and in the dtype of ``like``.

    Raises
    ------
    ValueError
        If the columns are not those seen in ``fit``.
    """
    Y = _check_target(estimator, y, like, accept_sparse, min_rows=1)
    if Y.shape[1] != like.shape[1]:
        raise ValueError(
            f"y has {Y.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{like.shape[1]} features as the target seen in fit. Select the same "
            "columns, or refit."
        )
    return Y


def _check_target(
    estimator: Any,
    y: Any,
    like: Array,
    accept_sparse: bool | str,
    min_rows: int = MIN_ROWS,
) -> Array:
    y = _as_table(y)
    probe = _Probe(type(estimator).__name__)
    try:
        Y = check_X(probe, y, accept_sparse=accept_sparse, ensure_min_samples=min_rows)
    except (TypeError, ValueError) as error:
        text = str(error).replace("Input X ", "Input y ").replace("X has ", "y has ")
        raise type(error)(f"In the target y: {text}") from error
    is_sparse = array_kind(Y) == "scipy.sparse"
    if is_sparse and is_device_array(like):
        raise TypeError(
            f"The target y is a sparse matrix, but X is a {array_kind(like)} array. "
            "Pass y.toarray(), or X as NumPy."
        )
    with np.errstate(over="ignore"):
        if is_sparse:
            moved = Y.astype(dtype_name(like), copy=False)
            Y, values = Y.data, moved.data
        else:
            moved = values = to_like(Y, like)
    xp = namespace_of(values)
    # a cast to float32 may overflow
    if dtype_name(Y) != dtype_name(values) and not xp.all(xp.isfinite(values)):
        raise ValueError(
            "In the target y: a value is too large for float32, the dtype of X. "
            "Pass X as float64."
        )
    return moved


def _Probe(name: str) -> Any:
    """Stand-in whose class has the estimator's name, so that messages name it."""
    return type(name, (BaseEstimator,), {})()


def _as_table(y: Any) -> Any:
    """Give a vector a second axis; everything else passes."""
    if not is_device_array(y) and not hasattr(y, "shape"):
        y = np.asarray(y)
    if getattr(y, "ndim", None) == 1:
        if is_device_array(y):
            return namespace_of(y).reshape(y, (-1, 1))
        return y.to_frame() if hasattr(y, "to_frame") else np.asarray(y)[:, None]
    return y


def check_marginal(weights: Any, rows: Array, *, name: str) -> Array:
    """Validate the weights of a space and make them sum to one.

    Parameters
    ----------
    weights : None, number or array-like of shape (n_samples,)
        None means equal weights.
    rows : array of shape (n_samples, n_features)
        The space, validated already.
    name : str
        Name of the parameter, for error messages.

    Returns
    -------
    array of shape (n_samples,)
        Sums to one to the last bits of float64 before it is cast to the dtype of
        ``rows``; in their library and on their device.

    Raises
    ------
    ValueError
        For weights that are not one per row, not finite, negative, or all zero.

    Warns
    -----
    UserWarning
        If the weights given sum to something else than one.
    """
    n = rows.shape[0]
    if weights is None:
        host = np.full(n, 1.0 / n)
    else:
        given = check_weights(weights, np.empty((n, 1)), name=name)
        host = np.asarray(to_host(given), dtype=np.float64)
        total = host.sum()
        if not np.isfinite(total):
            host = host / host.max()
            total = host.sum()
        if abs(total - 1) > 1e-3:
            warn_user(
                f"{name} sums to {total:.6g} and is divided by its sum; pass weights "
                "that sum to 1 to silence this.",
            )
        host = host / total
    return to_like(host, rows)


def sample_rows(rows: Array) -> Array:
    """Choose at most 2,000 rows, evenly spaced.

    Parameters
    ----------
    rows : array of shape (n, ...)
        What is chosen from; dense, or a SciPy matrix.

    Returns
    -------
    int64 array of shape (min(n, 2000),)
        Indices, in the library and on the device of ``rows``.
    """
    n = rows.shape[0]
    index = np.unique(np.linspace(0, n - 1, min(n, SCORED_ROWS)).round().astype(int))
    return to_like(index, rows, cast=False)


def take_rows(rows: Array, index: Array) -> Array:
    """Rows (k, d) of a table (n, d), dense or sparse, by their indices (k,)."""
    if array_kind(rows) == "scipy.sparse":
        return rows[index]
    return namespace_of(rows).take(rows, index, axis=0)


def as_values(rows: Array) -> Array:
    """Dense table of rows that are averaged; sparse ones are filled up."""
    return rows.toarray() if array_kind(rows) == "scipy.sparse" else rows


def check_cost_matrix(
    cost: Array,
    *,
    name: str,
    parameter: str,
    symmetrize: bool = False,
    remedy: str = "Pass (C + C.T) / 2.",
) -> Array:
    """Validate a precomputed cost matrix.

    Parameters
    ----------
    cost : array of shape (n, n)
        Finite numbers, validated already.
    name : {"source", "target"}
        For error messages.
    parameter : str
        Parameter of the estimator that is "precomputed", for error messages.
    symmetrize : bool, default=False
        Return the mean of the matrix and its transpose instead of refusing.
    remedy : str, default="Pass (C + C.T) / 2."
        What to do about an asymmetric matrix, for the error message.

    Returns
    -------
    array of shape (n, n)
        Exactly symmetric.

    Raises
    ------
    ValueError
        If the matrix is not square, or asymmetric by more than 1e-8 of its largest
        entry (1e-5 in float32).
    """
    if cost.shape[0] != cost.shape[1]:
        raise ValueError(
            f"{parameter}='precomputed' needs a square matrix, got shape "
            f"{tuple(cost.shape)} for the {name}. Pass all pairwise costs."
        )
    xp = namespace_of(cost)
    with np.errstate(over="ignore"):
        gap = float(xp.max(xp.abs(cost - cost.T)))
    largest = float(xp.max(xp.abs(cost)))
    bound = (1e-8 if dtype_name(cost) == "float64" else 1e-5) * largest
    if gap > bound and not symmetrize:
        raise ValueError(
            f"The {name} cost is not symmetric (max |C - C'| = {gap:.3g}). {remedy}"
        )
    return cost if gap == 0 else cost / 2 + cost.T / 2
