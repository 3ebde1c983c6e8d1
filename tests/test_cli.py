"""The console command: what it prints, and how it ends."""

import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import skicml
from skicml import _methods
from skicml._methods import METHODS, find_method
from skicml.cli import app
from skicml.demo import Missing, Row, _doctor, _enn_regressor
from skicml_accel import OPS
from skicml_accel._registry import Implementation

READY = [method.name for method in METHODS if method.ready]


def invoke(*arguments):
    return CliRunner().invoke(app, arguments)


def row(method="ENNRegressor"):
    return Row(method, "toy data", "R²", "a peer", 0.91, 0.72, 0.1, 0.2)


# -- list ----------------------------------------------------------------------------


def test_list_names_every_method_with_its_paper_and_status():
    result = invoke("list")
    assert result.exit_code == 0
    for method in METHODS:
        line = next(x for x in result.output.splitlines() if f" {method.name} " in x)
        assert (method.arxiv or "-") in line
        assert line.rstrip().endswith("ready" if method.ready else "planned")


def test_every_public_estimator_is_listed_and_has_a_demo():
    public = {name for name in skicml.__all__ if name[0].isupper()}
    assert public == set(READY)
    assert all(method.demo for method in METHODS if method.ready)


def test_list_is_quick_and_loads_nothing_heavy():
    code = """
        import sys
        from skicml.cli import app
        app(["list"], standalone_mode=False)
        heavy = {"numpy", "scipy", "sklearn", "torch", "numba", "matplotlib"}
        sys.exit(bool(heavy & set(sys.modules)))
    """
    code = "\n".join(line[8:] for line in code.splitlines())
    seconds = []
    for _ in range(3):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = os.times()
        # CPU time, for the clock on the wall tells what else is running
        seconds.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
    assert min(seconds) < 0.5


def test_version():
    assert invoke("--version").output == f"skicml {skicml.__version__}\n"


def test_without_a_command_help_is_shown():
    output = invoke().output
    assert all(command in output for command in ("list", "demo", "bench", "doctor"))


# -- names ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ENNRegressor", "ennregressor", "enn", "ENN"])
def test_name_is_found_by_its_beginning_whatever_the_capitals(name):
    assert find_method(name).name == "ENNRegressor"


def test_exact_name_wins_over_longer_ones():
    assert find_method("turboenn").name == "TuRBOENN"


@pytest.mark.parametrize("command", ["demo", "bench"])
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ENNRegresor", "There is no method named 'ENNRegresor'. Did you mean ENNReg"),
        ("xyz", "There is no method named 'xyz'. Choose ENNRegressor, TuRBOENN"),
        ("", "There is no method named ''. Choose ENNRegressor"),
        ("turbo", "'turbo' can be TuRBOENN or TuRBOENNSearchCV. Write out which."),
        ("YAQAQuantizer", "YAQAQuantizer is planned and cannot run yet. Choose"),
    ],
)
def test_wrong_name_gives_one_sentence_and_code_2(command, name, sentence, monkeypatch):
    # what is planned here will not be so for ever
    planned = [m for m in METHODS if m.name == "YAQAQuantizer" or m.ready]
    monkeypatch.setattr(_methods, "METHODS", planned)
    monkeypatch.setattr(skicml, "__all__", [m for m in READY if m != "YAQAQuantizer"])
    result = invoke(command, name)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1


# -- doctor --------------------------------------------------------------------------


def test_doctor_shows_versions_machine_and_every_implementation():
    result = invoke("doctor")
    assert result.exit_code == 0
    assert re.search(rf"skicml +{re.escape(skicml.__version__)}", result.output)
    for name in ("numpy", "torch", "numba", "triton", "threads of our kernels", "CUDA"):
        assert name in result.output
    for name, op in OPS.items():
        start = result.output.index(f" {name} ")
        for implementation in op.implementations:
            assert f" {implementation.name} " in result.output[start:]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (
            {"requires": ("no_such_package",)},
            "package 'no_such_package' is not installed",
        ),
        ({}, "ModuleNotFoundError: No module named 'no_such_module'"),
        ({"target": "math:sqrt"}, None),
    ],
)
def test_obstacle_says_why_an_implementation_cannot_run(rules, reason):
    rules = {"target": "no_such_module:function", **rules}
    assert _doctor.obstacle(Implementation("toy", **rules)) == reason


