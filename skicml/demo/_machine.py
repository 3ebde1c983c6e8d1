"""Where a run took place, in one line."""

from __future__ import annotations

import os
import platform
import re
from datetime import date
from importlib.metadata import version
from pathlib import Path

from skicml import __version__


def usable_processors() -> int:
    """Count the processors that this process may run on.

    Returns
    -------
    int
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """Name the processor, as far as the system tells.

    Returns
    -------
    str
    """
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def describe_machine() -> str:
    """Date, processors and versions.

    Returns
    -------
    str
        One line, to stand below measured times.
    """
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "scikit-learn")
    )
    return (
        f"{date.today().isoformat()}, {usable_processors()} x {processor_name()}, "
        f"{platform.system()}, Python {platform.python_version()}, "
        f"skicml {__version__}, {versions}"
    )
