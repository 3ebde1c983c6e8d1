"""Dispatch of one operation to the first implementation that can run it.

An operation is a function decorated with :func:`op`; the function itself is its
reference implementation. Faster ones are added by import string with
:meth:`Op.implementation`, in the order in which they shall be tried, so that
nothing heavy is imported before it is chosen. A rule refuses in words, and
:meth:`Op.explain` shows these words.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib
import importlib.util
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from skicml_accel._namespaces import array_kind, device_kind, dtype_name

logger = logging.getLogger("skicml")

_forced: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "skicml_accel_implementation", default=None
)

#: Every operation by name, for ``skicml doctor`` and the tests.
OPS: dict[str, Op] = {}

Accepts = Callable[..., str | None]


@functools.cache
def _missing_package(name: str) -> str | None:
    """Reason why a package cannot be used, None if it can; asked once a process."""
    if importlib.util.find_spec(name) is None:
        return f"package '{name}' is not installed"
    return None


@dataclass(frozen=True)
class Implementation:
    """One way to run an operation, with the rules of when it can."""

    name: str
    target: str
    kinds: set[str] | None = None
    devices: set[str] | None = None
    dtypes: set[str] | None = None
    requires: tuple[str, ...] = ()
    accepts: Accepts | None = None
    pays: Accepts | None = None

    def missing(self) -> str | None:
        """Reason why this machine cannot run it on any input, None if it can."""
        return next(filter(None, map(_missing_package, self.requires)), None)

    def refuses_home(self, kind: str, device: str, dtype: str) -> str | None:
        """Reason that follows from library, device and dtype of the lead array."""
        for what, value, allowed in (
            ("array kind", kind, self.kinds),
            ("device", device, self.devices),
            ("dtype", dtype, self.dtypes),
        ):
            if allowed is not None and value not in allowed:
                return f"{what} '{value}' not in {sorted(allowed)}"
        return self.missing()

    def refuses_call(self, forced: bool, *args: Any, **kwargs: Any) -> str | None:
        """Reason that follows from the arguments of one call."""
        reason = self.accepts and self.accepts(*args, **kwargs)
        if reason is None and self.pays is not None and not forced:
            reason = self.pays(*args, **kwargs)
        return reason

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """The implementation, imported on first use."""
        module, _, name = self.target.partition(":")
        return getattr(importlib.import_module(module), name)


@dataclass
class Op:
    """An operation on arrays with a reference and faster implementations."""

    reference: Callable[..., Any]
    implementations: list[Implementation] = field(default_factory=list)

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.reference)
        self.name = self.reference.__name__
        reference = Implementation("reference", "")
        # the reference is a function already: nothing is left to import
        reference.__dict__["function"] = self.reference
        self._reference = reference
        self._candidates = functools.lru_cache(maxsize=128)(self._candidates_for)
        OPS[self.name] = self

    def implementation(
        self,
        name: str,
        target: str,
        *,
        kinds: set[str] | None = None,
        devices: set[str] | None = None,
        dtypes: set[str] | None = None,
        requires: tuple[str, ...] = (),
        accepts: Accepts | None = None,
        pays: Accepts | None = None,
    ) -> None:
        """Add an implementation behind those added before.

        Parameters
        ----------
        name : str
            How it computes, such as "numba" or "triton".
        target : str
            Where it stands, as "package.module:function".
        kinds, devices, dtypes : set of str or None, default=None
            What the first argument must be; None means anything.
        requires : tuple of str, default=()
            Packages that must be installed.
        accepts : callable or None, default=None
            Takes the arguments of the call and returns None, or the reason of its
            refusal.
        pays : callable or None, default=None
            The same for input that it could run but not faster; not asked when the
            implementation is forced.
        """
        rules = kinds, devices, dtypes, requires, accepts, pays
        self.implementations.append(Implementation(name, target, *rules))
        self._candidates.cache_clear()

    def _candidates_for(
        self, kind: str, device: str, dtype: str
    ) -> tuple[Implementation, ...]:
        home = kind, device, dtype
        able = (i for i in self.implementations if i.refuses_home(*home) is None)
        return (*able, self._reference)

    def __call__(self, lead: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the first implementation that accepts the arguments."""
        return self._choose(lead, args, kwargs).function(lead, *args, **kwargs)

    def _choose(
        self, lead: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Implementation:
        forced = _forced.get() or os.environ.get("SKICML_ACCEL_IMPL")
        if forced is not None and self._has(forced):
            return self._forced(forced, lead, args, kwargs)
        home = array_kind(lead), device_kind(lead), dtype_name(lead)
        for implementation in self._candidates(*home):
            if implementation.refuses_call(False, lead, *args, **kwargs) is None:
                logger.debug("%s: %s on %s", self.name, implementation.name, home)
                return implementation
        raise AssertionError("the reference accepts everything")

    def _has(self, name: str) -> bool:
        return name == "reference" or any(i.name == name for i in self.implementations)

    def _forced(
        self, name: str, lead: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Implementation:
        if name == "reference":
            return self._reference
        reasons = []
        for implementation in self.implementations:
            if implementation.name == name:
                reason = self._refusal(implementation, True, lead, *args, **kwargs)
                if reason is None:
                    return implementation
                reasons.append(reason)
        raise RuntimeError(
            f"{self.name}: implementation '{name}' was requested but "
            f"{'; '.join(reasons)}."
        )

    @staticmethod
    def _refusal(
        implementation: Implementation,
        forced: bool,
        lead: Any,
        *args: Any,
        **kwargs: Any,
    ) -> str | None:
        home = array_kind(lead), device_kind(lead), dtype_name(lead)
        return implementation.refuses_home(*home) or implementation.refuses_call(
            forced, lead, *args, **kwargs
        )

    def explain(self, lead: Any, *args: Any, **kwargs: Any) -> dict[str, str]:
        """Say of each implementation why it would not run, or that it would.

        Returns
        -------
        dict of str to str
            Implementation name to "chosen", "able" or the reason of refusal, in the
            order in which they are tried.
        """
        answer: dict[str, str] = {}
        chosen = self._choose(lead, args, kwargs)
        for implementation in (*self.implementations, self._reference):
            reason = self._refusal(implementation, False, lead, *args, **kwargs)
            state = "chosen" if implementation is chosen else reason or "able"
            answer.setdefault(implementation.name, state)
        return answer


def op(function: Callable[..., Any]) -> Op:
    """Make a function the reference implementation of an operation."""
    return Op(function)


@contextlib.contextmanager
def use_implementation(name: str) -> Iterator[None]:
    """Run every operation that has an implementation of this name with it.

    Operations without one run as usual. An operation that has it but cannot run it
    on its input raises RuntimeError with the reason. The environment variable
    ``SKICML_ACCEL_IMPL`` does the same for a whole process.

    Parameters
    ----------
    name : str
        Such as "reference", "numba", "blas", "torch" or "triton".

    Raises
    ------
    ValueError
        If no operation has an implementation of this name.
    """
    known = {"reference"} | {i.name for o in OPS.values() for i in o.implementations}
    if name not in known:
        raise ValueError(
            f"No operation has an implementation named {name!r}. "
            f"Choose one of {sorted(known)}."
        )
    token = _forced.set(name)
    try:
        yield
    finally:
        _forced.reset(token)
