"""Which library an array comes from, and where it lives, without importing one."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any


@functools.lru_cache(maxsize=256)
def _kind_of_type(cls: type) -> str:
    root = cls.__module__.partition(".")[0]
    if root == "scipy":
        return "scipy.sparse"
    return root


def array_kind(array: Any) -> str:
    """Name of the library of an array: "numpy", "torch", "cupy", "scipy.sparse", ..."""
    # classes are hashable, which mypy does not see through Any
    return _kind_of_type(type(array))  # type: ignore[arg-type]


def device_kind(array: Any) -> str:
    """Kind of device that holds the array: "cpu", "cuda", or the library's own word."""
    kind = array_kind(array)
    if kind in ("numpy", "scipy.sparse"):
        return "cpu"
    if kind == "torch":
        return array.device.type
    if kind == "cupy":
        return "cuda"
    return "cpu"


def dtype_name(array: Any) -> str:
    """Name of the element type without the library's prefix, such as "float32"."""
    dtype = array.dtype
    return getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]


def namespace_of(array: Any) -> ModuleType:
    """Array API namespace of a dense array."""
    if array_kind(array) == "numpy":
        # the common case does not pay for the general look-up
        return sys.modules["array_api_compat.numpy"] if _numpy_ready() else _numpy()
    import array_api_compat

    return array_api_compat.array_namespace(array)


def _numpy_ready() -> bool:
    return "array_api_compat.numpy" in sys.modules


def _numpy() -> ModuleType:
    import array_api_compat.numpy

    return array_api_compat.numpy


def require_same(op: str, **arrays: Any) -> None:
    """Raise TypeError unless all arrays share their library and device.

    None stands for an argument that was not given.
    """
    homes = {
        name: (array_kind(array), str(getattr(array, "device", "cpu")))
        for name, array in arrays.items()
        if array is not None
    }
    if len(set(homes.values())) > 1:
        listed = ", ".join(
            f"{name} is {kind} on {device}" for name, (kind, device) in homes.items()
        )
        raise TypeError(
            f"{op}: all arrays must share library and device, but {listed}. "
            "Move them to one place first."
        )
