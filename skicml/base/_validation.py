"""The door through which data enters every estimator.

What NumPy can read (arrays, lists, data frames, SciPy matrices) is validated by
scikit-learn. Arrays of other libraries get the same checks with the same wording
where they are, without a copy to the host.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import array_api_compat
import numpy as np
from sklearn import get_config
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_consistent_length

from skicml.base._device import is_device_array, to_host, to_like
from skicml.base._sklearn_compat import (
    check_sample_weight,
    check_y,
    validate_data,
    widest_float,
)
from skicml_accel._namespaces import array_kind, dtype_name, namespace_of
from skicml_accel._types import Array

HALF = ("float16", "bfloat16")

RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single "
    "feature or array.reshape(1, -1) if it contains a single sample."
)


def check_X(
    estimator: Any,
    X: Any,
    *,
    reset: bool = True,
    accept_sparse: bool | str = False,
    ensure_min_samples: int = 1,
    method: str = "fit",
) -> Array:
    """Validate the rows given to a method of an estimator.

    Sets ``n_features_in_`` and ``feature_names_in_``, or checks against them.

    Parameters
    ----------
    estimator : estimator
        The estimator whose method was called.
    X : array-like of shape (n_samples, n_features)
        The data. Half precision becomes float32; integers and booleans become
        float64, or the widest floating dtype that the device has; tensors are
        detached from their graph.
    reset : bool, default=True
        True in ``fit``, False in the methods of a fitted estimator.
    accept_sparse : bool or str, default=False
        Whether SciPy's sparse matrices are accepted; they become CSR unless a format
        is named.
    ensure_min_samples : int, default=1
        Least number of rows.
    method : str, default="fit"
        Name of the method, for error messages.

    Returns
    -------
    array of shape (n_samples, n_features)
        In the library and on the device of ``X``, float32 or float64. Lists and data
        frames become NumPy arrays. Nothing is copied that need not change.

    Raises
    ------
    TypeError
        For sparse data where dense data is needed.
    ValueError
        For data that is not two-dimensional, not numeric, not finite, too short, or
        unlike the data seen in ``fit``.
    """
    _refuse_device_sparse(X, "X", f"{type(estimator).__name__}.{method}")
    if not is_device_array(X):
        return _check_host(estimator, X, reset, accept_sparse, ensure_min_samples)
    X = _as_floating(_detached(X))
    if X.ndim < 2:
        kind = "scalar array" if X.ndim == 0 else "1D array"
        raise ValueError(
            f"Expected 2D array, got {kind} instead:\narray={X}.\n{RESHAPE}"
        )
    by = f" by {type(estimator).__name__}"
    if X.ndim > 2:
        raise ValueError(
            f"Found array with dim {X.ndim}, while dim <= 2 is required{by}."
        )
    _check_finite(estimator, X, "X")
    for length, least, what in (
        (X.shape[0], ensure_min_samples, "sample(s)"),
        (X.shape[1], 1, "feature(s)"),
    ):
        if length < least:
            raise ValueError(
                f"Found array with {length} {what} (shape={tuple(X.shape)}) while a "
                f"minimum of {least} is required{by}."
            )
    return validate_data(estimator, X=X, reset=reset, skip_check_array=True)


def check_X_y(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    multi_output: bool = False,
    accept_sparse: bool | str = False,
    y_numeric: bool = True,
    reset: bool = True,
    method: str = "fit",
) -> tuple[Array, Array]:
    """Validate the rows and the targets given to ``fit``.

    Parameters
    ----------
    estimator : estimator
        The estimator whose method was called.
    X : array-like of shape (n_samples, n_features)
        The data, as in :func:`check_X`.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        The targets; they may live in another library or on another device than ``X``.
    multi_output : bool, default=False
        Whether ``y`` may be two-dimensional. If not, a single column is flattened
        with a warning.
    accept_sparse : bool or str, default=False
        Whether ``X`` may be sparse.
    y_numeric : bool, default=True
        True moves ``y`` to ``X`` and casts it to the dtype of ``X``; False is for
        labels, which stay as they are, in NumPy.
    reset : bool, default=True
        False where more rows are added to those of an earlier fit.
    method : str, default="fit"
        Name of the method, for error messages.

    Returns
    -------
    X : array of shape (n_samples, n_features)
        The validated data.
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        The validated targets.

    Raises
    ------
    TypeError
        For sparse data where dense data is needed.
    ValueError
        For missing, non-finite or non-numeric targets, for a wrong number of
        dimensions, and for lengths that differ.
    """
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but "
            "the target y is None."
        )
    X = check_X(estimator, X, reset=reset, accept_sparse=accept_sparse, method=method)
    if not reset and y_numeric and _is_plain_target(X, y):
        return X, y
    _refuse_device_sparse(y, "y", f"{type(estimator).__name__}.{method}")
    if is_device_array(y):
        y = _check_device_target(estimator, y, multi_output)
    else:
        y = check_y(y, multi_output=multi_output, estimator=estimator)
        if array_kind(y) == "scipy.sparse":
            raise TypeError(
                "Sparse data was passed for y, but dense targets are required. "
                "Use y.toarray()."
            )
    check_consistent_length(X, y)
    return X, _numeric_target(estimator, y, X) if y_numeric else to_host(y)


def check_weights(
    weights: Any, X: Array, *, name: str = "sample_weight"
) -> Array | None:
    """Validate one weight per row.

    Parameters
    ----------
    weights : None, number or array-like of shape (n_samples,)
        The weights; a number stands for every row.
    X : array of shape (n_samples, n_features)
        The rows, validated already.
    name : str, default="sample_weight"
        Name of the parameter, for error messages.

    Returns
    -------
    array of shape (n_samples,) or None
        In the library, on the device and of the dtype of ``X``; None for None.

    Raises
    ------
    ValueError
        For weights that are not one-dimensional, not one per row, not finite,
        negative, or all zero.
    """
    if weights is None:
        return None
    _refuse_device_sparse(weights, name, "check_weights")
    # n numbers: validating them on the host costs less than a kernel per check
    rows = np.empty((X.shape[0], 1), dtype=dtype_name(X))
    try:
        host = check_sample_weight(
            to_host(weights), rows, dtype=rows.dtype, ensure_non_negative=True
        )
    except ValueError as error:
        raise ValueError(str(error).replace("sample_weight", name)) from error
    return to_like(host, X)


def check_same_home(estimator: Any, X: Any, attribute: str, method: str) -> None:
    """Raise unless an estimator was fitted where the new data is.

    Lists, data frames and SciPy matrices count as NumPy.

    Parameters
    ----------
    estimator : estimator
        The fitted estimator.
    X : array-like
        The data given to the method, before or after validation.
    attribute : str
        Name of a fitted array.
    method : str
        Name of the method.

    Raises
    ------
    ValueError
        If library or device differ.
    """
    fitted, given = _home(getattr(estimator, attribute)), _home(X)
    if fitted != given:
        raise ValueError(
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same "
            "namespace and the same device as those passed to fit(), but fit() got "
            f"{fitted} and {method}() got {given}. Move the estimator with "
            "skicml.base.move_to(estimator, X), or move X."
        )


def _home(array: Any) -> str:
    if not is_device_array(array):
        return "numpy on cpu"
    return f"{array_kind(array)} on {array_api_compat.device(array)}"


def _check_host(
    estimator: Any, X: Any, reset: bool, accept_sparse: bool | str, min_samples: int
) -> Array:
    if not reset and _is_plain(estimator, X, min_samples):
        return X
    half = array_kind(X) in ("numpy", "scipy.sparse") and dtype_name(X) in HALF
    try:
        return validate_data(
            estimator,
            X=X,
            reset=reset,
            accept_sparse="csr" if accept_sparse is True else accept_sparse,
            dtype=np.float32 if half else [np.float64, np.float32],
            ensure_min_samples=min_samples,
        )
    except ValueError as error:
        text = str(error)
        if "contains NaN" in text:
            _raise_nan(estimator, "X")
        if "could not convert string" in text or "bytes/strings" in text:
            _raise_text(estimator, X, error)
        raise


def _is_plain(estimator: Any, X: Any, min_samples: int) -> bool:
    """Whether an array passes all checks of a fitted estimator, found out quickly.

    scikit-learn's validation asks for data frames of every kind first, which takes
    longer than a prediction of a few rows.
    """
    return (
        type(X) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.dtype.isnative
        and X.ndim == 2
        and X.shape[0] >= min_samples
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
        and bool(np.isfinite(X).all())
    )


def _is_plain_target(X: Array, y: Any) -> bool:
    """Whether targets fit plain rows as they are."""
    return (
        type(X) is type(y) is np.ndarray
        and y.dtype == X.dtype
        and y.ndim == 1
        and y.shape[0] == X.shape[0]
        and bool(np.isfinite(y).all())
    )


def _check_device_target(estimator: Any, y: Array, multi_output: bool) -> Array:
    y = _detached(y)
    if not multi_output and y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change "
            "the shape of y to (n_samples, ), for example using ravel().",
            DataConversionWarning,
            stacklevel=3,
        )
        y = namespace_of(y).reshape(y, (-1,))
    if not multi_output and y.ndim != 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead."
        )
    if y.ndim > 2:
        raise ValueError(
            f"Found array with dim {y.ndim}, while dim <= 2 is required by "
            f"{type(estimator).__name__}."
        )
    _refuse_complex(y)
    _check_finite(estimator, y, "y")
    return y


def _numeric_target(estimator: Any, y: Array, like: Array) -> Array:
    if not is_device_array(y) and y.dtype.kind not in "biuf":
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"y must hold numbers for {type(estimator).__name__}, but {error}. "
                "Convert the targets first, or use a classifier for labels."
            ) from error
    with np.errstate(over="ignore"):
        moved = to_like(_as_floating(y), like)
    # a cast to float32 may overflow
    _check_finite(estimator, moved, "y")
    return moved


def _detached(array: Array) -> Array:
    return array.detach() if getattr(array, "requires_grad", False) else array


def _as_floating(array: Array) -> Array:
    """Give float32 or float64, the only two dtypes that estimators compute in."""
    _refuse_complex(array)
    xp = namespace_of(array)
    if not xp.isdtype(array.dtype, "real floating"):
        return xp.astype(array, widest_float(xp, array_api_compat.device(array)))
    return xp.astype(array, xp.float32) if dtype_name(array) in HALF else array


def _refuse_complex(array: Array) -> None:
    if "complex" in dtype_name(array):
        raise ValueError(f"Complex data not supported\n{array}\n")


def _refuse_device_sparse(array: Any, name: str, who: str) -> None:
    layout = str(getattr(array, "layout", "")) if array_kind(array) == "torch" else ""
    if layout not in ("", "torch.strided"):
        raise TypeError(
            f"{who}: {name} is a sparse tensor of layout {layout}, but only dense "
            f"tensors are supported. Pass {name}.to_dense()."
        )
    if array_kind(array) == "cupyx":
        raise TypeError(
            f"{who}: {name} is a sparse CuPy matrix, but only dense CuPy arrays are "
            f"supported. Pass {name}.toarray()."
        )


def _check_finite(estimator: Any, array: Array, name: str) -> None:
    xp = namespace_of(array)
    if get_config()["assume_finite"] or not xp.isdtype(array.dtype, "real floating"):
        return
    # one number leaves the device; a sum that overflows is looked at again below
    with np.errstate(over="ignore", invalid="ignore"):
        if xp.isfinite(xp.sum(array)):
            return
    if xp.any(xp.isnan(array)):
        _raise_nan(estimator, name)
    if xp.any(xp.isinf(array)):
        raise ValueError(
            f"Input {name} contains infinity or a value too large for "
            f"{np.dtype(dtype_name(array))!r}."
        )


def _raise_nan(estimator: Any, name: str) -> NoReturn:
    who = type(estimator).__name__
    remedy = (
        f"Put an imputer first: make_pipeline(SimpleImputer(), {who}())."
        if name == "X"
        else "Drop these rows first."
    )
    raise ValueError(f"Input {name} contains NaN, which {who} refuses. {remedy}")


def _raise_text(estimator: Any, X: Any, error: ValueError) -> NoReturn:
    """Name the columns of text and show the encoder that turns them to numbers."""
    who = type(estimator).__name__
    names = list(X.columns) if hasattr(X, "columns") else []
    text = [name for name in names if _holds_text(np.asarray(X[name]))]
    where = f"columns {text}" if text else "columns"
    raise ValueError(
        f"X has {where} of text, which {who} refuses ({error}). Put an encoder first: "
        "make_pipeline(make_column_transformer((OneHotEncoder(sparse_output=False), "
        f"{text or '[columns of text]'}), remainder='passthrough'), {who}())."
    ) from error


def _holds_text(column: Array) -> bool:
    return column.dtype.kind in "SU" or (
        column.dtype.kind == "O" and any(isinstance(value, str) for value in column)
    )
