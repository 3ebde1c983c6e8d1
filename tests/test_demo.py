"""The demonstration: fair, complete, and what it writes."""

import os
import re
import runpy
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer
from sklearn.neighbors import NearestNeighbors

from skicml._methods import METHODS
from skicml.demo import Missing, Picture, Row, Setup, run
from skicml.demo import _enn_regressor as enn
from skicml.demo import _turbo_enn as turbo
from skicml.demo import _turbo_enn_search_cv as search
from skicml.demo._clock import one_thread, race
from skicml.demo._parts import format_ratio, format_score, format_seconds
from skicml.demo._table import COLUMNS, cells, make_table

READY = [method for method in METHODS if method.ready and method.demo]
ROOT = Path(__file__).parent.parent


# -- the whole of it, on little data --------------------------------------------------


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "output"
    setup = Setup(size="quick", repeats=1)
    return run(READY, setup, output=folder, console=Console(quiet=True)), folder


def test_demo_runs_every_method_that_is_ready(shown):
    report, _ = shown
    assert not report.failures
    assert not report.interrupted
    assert {row.method for row in report.rows} == {method.name for method in READY}


def test_demo_measures_finite_scores_and_positive_times(shown):
    for row in shown[0].rows:
        scores = [s for s in (row.score, row.peer_score) if s is not None]
        assert np.isfinite(scores).all()
        assert row.seconds > 0
        assert row.peer_seconds > 0


def test_demo_writes_a_page_whose_pictures_exist(shown):
    report, folder = shown

    class Sources(HTMLParser):
        found = ()

        def handle_starttag(self, tag, attrs):
            if tag == "img":
                self.found = (*self.found, dict(attrs))

    parser = Sources()
    page = (folder / "index.html").read_text(encoding="utf-8")
    parser.feed(page)
    files = [image["src"] for image in parser.found]
    assert files == [f"{picture.name}.png" for picture in report.pictures]
    assert len(set(files)) == len(files) >= 2 * len(READY)
    for name in files:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert all(image["alt"] for image in parser.found)
    for row in report.rows:
        assert row.data in page


def test_demo_pictures_say_what_they_show(shown):
    for picture in shown[0].pictures:
        assert picture.title.endswith("?")
        assert picture.sentence.endswith(".")
        assert "nan" not in picture.sentence
        for ax in picture.figure.axes:
            assert ax.get_ylabel()
            assert ax.get_xlabel() or ax.get_label() == "<colorbar>"


def test_demo_does_not_use_pyplot(shown):
    figures = [picture.figure for picture in shown[0].pictures]
    assert figures
    # pyplot would keep them alive through a manager
    assert all(figure.canvas.manager is None for figure in figures)


