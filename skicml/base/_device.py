"""Where arrays live: moving them, and the estimators that hold them."""

from __future__ import annotations

import copy
import re
from typing import Any, TypeVar

import array_api_compat
import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from skicml.base._sklearn_compat import convert_to_numpy
from skicml_accel._namespaces import array_kind, device_kind, dtype_name, namespace_of
from skicml_accel._types import Array

Estimator = TypeVar("Estimator", bound=BaseEstimator)


def is_device_array(array: Any) -> bool:
    """Tell array-API arrays other than NumPy's from all that NumPy can read.

    Parameters
    ----------
    array : object
        Anything a user may pass as data.

    Returns
    -------
    bool
        True for torch tensors (on the CPU too), CuPy arrays, array-api-strict arrays
        and their like; False for NumPy arrays, lists, data frames and SciPy matrices.
    """
    return array_api_compat.is_array_api_obj(array) and array_kind(array) != "numpy"


def to_host(array: Any) -> Any:
    """Give an array as NumPy; what is not a device array is returned untouched.

    Parameters
    ----------
    array : array
        Any array; a torch tensor may require a gradient.

    Returns
    -------
    ndarray
        The values, sharing memory with a tensor on the CPU.
    """
    if not is_device_array(array):
        return array
    if array_kind(array) == "torch":
        array = array.detach()
    return convert_to_numpy(array, namespace_of(array))


def to_like(array: Any, like: Array, *, cast: bool = True) -> Array:
    """Move an array to the library and the device of another one.

    Parameters
    ----------
    array : array-like
        Dense values of any library, or a list.
    like : array
        The array to follow; for a SciPy matrix the array of its values.
    cast : bool, default=True
        Cast to the dtype of ``like`` as well, if that is floating. False keeps the
        dtype, as for an index.

    Returns
    -------
    array
        ``array`` itself where nothing has to change.

    Examples
    --------
    >>> import numpy as np
    >>> from skicml.base import to_like
    >>> to_like([1, 2], np.ones(3, dtype=np.float32)).dtype
    dtype('float32')
    """
    if issparse(like):
        like = like.data
    if not is_device_array(array):
        array = np.asarray(array)
    if cast and namespace_of(like).isdtype(like.dtype, "real floating"):
        xp = namespace_of(array)
        array = xp.astype(array, getattr(xp, dtype_name(like)), copy=False)
    return _transfer(array, like)


def _transfer(array: Array, like: Array) -> Array:
    """Move without a cast."""
    if not is_device_array(like):
        return to_host(array)
    device = array_api_compat.device(like)
    if array_kind(array) == array_kind(like):
        return array_api_compat.to_device(array, device)
    if issparse(array):
        raise TypeError(
            f"A sparse matrix cannot move to {array_kind(like)} on {device}. "
            "Call its toarray() first, or fit on dense data."
        )
    xp = namespace_of(like)
    if device_kind(array) == device_kind(like) == "cuda":
        return array_api_compat.to_device(xp.from_dlpack(array), device)
    host = to_host(array)
    if not host.flags.writeable or any(stride < 0 for stride in host.strides):
        # torch can share neither memory that is read-only nor reversed axes
        host = host.copy()
    return xp.asarray(host, device=device)


def resolve_device(device: Any) -> str | None:
    """Check the ``device`` parameter of an estimator against the machine.

    Parameters
    ----------
    device : None, "cpu", "cuda" or "cuda:N"
        None means wherever the data is.

    Returns
    -------
    str or None
        None, "cpu" or "cuda:N", N being torch's current device where none is named.

    Raises
    ------
    ValueError
        If the name is not one of these.
    RuntimeError
        If this machine has no such device.

    Examples
    --------
    >>> from skicml.base import resolve_device
    >>> resolve_device("cpu")
    'cpu'
    """
    if device is None:
        return None
    name = str(device)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ValueError(
            f"device must be None, 'cpu', 'cuda' or 'cuda:N', got {device!r}. "
            "None computes where the data is."
        )
    if name == "cpu":
        return name
    import torch

    present = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if name == "cuda" and present:
        return f"cuda:{torch.cuda.current_device()}"
    if name not in present:
        raise RuntimeError(
            f"device {name!r} was requested, but torch sees only "
            f"{', '.join(['cpu', *present])}. Choose one of these, or device=None."
        )
    return name


def to_device(array: Array, device: str | None) -> Array:
    """Move an array to where an estimator shall compute.

    Parameters
    ----------
    array : array
        A dense array of any library.
    device : str or None
        What :func:`resolve_device` returned.

    Returns
    -------
    array
        ``array`` itself if ``device`` is None or holds it already; on "cpu" a NumPy
        array, unless it is a torch tensor; on "cuda:N" a torch tensor, unless it is
        a CuPy array there. :func:`to_like` brings results back.
    """
    if device is None or (device == "cpu" and device_kind(array) == "cpu"):
        return array
    kind = array_kind(array)
    if device == "cpu":
        return array.to("cpu") if kind == "torch" else to_host(array)
    if kind == "cupy" and array.device.id == int(device.partition(":")[2]):
        return array
    import torch

    if kind == "torch":
        return array.to(device)
    return _transfer(array, torch.empty(0, device=device))


def move_to(estimator: Estimator, like: Array) -> Estimator:
    """Copy a fitted estimator to the library and the device of an array.

    A model fitted on a GPU can so predict for NumPy arrays, and the other way round.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator; it is not changed.
    like : array
        An array of the library and on the device wanted. Its dtype does not matter.

    Returns
    -------
    estimator
        A copy whose fitted arrays are moved, those of estimators inside included, such
        as the steps of a pipeline. Arrays among the parameters, and label arrays such
        as ``classes_``, stay.

    Examples
    --------
    >>> import array_api_strict
    >>> from sklearn.linear_model import LinearRegression
    >>> from skicml.base import move_to
    >>> fitted = LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0])
    >>> type(move_to(fitted, array_api_strict.ones(1)).coef_).__name__
    'Array'
    """
    moved = copy.copy(estimator)
    stay = {*estimator.get_params(deep=False), "classes_", "feature_names_in_"}
    for name, value in vars(estimator).items():
        setattr(moved, name, _moved(value, like, arrays=name not in stay))
    return moved


def _moved(value: Any, like: Array, *, arrays: bool) -> Any:
    """Move what an attribute holds, through containers and estimators."""
    if isinstance(value, BaseEstimator):
        return move_to(value, like)
    if type(value) in (list, tuple):
        return type(value)(_moved(item, like, arrays=arrays) for item in value)
    if type(value) is dict:
        return {k: _moved(item, like, arrays=arrays) for k, item in value.items()}
    if hasattr(value, "map_arrays"):
        return value.map_arrays(lambda rows: _transfer(rows, like))
    # arrays of objects or text exist in NumPy only
    numeric = isinstance(value, np.ndarray) and value.dtype.kind in "biufc"
    if arrays and (numeric or is_device_array(value) or issparse(value)):
        return _transfer(value, like)
    return value
