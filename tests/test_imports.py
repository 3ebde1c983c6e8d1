"""What an import costs, and what it must not do."""

import json
import subprocess
import sys
import textwrap

import pytest

import skicml

# heavy packages that may only be loaded by the call that needs them
LATE = {
    "botorch",
    "cupy",
    "distributed",
    "gymnasium",
    "matplotlib",
    "networkx",
    "numba",
    "optuna",
    "ot",
    "torch",
    "triton",
}


def run(code):
    """Last line that the code prints in a fresh interpreter, from JSON."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(result.stdout.splitlines()[-1])


def roots(modules):
    return {name.partition(".")[0] for name in modules}


def test_import_skicml_loads_nothing_heavy():
    loaded = run("""
        import json, sys
        import skicml
        print(json.dumps(sorted(sys.modules)))
    """)
    assert not roots(loaded) & (LATE | {"numpy", "scipy", "sklearn", "pandas", "rich"})


def test_import_skicml_costs_little():
    code = """
        import time
        start = time.perf_counter()
        import skicml
        print(time.perf_counter() - start)
    """
    # the smallest tells the cost; the others tell what else is running
    assert min(run(code) for _ in range(5)) < 0.06


def test_import_loads_nothing_beyond_scikit_learn():
    loaded = run("""
        import json, sys
        import skicml.base, skicml.neighbors, skicml.optimize, skicml.transport
        repr(skicml.ENNRegressor())
        print(json.dumps(sorted(sys.modules)))
    """)
    assert not roots(loaded) & LATE
    # scikit-learn loads pandas and rich by itself where they are installed, so the
    # fair question is what comes on top of the same parts of scikit-learn
    theirs = [m for m in loaded if roots([m]) & {"numpy", "scipy", "sklearn", "joblib"}]
    alone = run(f"""
        import contextlib, importlib, json, sys
        for name in {theirs!r}:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        print(json.dumps(sorted(sys.modules)))
    """)
    ours = {"skicml", "skicml_accel", "array_api_compat"}
    third_party = roots(loaded) - roots(alone) - set(sys.stdlib_module_names)
    assert third_party <= ours | {"__mp_main__"}


def test_import_works_without_optional_packages():
    hidden = sorted(LATE - {"torch"} | {"pandas", "polars"})
    rows = run(f"""
        import sys
        from importlib.machinery import PathFinder
        class Hide(PathFinder):
            @classmethod
            def find_spec(cls, name, path=None, target=None):
                return None if name in {hidden!r} else PathFinder.find_spec(name, path)
        sys.meta_path = [Hide if f is PathFinder else f for f in sys.meta_path]
        import numpy as np
        from skicml import ENNRegressor
        X = np.linspace(0.0, 1.0, 30)[:, None]
        print(ENNRegressor(random_state=0).fit(X, X[:, 0]).predict(X).shape[0])
    """)
    assert rows == 30


def test_no_module_initialises_cuda():
    code = """
        import importlib, json, pkgutil, sys
        import skicml, skicml_accel
        skipped = []
        for package in (skicml, skicml_accel):
            prefix = package.__name__ + "."
            for module in pkgutil.walk_packages(package.__path__, prefix):
                try:
                    importlib.import_module(module.name)
                except ModuleNotFoundError as error:
                    if error.name.partition(".")[0] in ("skicml", "skicml_accel"):
                        raise
                    skipped.append(error.name)
        torch = sys.modules.get("torch")
        print(json.dumps([torch is not None and torch.cuda.is_initialized(), skipped]))
    """
    initialized, _ = run(code)
    assert not initialized


def test_misspelt_name_raises_in_the_usual_words():
    with pytest.raises(
        AttributeError, match=r"^module 'skicml' has no attribute 'ENNRegresor'$"
    ):
        skicml.ENNRegresor  # noqa: B018


@pytest.mark.parametrize("name", skicml.__all__)
def test_public_name_resolves_and_is_listed(name):
    assert getattr(skicml, name) is getattr(skicml, name)
    assert name in dir(skicml)