def test_demo_writes_nothing_and_draws_nothing_where_not_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    setup = Setup(size="quick", pictures=False, repeats=1)
    report = run(READY[:1], setup, console=Console(quiet=True))
    assert report.rows
    assert not report.pictures
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", [turbo, search])
def test_demo_names_peers_that_are_missing(module, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = next(module.show(Setup(size="quick", pictures=False)))
    assert isinstance(found, Missing)
    assert found.package == "optuna"


def test_progress_counts_every_step_that_was_expected(shown):
    expected, done = [], []
    setup = Setup(
        size="quick",
        pictures=False,
        repeats=1,
        expect=expected.append,
        advance=done.append,
    )
    for _ in search.show(setup):
        pass
    assert expected == [len(done)]


# -- fairness ------------------------------------------------------------------------


def test_race_takes_turns_and_keeps_the_first_result():
    calls = []

    def runner(name):
        calls.append(name)
        return len(calls)

    timed = race(
        Setup(repeats=3, budget=60.0),
        {"a": lambda: runner("a"), "b": lambda: runner("b")},
    )
    assert calls == ["a", "b"] * 3
    assert [timed[name].result for name in "ab"] == [1, 2]
    assert all(timed[name].seconds >= 0 for name in "ab")


def test_race_does_not_repeat_what_is_over_budget(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    calls = []
    race(Setup(repeats=5, budget=1.5), {"a": lambda: calls.append("a")})
    # each call takes a second of this clock
    assert len(calls) == 2


@pytest.mark.parametrize("before", [None, "7"])
def test_one_thread_limits_and_restores(before, monkeypatch):
    from skicml_accel._chunks import n_threads

    if before is None:
        monkeypatch.delenv("SKICML_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("SKICML_NUM_THREADS", before)
    with one_thread():
        assert n_threads() == 1
    assert os.environ.get("SKICML_NUM_THREADS") == before


@pytest.mark.parametrize(
    "optimizer", [turbo._turbo_enn, turbo._evolution, turbo._random]
)
def test_every_optimizer_gets_equally_many_evaluations(optimizer):
    counted = []

    def fun(x):
        counted.append(x.copy())
        return float(((x - 0.3) ** 2).sum())

    bounds = np.array([[0.0, 1.0], [-1.0, 1.0], [0.0, 2.0]])
    problem = turbo.Problem("toy", "", "", fun, bounds)
    found = turbo._minimize(optimizer, problem, 47, seed=0)
    assert len(counted) == found.values.size == 47
    assert found.values.min() == fun(found.best)
    assert np.all((np.array(counted) >= bounds[:, 0]) & (counted <= bounds[:, 1]))


def test_every_search_gets_equally_many_settings_on_the_same_folds():
    problem = search._digits(Setup(size="quick"))
    again = search._digits(Setup(size="quick"))
    for (train, test), (train_2, test_2) in zip(
        problem.splits, again.splits, strict=True
    ):
        np.testing.assert_array_equal(train, train_2)
        np.testing.assert_array_equal(test, test_2)
    for run_search in (search._ours, search._random):
        settings, scores = run_search(problem, 0)
        assert len(settings) == scores.size == problem.n_settings


def test_neighbor_loss_equals_scikit_learn_left_out_one_by_one():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:40] / X.std(axis=0), y[:40]
    weights = np.random.default_rng(0).random(X.shape[1])
    # without queries scikit-learn leaves each row out of its own neighbors
    model = NearestNeighbors(n_neighbors=turbo.N_NEIGHBORS).fit(X * weights)
    votes = y[model.kneighbors(return_distance=False)].sum(axis=1)
    share = (votes + 0.5) / (turbo.N_NEIGHBORS + 1)
    losses = -np.log(np.where(y == 1, share, 1 - share))
    np.testing.assert_allclose(
        turbo._neighbor_loss(weights, X, y), np.mean(losses), rtol=1e-12
    )


def test_ackley_vanishes_at_its_shift_only():
    shift = np.random.default_rng(0).uniform(-10, 10, 5)
    assert turbo._ackley(shift, shift) == pytest.approx(0, abs=1e-14)
    assert turbo._ackley(shift + 0.1, shift) > 0.1


def test_cover_counts_targets_inside_central_intervals():
    rng = np.random.default_rng(0)
    y, mean, std = rng.standard_normal((3, 200))
    std = 0.1 + np.abs(std)
    levels = np.array([0.5, 0.95])
    expected = [
        np.mean(np.abs(y - mean) <= norm.ppf((1 + level) / 2) * std) for level in levels
    ]
    np.testing.assert_allclose(enn._cover(y, mean, std, levels), expected)


def test_folds_are_predicted_by_models_that_have_not_seen_them():
    class Mean:
        def get_params(self, deep=False):
            return {}

        def fit(self, X, y):
            self.seen = set(map(tuple, X))
            return self

        def predict(self, X, return_std):
            assert not self.seen & set(map(tuple, X))
            return X[:, 0], np.ones(len(X))

    rng = np.random.default_rng(0)
    mean, std = enn._predict_folds(Mean(), rng.random((30, 2)), rng.random(30))
    assert np.isfinite(mean).all()
    assert (std == 1).all()


# -- rows and their table ------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "peer_score", "aim", "lead"),
    [
        (0.5, 0.4, np.inf, 1),
        (0.5, 0.4, -np.inf, -1),
        (0.93, 0.99, 0.95, 1),
        (0.92, 0.96, 0.95, -1),
        # what reads the same is the same
        (0.50001, 0.49999, np.inf, 0),
        (None, None, np.inf, 0),
    ],
)
def test_lead_of_a_row(score, peer_score, aim, lead):
    assert Row("m", "d", "s", "p", score, peer_score, 1.0, 2.0, aim).lead == lead


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.00123, "1.2 ms"), (0.0996, "0.10 s"), (0.9951, "1.0 s"), (123.4, "123 s")],
)
def test_seconds_have_a_unit(seconds, text):
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.0, "0.0"), (0.0099, "0.0099"), (0.5, "0.50"), (12.4, "12"), (np.inf, "inf")],
)
def test_ratios_have_no_exponent(ratio, text):
    assert format_ratio(ratio) == text


def test_scores_that_are_large_have_one_decimal():
    assert (format_score(-1234.56), format_score(-0.0123)) == ("-1234.6", "-0.012")


@pytest.mark.parametrize("width", [80, 99, 100, 160])
def test_table_fits_the_terminal_and_loses_nothing(width, capsys):
    peer, data = "differential evolution", "breast cancer, 284 x 30"
    measure = "lowest log loss of 1,000, 3 runs"
    row = Row("TuRBOENNSearchCV", data, measure, peer, 0.104, 0.113, 2.4, 1.4, -np.inf)
    console = Console(width=width)
    console.print(make_table([row, row], width))
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= width
    words = set(re.split(r"\s+", output))
    for cell in cells(row):
        assert set(cell.split()) <= words


def test_cells_follow_the_columns():
    assert len(cells(Row("m", "d", "s", "p", None, None, 1.0, 2.0))) == len(COLUMNS)


def test_page_escapes_what_it_is_given(tmp_path):
    from skicml.demo._page import write_page
    from skicml.demo._run import Report

    class Figure:
        pass

    report = Report(
        rows=[Row("m", "<script>", "s", "p", 1.0, 2.0, 1.0, 2.0)],
        pictures=[Picture("name", 'a "quoted" title?', "1 < 2 $ & more.", Figure())],
        missing=[Missing("<b>", "x")],
    )
    page = write_page(report, tmp_path).read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "1 &lt; 2 $ &amp; more." in page
    assert 'alt="a &quot;quoted&quot; title? ' in page


# -- README --------------------------------------------------------------------------


def test_readme_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        script = tmp_path / f"example_{number}.py"
        script.write_text(block, encoding="utf-8")
        runpy.run_path(str(script))


def test_readme_links_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text) + re.findall(
        r'src="([^"]+)"', text
    )
    local = [link for link in links if "://" not in link]
    assert local
    assert [link for link in local if not (ROOT / link).exists()] == []
