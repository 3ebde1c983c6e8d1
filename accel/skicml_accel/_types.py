"""The array type that kernels take and give back."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias


class SupportsArray(Protocol):
    """What every array of the array API standard has."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def dtype(self) -> Any:
        """Element type."""


# A union of libraries cannot be spelled out without importing them; kernels are
# checked by tests against the reference rather than by the type of the library.
Array: TypeAlias = Any
