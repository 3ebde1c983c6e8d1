"""What is installed here, and which kernels it lets run."""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from skicml import __version__
from skicml.demo._machine import processor_name, usable_processors

if TYPE_CHECKING:
    from skicml_accel._registry import Implementation

_NEEDED = (
    "numpy",
    "scipy",
    "scikit-learn",
    "torch",
    "array-api-compat",
    "rich",
    "typer",
)
#: Packages that bring something, with the way to get them.
_OPTIONAL = {
    "numba": "compiled kernels on the CPU: pip install 'skicml[numba]'",
    "triton": "compiled kernels on the GPU: pip install 'skicml[gpu]'",
    "matplotlib": "pictures: pip install 'skicml[plot]'",
    "optuna": "a peer in the demo: pip install optuna",
    "pandas": "data frames: pip install pandas",
    "cupy": "arrays on the GPU: see its own instructions",
}


def examine() -> list[Any]:
    """Look at versions, devices, threads and kernels.

    Returns
    -------
    list of rich.table.Table
        In the order to be shown.
    """
    return [
        _table("versions", ("package", "version"), versions()),
        _table("machine", ("what", "found"), machine()),
        _table(
            "kernels, in the order in which they are tried",
            ("operation", "implementation", "runs on", "here"),
            kernels(),
        ),
    ]


def versions() -> Iterator[tuple[str, str]]:
    """Find the versions of the stack.

    Yields
    ------
    package, version : str
        The version, or what to do where an optional package is missing.
    """
    yield "Python", f"{platform.python_version()} on {platform.system()}"
    yield "skicml", __version__
    for name in _NEEDED:
        yield name, _version(name) or "MISSING: reinstall skicml"
    for name, remedy in _OPTIONAL.items():
        yield name, _version(name) or f"not installed; {remedy}"


def machine() -> Iterator[tuple[str, str]]:
    """Find processors, threads and GPUs.

    Yields
    ------
    what, found : str
        A property and its value.
    """
    import sklearn.neighbors  # noqa: F401  # loads what is to be counted
    import torch
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    from skicml_accel._chunks import n_threads

    yield "processor", f"{usable_processors()} usable, {processor_name()}"
    yield "threads of our kernels", f"{n_threads()} ({_thread_source()})"
    yield "threads of torch", str(torch.get_num_threads())
    pools = {(pool["internal_api"], pool["num_threads"]) for pool in threadpool_info()}
    for name, n in sorted(pools):
        yield f"threads of {name}", str(n)
    if not torch.cuda.is_available():
        built = torch.version.cuda
        reason = (
            f"CUDA {built}, but no device" if built else "this torch is for the CPU"
        )
        yield "CUDA", f"not available: {reason}"
        return
    for index in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(index)
        capability = f"compute capability {found.major}.{found.minor}"
        memory = f"{found.total_memory / 2**30:.0f} GiB"
        yield f"cuda:{index}", f"{found.name}, {memory}, {capability}"


def kernels() -> Iterator[tuple[str, str, str, str]]:
    """Find out which implementations of the kernels can run.

    Yields
    ------
    operation, implementation, home, state : str
        The home is the library, device and dtype that an implementation takes; the
        state is "runs", or the reason why it does not.
    """
    import skicml_accel

    for module in pkgutil.iter_modules(skicml_accel.__path__, "skicml_accel."):
        if module.ispkg:
            importlib.import_module(module.name)
    for name, op in sorted(skicml_accel.OPS.items()):
        for implementation in op.implementations:
            reason = obstacle(implementation)
            yield name, implementation.name, _home(implementation), reason or "runs"
        yield name, "reference", "everything", "runs"


def obstacle(implementation: Implementation) -> str | None:
    """Say why an implementation cannot run on this machine.

    Parameters
    ----------
    implementation : Implementation
        One of an operation.

    Returns
    -------
    str or None
        The reason; None if it can run.
    """
    reason = implementation.missing()
    if reason is not None:
        return reason
    if implementation.devices == {"cuda"}:
        import torch

        if not torch.cuda.is_available():
            return "no CUDA device"
    try:
        implementation.function  # noqa: B018  # imports it
    # a broken installation fails in its own way, and this is the place to hear it
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"
    return None


def _home(implementation: Implementation) -> str:
    parts = (implementation.kinds, implementation.devices, implementation.dtypes)
    return "; ".join(", ".join(sorted(part)) for part in parts if part) or "everything"


def _thread_source() -> str:
    for variable in ("SKICML_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(variable, "").isdigit():
            return f"from {variable}"
    return "the processors of this process"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        # CuPy has a name of its own for each CUDA
        module = sys.modules.get(name)
        return getattr(module, "__version__", None)


def _table(
    title: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]
) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    before = ""
    for first, *others in rows:
        last = others[-1]
        style = "green" if last == "runs" else ""
        # a name that repeats is said once
        shown = [Text("" if len(columns) > 2 and first == before else first)]
        shown += [Text(cell) for cell in others[:-1]]
        table.add_row(*shown, Text(last, style))
        before = first
    return table