def test_obstacle_without_a_gpu(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    implementation = Implementation("toy", "math:sqrt", devices={"cuda"})
    assert _doctor.obstacle(implementation) == "no CUDA device"


def test_doctor_says_how_to_get_a_missing_package(monkeypatch):
    monkeypatch.setattr(_doctor, "_version", lambda name: None)
    found = dict(_doctor.versions())
    assert found["numba"] == (
        "not installed; compiled kernels on the CPU: pip install 'skicml[numba]'"
    )
    assert found["numpy"].startswith("MISSING")


# -- demo and bench ------------------------------------------------------------------


def test_demo_prints_the_table_and_names_the_page(monkeypatch, tmp_path):
    asked = []

    def show(setup):
        asked.append(setup)
        yield row()
        yield Missing("no_such_package", "a comparison")

    monkeypatch.setattr(_enn_regressor, "show", show)
    result = invoke("demo", "enn", "--output", str(tmp_path / "new" / "folder"))
    assert result.exit_code == 0
    assert re.search(r"toy data +R² ↑ +0\.910 +0\.720 +a peer", result.output)
    assert re.search(r"0\.10 s +0\.20 s +0\.50", result.output)
    assert "pip install no_such_package" in result.output
    assert str(tmp_path / "new" / "folder" / "index.html") in result.output
    assert (tmp_path / "new" / "folder" / "index.html").exists()
    assert (asked[0].size, asked[0].pictures) == ("normal", True)


def test_demo_full_takes_more(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        _enn_regressor, "show", lambda setup: asked.append(setup) or iter(())
    )
    assert invoke("demo", "enn", "-o", str(tmp_path), "--full").exit_code == 0
    assert asked[0].size == "full"


def test_demo_interrupted_keeps_what_is_finished(monkeypatch, tmp_path):
    def show(setup):
        yield row()
        raise KeyboardInterrupt

    monkeypatch.setattr(_enn_regressor, "show", show)
    # the methods after it are not begun
    result = invoke("demo", "--output", str(tmp_path))
    assert result.exit_code == 130
    assert "0.910" in result.output
    assert "interrupted" in result.output
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "<b>0.910</b>" in page
    assert "interrupted" in page


def test_demo_of_a_method_that_fails_keeps_the_rest(monkeypatch, tmp_path):
    def show(setup):
        yield row()
        raise RuntimeError("no such luck")

    ready = find_method("enn")
    monkeypatch.setattr("skicml.cli.METHODS", [ready])
    monkeypatch.setattr(_enn_regressor, "show", show)
    result = invoke("demo", "--output", str(tmp_path))
    assert result.exit_code == 1
    assert "0.910" in result.output
    assert "ENNRegressor broke off with RuntimeError: no such luck" in result.output
    assert "no such luck" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_demo_without_matplotlib_says_so(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        _enn_regressor, "show", lambda setup: asked.append(setup) or iter(())
    )
    monkeypatch.setattr("skicml.cli.find_spec", lambda name: None)
    result = invoke("demo", "enn", "--output", str(tmp_path))
    assert result.exit_code == 0
    assert "pip install 'skicml[plot]'" in result.output
    assert not asked[0].pictures


def test_demo_refuses_a_file_as_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    result = invoke("demo", "enn", "--output", str(file))
    assert result.exit_code == 2
    # the words stand in a box
    assert "is a file" in " ".join(result.stderr.replace("│", " ").split())


def test_bench_repeats_and_draws_nothing(monkeypatch, tmp_path):
    asked = []

    def show(setup):
        asked.append(setup)
        yield row()

    monkeypatch.setattr(_enn_regressor, "show", show)
    monkeypatch.chdir(tmp_path)
    result = invoke("bench", "enn", "--repeats", "7")
    assert result.exit_code == 0
    assert "0.910" in result.output
    assert (asked[0].repeats, asked[0].pictures) == (7, False)
    assert list(tmp_path.iterdir()) == []


def test_bench_refuses_no_repeats():
    assert invoke("bench", "enn", "--repeats", "0").exit_code == 2
