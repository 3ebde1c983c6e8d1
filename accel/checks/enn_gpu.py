"""Check and time the nearest-neighbor kernels on a CUDA device.

Run from the root of the repository: ``python accel/checks/enn_gpu.py [FILE]``. Takes a
few minutes, prints JSON with hardware and date, writes it to FILE as well if given,
and ends with status 1 if a check failed. Without a CUDA device it says so and ends
with status 0.

Every stage reports its own failure, so that one of them does not cost the others.
"""

from __future__ import annotations

import inspect
import itertools
import statistics
import sys
import time
from typing import Any

import numpy as np
import torch
from _report import milliseconds, run_stages, say

N_COLUMNS, N_NEIGHBORS = 20, 10


def cloud(n: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Draw points of the unit cube, as the optimizer has them."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.random((n, N_COLUMNS))).to("cuda", dtype)


def cases() -> dict[str, tuple[torch.Tensor, torch.Tensor, int]]:
    """List queries, data and k that are ordinary, misleading, tied or extreme."""
    single, double = torch.float32, torch.float64
    near = 1e3 + 1e-2 * cloud(3000, double)
    tied = (4 * cloud(5000)).floor()
    return {
        "float32": (cloud(500, single, 1), cloud(50_000), 10),
        "float64": (cloud(500, double, 1), cloud(50_000, double), 10),
        "k=1": (cloud(77, single, 1), cloud(12_345), 1),
        "k=32": (cloud(77, single, 1), cloud(12_345), 32),
        "k=n": (cloud(5, single, 1), cloud(20), 20),
        "one column": (cloud(200, single, 1)[:, :1], cloud(9999)[:, :1], 10),
        "few queries": (cloud(3, single, 1), cloud(200_000), 10),
        "misleading": (near[:100] + 1e-3, torch.cat([near, -near]), 10),
        "misleading32": (near[:100].float(), torch.cat([near, -near]).float(), 10),
        "tied": (tied[:300, :2], tied[:, :2], 10),
        "huge": (1e150 * cloud(50, double, 1), 1e150 * cloud(5000, double), 10),
        "tiny": (1e-23 * cloud(50, double, 1), 1e-23 * cloud(5000, double), 10),
        "strided": (cloud(100, single, 1)[::2, ::3], cloud(8000)[::2, ::3], 10),
    }


def check_knn() -> dict[str, Any]:
    """Compare the fused search with the reference in double precision."""
    from skicml_accel import use_implementation
    from skicml_accel.neighbors import knn

    results = {}
    for (name, (query, data, k)), hides in itertools.product(
        cases().items(), (False, True)
    ):
        own = None
        if hides:
            k = min(k, data.shape[0] - 1)
            own = torch.arange(query.shape[0], device="cuda") - 1
        with use_implementation("triton"):
            distance, index = knn(query, data, k=k, exclude=own)
        with use_implementation("reference"):
            expected, rows = knn(
                query.double(), data.double(), k=k, exclude=own, chunk_bytes=2**30
            )
        error = ((distance - expected).abs() / expected.clamp_min(1e-300)).amax()
        limit = 40 * torch.finfo(query.dtype).eps
        results[name + (" hiding" if hides else "")] = {
            "same_index": float((index == rows).double().mean()),
            "relative_error": float(error),
            # rows at rounding distance of each other may stand the other way round
            "passed": bool(error <= limit and (index == rows).double().mean() > 0.999),
        }
    return {"passed": all(r["passed"] for r in results.values()), "cases": results}


def check_posterior() -> dict[str, Any]:
    """Compare moments on the device with those on the host."""
    from skicml_accel.neighbors import enn_posterior, knn

    data, query = cloud(20_000, torch.float64), cloud(500, torch.float64, 1)
    distance, index = knn(query, data, k=N_NEIGHBORS)
    y = torch.stack([data.sum(1).sin(), data.square().sum(1)], dim=1)
    keywords = {
        "epistemic_scale": torch.tensor([0.5, 2.0], dtype=torch.float64, device="cuda"),
        "aleatoric_variance": torch.tensor([0.1, 0.0], device="cuda").double(),
        "y_scale": y.std(dim=0),
        "y_var": 0.01 * y.abs(),
    }
    ours = enn_posterior(distance, index, y, **keywords)
    host = {name: value.cpu().numpy() for name, value in keywords.items()}
    theirs = enn_posterior(
        distance.cpu().numpy(), index.cpu().numpy(), y.cpu().numpy(), **host
    )
    errors = [
        float(np.max(np.abs(a.cpu().numpy() - b) / (np.abs(b) + 1e-12)))
        for a, b in zip(ours, theirs, strict=True)
    ]
    return {"passed": max(errors) < 1e-10, "relative_errors": errors}


def time_knn() -> dict[str, Any]:
    """Time the fused search and the one of torch operations."""
    from skicml_accel import use_implementation
    from skicml_accel.neighbors import knn

    results = {}
    for n, m, dtype in itertools.product(
        (10_000, 50_000, 1_000_000), (100, 2000), (torch.float32, torch.float64)
    ):
        data, query = cloud(n, dtype), cloud(m, dtype, 1)
        row = {}
        for name in ("triton", "torch"):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            with use_implementation(name):
                row[name + "_ms"] = milliseconds(
                    lambda q=query, x=data: knn(q, x, k=10)
                )
            peak = torch.cuda.max_memory_allocated() - before
            row[name + "_peak_mib"] = round(peak / 2**20, 1)
        row["torch/triton"] = round(row["torch_ms"] / row["triton_ms"], 2)
        results[f"n={n} m={m} {str(dtype).rpartition('.')[2]}"] = row
        say(f"knn n={n} m={m} {dtype}: {row}")
    return results


def time_launches() -> dict[str, Any]:
    """Time the selection alone, for other tile sizes than the default too."""
    from skicml_accel.neighbors import _knn_triton as fused

    results = {}
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    for n, m in ((50_000, 2000), (1_000_000, 2000), (1_000_000, 100)):
        data, query = cloud(n), cloud(m, seed=1)
        center = data.mean(dim=0, dtype=torch.float64)
        planned = fused.plan(m, n, processors).n_splits
        for block_m, block_n, warps in (
            (32, 128, 4),
            (32, 64, 4),
            (16, 128, 4),
            (64, 64, 4),
            (64, 128, 8),
        ):
            for n_splits in sorted({1, max(1, planned // 2), planned, 2 * planned}):
                launch = fused.Launch(block_m, block_n, 16, n_splits, warps)
                elapsed = milliseconds(
                    lambda q=query, x=data, c=center, a=launch: fused._select(
                        q, x, c, None, N_NEIGHBORS, a
                    ),
                    0.2,
                )
                name = f"n={n} m={m} {block_m}x{block_n} warps={warps} split={n_splits}"
                results[name] = elapsed
        best = min((k for k in results if f"n={n} m={m} " in k), key=results.get)
        say(f"best of {best}: {results[best]} ms; planned split {planned}")
    return results


def time_proposals() -> dict[str, Any]:
    """Time one proposal of the optimizer: tell one value, ask for one point."""
    try:
        from skicml import TuRBOENN
    except ImportError as error:
        return {"skipped": f"the optimizer cannot be imported: {error}"}
    if "device" not in inspect.signature(TuRBOENN).parameters:
        return {"skipped": "the optimizer takes no device"}
    results = {}
    for n, device in itertools.product(
        (1000, 10_000, 50_000, 1_000_000), ("cuda", None)
    ):
        if device is None and n > 50_000:
            continue
        optimizer = TuRBOENN(
            [(0.0, 1.0)] * N_COLUMNS, acquisition="ucb", device=device, random_state=0
        )
        rng = np.random.default_rng(0)
        x = rng.random((n, N_COLUMNS))
        start = time.perf_counter()
        optimizer.tell(x, -np.sum((x - 0.3) ** 2, axis=1))
        row = {"bulk_tell_s": round(time.perf_counter() - start, 3)}
        times = []
        for _ in range(12):
            start = time.perf_counter()
            point = optimizer.ask(1)
            optimizer.tell(point, -np.sum((point - 0.3) ** 2, axis=1))
            times.append(1e3 * (time.perf_counter() - start))
        # the first ones compile and hand out the initial design
        row["proposal_ms"] = round(statistics.median(times[2:]), 2)
        row["first_ms"] = round(times[0], 1)
        results[f"n={n} {device or 'cpu'}"] = row
        say(f"proposal n={n} {device or 'cpu'}: {row}")
    return results


if __name__ == "__main__":
    stages = (check_knn, check_posterior, time_knn, time_proposals, time_launches)
    sys.exit(run_stages(stages))
