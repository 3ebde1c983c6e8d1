"""What the checks on a GPU have in common: hardware, times, stages, the report."""

from __future__ import annotations

import datetime
import importlib.util
import json
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
for package, folder in (("skicml_accel", ROOT / "accel"), ("skicml", ROOT)):
    if importlib.util.find_spec(package) is None:
        sys.path.insert(0, str(folder))

#: No stage starts after this many seconds.
BUDGET = 400.0
START = time.perf_counter()


def say(text: str) -> None:
    """Report progress on the error stream, which keeps the output plain JSON."""
    sys.stderr.write(f"[{time.perf_counter() - START:6.1f} s] {text}\n")


def hardware() -> dict[str, Any]:
    """Name the device, the versions and the date."""
    device = torch.cuda.get_device_properties(0)
    return {
        "device": device.name,
        "capability": f"{device.major}.{device.minor}",
        "processors": device.multi_processor_count,
        "memory_gib": round(device.total_memory / 2**30, 1),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def milliseconds(run: Callable[[], object], seconds: float = 1.0) -> float:
    """Median time of a call, the device idle before and after."""
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 50):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return round(statistics.median(times), 3)


def run_stages(stages: Sequence[Callable[[], dict[str, Any]]]) -> int:
    """Run all stages, print their report, and give the exit status."""
    if not torch.cuda.is_available():
        sys.stdout.write(json.dumps({"skipped": "torch sees no CUDA device"}) + "\n")
        return 0
    report: dict[str, Any] = {"hardware": hardware()}
    for stage in stages:
        if time.perf_counter() - START > BUDGET:
            report[stage.__name__] = {"skipped": "out of time"}
            continue
        say(stage.__name__)
        try:
            report[stage.__name__] = stage()
        except Exception as error:  # noqa: BLE001 - the other stages shall still run
            report[stage.__name__] = {"passed": False, "error": repr(error)}
            say(f"failed: {error!r}")
    text = json.dumps(report, indent=1)
    sys.stdout.write(text + "\n")
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(text + "\n")
    return int(any(r.get("passed") is False for r in report.values()))
