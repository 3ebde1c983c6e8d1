"""Random streams, progress bars, optional packages, axes."""

import importlib

import numpy as np
import pytest

from skicml.base import Progress, check_axes, check_generator, optional_import


def test_check_generator_int_repeats():
    first, second = (check_generator(7).random(5) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (first != check_generator(8).random(5)).all()
    np.testing.assert_array_equal(first, check_generator(np.int64(7)).random(5))


def test_check_generator_takes_a_generator_as_it_is():
    rng = np.random.default_rng(0)
    assert check_generator(rng) is rng


def test_check_generator_random_state_is_advanced():
    def draws(state):
        return [check_generator(state).random() for _ in range(2)]

    first, second = draws(np.random.RandomState(0))
    assert first != second
    assert draws(np.random.RandomState(0)) == [first, second]


def test_check_generator_none_follows_the_global_seed():
    state = np.random.get_state()  # noqa: NPY002
    try:
        values = []
        for _ in range(2):
            np.random.seed(3)  # noqa: NPY002
            values.append([check_generator(None).random() for _ in range(2)])
    finally:
        np.random.set_state(state)  # noqa: NPY002
    assert values[0] == values[1]
    assert values[0][0] != values[0][1]


@pytest.mark.parametrize(
    ("value", "words"),
    [(-1, "must not be negative, got -1"), ("seed", "cannot be used to seed")],
)
def test_check_generator_refuses(value, words):
    with pytest.raises(ValueError, match=words):
        check_generator(value)


def test_progress_shows_values_on_standard_error(capfd):
    with Progress(3, "searching") as bar:
        bar.advance(best=0.5)
        bar.advance(2, best=0.123456, failed=1)
    out, err = capfd.readouterr()
    assert not out
    assert "searching" in err
    assert "3/3" in err
    assert "best 0.1235  failed 1" in err


def test_progress_without_total_and_two_at_once(capfd):
    with Progress(None, "outer") as outer, Progress(2, "inner") as inner:
        outer.advance()
        inner.advance()
    shown = capfd.readouterr().err
    assert "1/?" in shown
    assert "1/2" in shown


def test_progress_is_silent_when_disabled(capfd):
    with Progress(3, "searching", enabled=False) as bar:
        bar.advance(best=0.5)
    assert capfd.readouterr() == ("", "")


def test_progress_lets_exceptions_pass():
    with pytest.raises(KeyboardInterrupt), Progress(3, "searching") as bar:
        raise KeyboardInterrupt
    bar.advance()


def test_optional_import_returns_the_module():
    assert optional_import("numpy.linalg", "x", "y") is np.linalg


def test_optional_import_says_how_to_install():
    with pytest.raises(ImportError) as caught:
        optional_import("nowhere_to_be_found.part", needed_by="Thing", extra="rl")
    assert str(caught.value) == (
        "Thing needs the optional package 'nowhere_to_be_found', which is not "
        "installed. Install it with: pip install 'skicml[rl]'"
    )
    assert caught.value.name == "nowhere_to_be_found"


def test_optional_import_shows_the_error_of_a_broken_package(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import nowhere_to_be_found")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nowhere_to"):
        optional_import("half_installed", needed_by="Thing", extra="rl")


def test_check_axes_makes_a_figure_only_if_none_is_given():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    ax = check_axes(needed_by="a test")
    assert check_axes(ax, needed_by="a test") is ax
    assert pyplot.get_fignums() == [ax.figure.number]
    pyplot.close(ax.figure)


def test_check_axes_names_matplotlib_when_it_is_missing(monkeypatch):
    def fail(name):
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ImportError, match=r"a test needs .*'matplotlib'.*skicml\[plot"):
        check_axes(needed_by="a test")
