"""Which implementation runs, and what is said about the others."""

import logging
import subprocess
import sys

import numpy as np
import pytest
import torch

import skicml_accel
from skicml_accel import _registry, use_implementation
from skicml_accel.neighbors import enn_posterior, knn


@pytest.fixture(autouse=True)
def nothing_forced(monkeypatch):
    """Let these tests choose, also in a run that forces an implementation."""
    monkeypatch.delenv("SKICML_ACCEL_IMPL", raising=False)


@pytest.fixture
def double(monkeypatch):
    """Make an operation whose implementations betray themselves by wrong results."""
    monkeypatch.setattr(_registry, "OPS", {})

    @_registry.op
    def double(x, *, twice=True):
        """Twice the number."""
        return 2 * x

    return double


def test_reference_runs_when_nothing_else_is_there(double):
    assert double(np.array([3.0])) == 6
    assert double.explain(np.array([3.0])) == {"reference": "chosen"}


def test_op_looks_like_its_reference(double):
    assert double.__name__ == "double"
    assert double.__doc__ == "Twice the number."


def test_first_able_implementation_wins(double):
    double.implementation("negative", "numpy:negative")
    double.implementation("square", "numpy:square")
    assert double(np.array([3.0])) == -3
    assert double.explain(np.array([3.0])) == {
        "negative": "chosen",
        "square": "able",
        "reference": "able",
    }


def test_implementation_added_later_is_seen(double):
    assert double(np.array([3.0])) == 6
    double.implementation("negative", "numpy:negative")
    assert double(np.array([3.0])) == -3


def test_explain_gives_reasons_in_words(double):
    rules = {
        "kind": {"kinds": {"torch", "cupy"}},
        "device": {"devices": {"cuda"}},
        "dtype": {"dtypes": {"float32"}},
        "package": {"requires": ("no_such_package",)},
        "argument": {"accepts": lambda x, **_: "x is odd" if x[0] % 2 else None},
        "profit": {"pays": lambda x, **_: "x is small" if x[0] < 9 else None},
    }
    for name, rule in rules.items():
        double.implementation(name, "no_such_module:function", **rule)
    assert double.explain(np.array([3.0])) == {
        "kind": "array kind 'numpy' not in ['cupy', 'torch']",
        "device": "device 'cpu' not in ['cuda']",
        "dtype": "dtype 'float64' not in ['float32']",
        "package": "package 'no_such_package' is not installed",
        "argument": "x is odd",
        "profit": "x is small",
        "reference": "chosen",
    }


def test_rules_see_the_arguments_of_the_call(double):
    double.implementation(
        "negative", "numpy:negative", accepts=lambda x, *, twice=True: twice or None
    )
    assert double(np.array([3.0]), twice=True) == 6


def test_nothing_is_imported_before_it_is_chosen(double):
    double.implementation("absent", "no_such_module:f", kinds={"torch"})
    assert double(np.array([3.0])) == 6
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        double(torch.tensor([3.0]))


def test_forced_implementation_runs(double):
    double.implementation("negative", "numpy:negative")
    double.implementation("square", "numpy:square")
    with use_implementation("square"):
        assert double(np.array([3.0])) == 9
        with use_implementation("reference"):
            assert double(np.array([3.0])) == 6
        assert double(np.array([3.0])) == 9
    assert double(np.array([3.0])) == -3


def test_forced_implementation_is_released_after_an_error(double):
    double.implementation("negative", "numpy:negative")
    with pytest.raises(ZeroDivisionError), use_implementation("reference"):
        raise ZeroDivisionError
    assert double(np.array([3.0])) == -3


def test_forced_implementation_need_not_pay(double):
    double.implementation("negative", "numpy:negative", pays=lambda *_: "too small")
    assert double(np.array([3.0])) == 6
    with use_implementation("negative"):
        assert double(np.array([3.0])) == -3


def test_forced_implementation_refuses_with_its_reason(double):
    double.implementation("negative", "numpy:negative", devices={"cuda"})
    message = (
        r"double: implementation 'negative' was requested but device 'cpu' "
        r"not in \['cuda'\]\."
    )
    with (
        use_implementation("negative"),
        pytest.raises(RuntimeError, match=message),
    ):
        double(np.array([3.0]))


def test_environment_forces_an_implementation(double, monkeypatch):
    double.implementation("negative", "numpy:negative")
    monkeypatch.setenv("SKICML_ACCEL_IMPL", "reference")
    assert double(np.array([3.0])) == 6
    with use_implementation("negative"):
        assert double(np.array([3.0])) == -3


def test_environment_does_not_concern_ops_without_it(double, monkeypatch):
    monkeypatch.setenv("SKICML_ACCEL_IMPL", "triton")
    assert double(np.array([3.0])) == 6


def test_unknown_implementation_is_an_error():
    with (
        pytest.raises(ValueError, match=r"named 'nubma'.*'blas'.*'numba'"),
        use_implementation("nubma"),
    ):
        pass


def test_choice_is_logged(double, caplog):
    with caplog.at_level(logging.DEBUG, logger="skicml"):
        double(np.array([3.0]))
    assert "double: reference on ('numpy', 'cpu', 'float64')" in caplog.text


def test_mixed_homes_are_listed():
    message = (
        "knn: all arrays must share library and device, but query is numpy on cpu, "
        "data is torch on cpu. Move them to one place first."
    )
    with pytest.raises(TypeError, match=message):
        knn(np.zeros((2, 1)), torch.zeros(3, 1), k=1)
    with pytest.raises(TypeError, match="index is numpy on cpu"):
        enn_posterior(
            torch.zeros(2, 1),
            np.zeros((2, 1), int),
            torch.zeros(3, 1),
            epistemic_scale=torch.ones(1),
            aleatoric_variance=torch.ones(1),
            y_scale=torch.ones(1),
        )


def test_knn_explains_itself_on_large_numpy_input():
    pytest.importorskip("numba")
    query, data = np.zeros((1000, 20)), np.zeros((1000, 20))
    answer = knn.explain(query, data, k=3)
    assert list(answer) == ["numba", "blas", "sparse", "triton", "torch", "reference"]
    assert answer["numba"] == "chosen"
    assert answer["blas"] == "able"
    assert answer["sparse"] == "array kind 'numpy' not in ['scipy.sparse']"


def test_knn_spares_the_compiler_for_small_input(monkeypatch):
    # once the compiler is there, it is used
    monkeypatch.delitem(sys.modules, "skicml_accel.neighbors._knn_numba", False)
    answer = knn.explain(np.zeros((2, 3)), np.zeros((4, 3)), k=1)
    assert answer["numba"] == "24 multiply-adds are too few to load a compiler for"
    assert answer["blas"] == "chosen"


def test_knn_with_gradients_runs_in_torch():
    query = torch.zeros(1000, 20, requires_grad=True)
    answer = knn.explain(query, torch.zeros(1000, 20), k=3)
    assert answer["blas"] == "gradients are asked for"
    assert answer["torch"] == "chosen"


def test_kernels_import_nothing_heavy():
    heavy = {"torch", "triton", "cupy", "numba", "sklearn", "pandas", "matplotlib"}
    code = (
        "import sys, skicml_accel.neighbors, skicml_accel.optimize\n"
        f"sys.exit(' '.join({heavy!r} & set(sys.modules)) or 0)"
    )
    root = skicml_accel.__path__[0].rpartition("skicml_accel")[0]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
