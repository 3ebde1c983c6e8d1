"""The benchmarks load, run at their smallest size, and are what the targets name."""

import importlib
import inspect
import itertools
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "asv_bench"
KINDS = ("time_", "peakmem_", "track_")

#: What makes a class small enough for a test.
SMALL = {
    "GaussianProcessTuRBO": {"repeats": 1},
    "Functions": {"seeds": range(2), "n_evaluations": 60},
    "Sampling": {"seeds": range(2), "n_evaluations": 60},
    "Searches": {"seeds": range(1), "n_iter": 3},
    "ProposalGrowth": {"sizes": (500, 2_000)},
    "LiftedExponent": {"sizes": (300, 900)},
    "LiftedMultiscale": {"n": 2_000},
    "LiftedPeers": {
        "repeats": 1,
        "n_entropic": 100,
        "n_gradient": 200,
    },
    "LiftedLarge": {"problems": {"20,000 on one scale": (600, "cnt")}},
    "LiftedQuality": {"seeds": range(1)},
    "MaskedGradient": {"n": 100},
    "MatcherPeers": {"repeats": 1},
    "MatcherQuality": {"seeds": range(1)},
    "MatcherGraphs": {"seeds": range(1)},
    "MatcherUnweighted": {"seeds": range(1)},
    "MatcherMemory": {"n": 50},
}


def _load():
    """Import the benchmarks, and leave the variables that they set as they were."""
    before = dict(os.environ)
    os.environ["SKICML_BENCH"] = "full"
    sys.path.insert(0, str(FOLDER))
    try:
        names = [p.stem for p in (FOLDER / "benchmarks").glob("bench_*.py")]
        modules = [importlib.import_module(f"benchmarks.{n}") for n in sorted(names)]
        return modules, importlib.import_module("compare_targets")
    finally:
        sys.path.remove(str(FOLDER))
        os.environ.clear()
        os.environ.update(before)


MODULES, TARGETS = _load()


def _benchmarks():
    """Names as asv gives them."""
    for module in MODULES:
        short = module.__name__.split(".")[-1]
        for name, value in vars(module).items():
            if inspect.isfunction(value) and name.startswith(KINDS):
                yield f"{short}.{name}"
            if inspect.isclass(value) and not name.startswith("_"):
                yield from (
                    f"{short}.{name}.{method}"
                    for method in dir(value)
                    if method.startswith(KINDS)
                )


NAMES = sorted(_benchmarks())


def _choices(owner):
    params = getattr(owner, "params", ())
    return params if not params or isinstance(params[0], tuple) else (params,)


@pytest.fixture(scope="module")
def caches():
    return {}


def _is_slow(name):
    return name.split(".")[1] in ("GaussianProcessTuRBO", "Searches", "Sampling")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if _is_slow(n) else n for n in NAMES],
)
def test_benchmark_runs_at_its_smallest_size(name, caches, monkeypatch):
    monkeypatch.setenv("SKICML_BENCH", "full")
    owner, _ = TARGETS.find(name)
    for attribute, value in SMALL.get(type(owner).__name__, {}).items():
        monkeypatch.setattr(type(owner), attribute, value)
    cache = []
    if hasattr(owner, "setup_cache"):
        key = type(owner).__name__
        try:
            if key not in caches:
                caches[key] = owner.setup_cache()
        except NotImplementedError as missing:
            pytest.skip(str(missing))
        cache = [caches[key]]
    skipped = []
    for params in itertools.product(*_choices(owner)):
        try:
            value = TARGETS.measure(name, list(params), cache, repeats=1)
        except NotImplementedError as missing:
            skipped.append(str(missing))
        else:
            assert np.isfinite(value)
            return
    pytest.skip(skipped[0])


def test_benchmarks_are_checked_by_asv(tmp_path):
    pytest.importorskip("asv")
    # asv drops PYTHONPATH and takes this instead
    env = os.environ | {
        "SKICML_BENCH": "full",
        "ASV_PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "accel")]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "asv", "check", "--python=same"],
        cwd=FOLDER,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No problems found" in done.stdout


def test_quick_run_leaves_out_what_takes_minutes(monkeypatch):
    monkeypatch.delenv("SKICML_BENCH", raising=False)
    quick = runpy.run_path(str(FOLDER / "benchmarks" / "bench_quality.py"))
    assert "optimize" in quick
    assert not {"Functions", "Sampling", "Searches"} & set(quick)
    owner, _ = TARGETS.find("bench_optimize.GaussianProcessTuRBO.track_ratio_gp_turbo")
    with pytest.raises(NotImplementedError, match="SKICML_BENCH=full"):
        owner.setup(1_000, "adam")


@pytest.mark.parametrize("target", TARGETS.read_targets(), ids=str)
def test_target_names_a_benchmark_and_its_params(target):
    assert {"at_most", "at_least"} & set(target)
    assert target["benchmark"] in NAMES
    assert target.get("above", NAMES[0]) in NAMES
    owner, _ = TARGETS.find(target["benchmark"])
    choices = _choices(owner)
    params = target.get("params", [])
    assert len(params) == len(choices)
    for value, allowed in zip(params, choices, strict=True):
        assert value in allowed


@pytest.mark.parametrize(
    ("target", "value", "expected"),
    [
        ({"at_most": 1.0}, 0.9, "met"),
        ({"at_most": 1.0}, 1.1, "SHORT"),
        ({"at_most": 1.0}, float("nan"), "SHORT"),
        ({"at_most": 1.0, "goal": 0.5}, 0.9, "met, not the goal"),
        ({"at_most": 1.0, "goal": 0.5}, 0.4, "goal"),
        ({"at_least": -1.0, "goal": 0.0}, 0.1, "goal"),
        ({"at_least": 0.9, "at_most": 0.98}, 0.99, "SHORT"),
    ],
)
def test_verdict_compares_with_the_bounds(target, value, expected):
    assert TARGETS.verdict(target, value) == expected
