"""Check and time Gromov-Wasserstein on a CUDA device.

Run from the root of the repository: ``python accel/checks/gw_gpu.py [FILE]``. Takes a
few minutes, prints JSON with hardware and date, writes it to FILE as well if given,
and ends with status 1 if a check failed. Without a CUDA device it says so and ends
with status 0.
"""

from __future__ import annotations

import itertools
import sys
import time
from typing import Any

import numpy as np
import torch
from _report import milliseconds, run_stages, say

N_FACTORS = 21


def problem(n: int, m: int, size: float = 1.0) -> list[torch.Tensor]:
    """Draw factors, potentials and weights of a plan."""
    rng = np.random.default_rng(0)
    arrays = (
        size * rng.normal(size=(n, N_FACTORS)),
        size * rng.normal(size=(m, N_FACTORS)),
        rng.normal(size=n),
        rng.normal(size=m),
        np.full(n, 1 / n),
        np.full(m, 1 / m),
    )
    return [torch.from_numpy(x).to("cuda", torch.float32) for x in arrays]


def sheet(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Roll up a sheet, and turn a noisy copy of it."""
    rng = np.random.default_rng(0)
    t, across = rng.random(n), 0.6 * rng.random(n)
    X = np.column_stack([(1 + t) * np.cos(5 * t), (1 + t) * np.sin(5 * t), across])
    X = (X - X.mean(axis=0)) / 2
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return X, (X + 0.005 * rng.normal(size=X.shape)) @ turn


def check_passes() -> dict[str, Any]:
    """Compare passes and products with the reference in double precision."""
    from skicml_accel import use_implementation
    from skicml_accel.transport import plan_contract, sinkhorn_pass

    results = {}
    for n, m, size, jacobi in itertools.product(
        (1000, 4097), (33, 3000), (0.3, 3.0), (False, True)
    ):
        single = problem(n, m, size)
        double = [x.double() for x in single]
        left, right, _, q, _, _ = single
        with use_implementation("triton"):
            found = [
                *sinkhorn_pass(*single, jacobi=jacobi),
                plan_contract(left, right, q, right),
            ]
            again = sinkhorn_pass(*single, jacobi=jacobi)
        with use_implementation("reference"):
            expected = [
                *sinkhorn_pass(*double, jacobi=jacobi),
                plan_contract(double[0], double[1], double[3], double[1]),
            ]
        errors = [
            float((x - y).abs().amax() / y.abs().amax().clamp_min(1.0))
            for x, y in zip(found, expected, strict=True)
        ]
        results[f"{n} x {m} size={size} jacobi={jacobi}"] = {
            "relative_errors": errors,
            "deterministic": bool(all(map(torch.equal, found[:2], again))),
            "passed": max(errors) < 1e-3 and all(map(torch.equal, found[:2], again)),
        }
    return {"passed": all(r["passed"] for r in results.values()), "cases": results}


def check_fit() -> dict[str, Any]:
    """Compare a fit on the device with one on the host."""
    from skicml import LiftedGWAligner

    X, Y = sheet(3000)
    host = LiftedGWAligner(random_state=0).fit(X, Y)
    device = LiftedGWAligner(random_state=0, device="cuda").fit(X, Y)
    error = abs(device.egw_ - host.egw_) / host.egw_
    same = float(np.mean(device.matching_ == host.matching_))
    return {"passed": error < 1e-2, "relative_error": error, "same_matches": same}


def time_passes() -> dict[str, Any]:
    """Time the streamed pass beside the one of torch operations."""
    from skicml_accel import use_implementation
    from skicml_accel.transport import sinkhorn_pass

    results = {}
    for n in (3000, 30_000, 100_000):
        arrays = problem(n, n, 0.3)
        row = {}
        for name in ("triton", "reference"):
            with use_implementation(name):
                row[f"{name}_ms"] = milliseconds(lambda x=arrays: sinkhorn_pass(*x))
        results[str(n)] = row
        say(f"pass n={n}: {row}")
    return results


def time_fits() -> dict[str, Any]:
    """Time whole fits on the device."""
    from skicml import LiftedGWAligner

    results = {}
    for n, solver in (
        (3000, "cnt"),
        (20_000, "cnt"),
        (100_000, "cnt"),
        (100_000, "multiscale"),
    ):
        X, Y = (torch.from_numpy(x).to("cuda", torch.float32) for x in sheet(n))
        aligner = LiftedGWAligner(
            solver=solver, epsilon=1e-2, cost_scale="none", random_state=0
        )
        torch.cuda.synchronize()
        start = time.perf_counter()
        aligner.fit(X, Y)
        torch.cuda.synchronize()
        results[f"n={n} {solver}"] = {
            "seconds": round(time.perf_counter() - start, 2),
            "objective": aligner.egw_,
            "passes": aligner.n_sinkhorn_iter_,
        }
        say(f"fit n={n} {solver}: {results[f'n={n} {solver}']}")
    return results


def check_masks() -> dict[str, Any]:
    """Compare masks and masked products with the reference on the host."""
    from skicml_accel.transport import mask_update, masked_gw_grad, pair_residual

    results = {}
    for n, penalty in itertools.product((100, 1531), ("quadratic", "geman", "hard")):
        rng = np.random.default_rng(0)
        C = rng.random((n, n))
        C, plan = C + C.T, rng.random((n, n)) / n**2
        host = [torch.from_numpy(x) for x in (C**2, C, plan, np.full(n, 1 / n))]
        found, expected = [], []
        for R, cost, T, a, out in (
            (*(x.cuda() for x in host), found),
            (*host, expected),
        ):
            moments = mask_update(R, cost, lam=1.5, penalty=penalty)
            out += [
                moments,
                masked_gw_grad(moments, moments, T),
                pair_residual(moments, T, cost, a),
            ]
        errors = [
            float((x.cpu() - y).abs().amax() / y.abs().amax())
            for x, y in zip(found, expected, strict=True)
        ]
        chosen = mask_update.explain(found[0][0], found[0][0], lam=1.0)
        results[f"{n} {penalty}"] = {
            "relative_errors": errors,
            "chosen": chosen,
            "passed": max(errors) < 1e-10 and chosen["triton"] == "chosen",
        }
    return {"passed": all(r["passed"] for r in results.values()), "cases": results}


def time_matcher() -> dict[str, Any]:
    """Time the first steps of SRGWMatcher on both sides, with entropic transport."""
    from skicml import SRGWMatcher

    results = {}
    for n in (500, 2000):
        X, Y = sheet(n)
        row: dict[str, Any] = {}
        for where in ("cpu", "cuda"):
            matcher = SRGWMatcher(
                solver="sinkhorn",
                init="tlb",
                anneal=0.75,
                max_iter=4,
                max_polish=0,
                dtype="float32",
                device=where,
            )
            start = time.perf_counter()
            matcher.fit(X, Y)
            row[f"{where}_s"] = round(time.perf_counter() - start, 2)
            row[f"{where}_gw"] = matcher.gw_dist_
        row["passed"] = row["cpu_s"] >= 5 * row["cuda_s"] or n < 2000
        results[str(n)] = row
        say(f"matcher n={n}: {row}")
    return {"passed": all(r["passed"] for r in results.values()), **results}


if __name__ == "__main__":
    sys.exit(
        run_stages(
            (
                check_passes,
                check_masks,
                check_fit,
                time_passes,
                time_fits,
                time_matcher,
            )
        )
    )
