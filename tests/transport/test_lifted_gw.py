"""LiftedGWAligner: invariances, quality, numerical range, bad input, conventions."""

import io
import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skicml import LiftedGWAligner
from skicml.transport import pairwise_egw

SHARP = {
    "dtype": "float64",
    "tol": 1e-10,
    "sinkhorn_tol": 1e-9,
    "sinkhorn_max_iter": 5000,
}
SOLVERS = ("kernel", "cnt", "multiscale")


def clouds(seed=0, n=60, m=50):
    """Two different ellipsoids."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) * [3, 2, 1], rng.normal(size=(m, 2)) * [3, 1.5]


def turned(X, seed=0, noise=0.0):
    """Turn a cloud and mix its rows; also returns where each row went."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    Q = np.linalg.qr(rng.normal(size=(X.shape[1],) * 2))[0]
    return ((X + noise * rng.normal(size=X.shape)) @ Q)[order], np.argsort(order)


def bent(n=300, seed=0):
    """Make a cloud that no turn or reflection maps onto itself."""
    rng = np.random.default_rng(seed)
    t = rng.random(n)
    return np.column_stack(
        [np.cos(4 * t) * (1 + t), np.sin(4 * t) * (1 + t), rng.random(n) / 2]
    )


def quiet(**params):
    return LiftedGWAligner(**{"n_components": 10, "random_state": 0, **params})


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("cost", ["euclidean", "sqeuclidean", "cityblock"])
def test_plan_has_its_marginals_and_matching_its_largest_entries(solver, cost):
    X, Y = clouds()
    rng = np.random.default_rng(1)
    a, b = rng.random(60), rng.random(50)
    a, b = a / a.sum(), b / b.sum()
    found = quiet(cost=cost, solver=solver, epsilon=0.05).fit(
        X, Y, source_weight=a, target_weight=b
    )
    P = found.plan()
    np.testing.assert_allclose(P.sum(axis=1), a, rtol=1e-6)
    error = np.abs(P.sum(axis=0) - b).sum()
    assert found.marginal_error_ == pytest.approx(error, abs=1e-9)
    assert error <= 1.01 * found.sinkhorn_tol
    np.testing.assert_array_equal(found.matching_, P.argmax(axis=1))
    np.testing.assert_allclose(found.aligned_, P @ Y / a[:, None], atol=1e-9)
    f, g = found.potentials_
    assert f.shape == (60,)
    assert g.shape == (50,)


def test_costs_are_those_of_pot():
    ot = pytest.importorskip("ot")
    X, Y = clouds()
    found = quiet(cost="sqeuclidean", epsilon=0.02, **SHARP).fit(X, Y)
    Cx, Cy = cdist(X, X, "sqeuclidean"), cdist(Y, Y, "sqeuclidean")
    P = found.plan()
    a, b = P.sum(axis=1), P.sum(axis=0)
    constC, hC1, hC2 = ot.gromov.init_matrix(Cx, Cy, a, b, "square_loss")
    expected = ot.gromov.gwloss(constC, hC1, hC2, P)
    assert found.gw_ == pytest.approx(expected, rel=1e-6)
    assert found.exact_gw() == pytest.approx(expected, rel=1e-9)


def test_squared_costs_are_the_same_problem_in_every_form():
    X, Y = clouds()
    found = [
        quiet(cost=cost, solver=solver, epsilon=0.02, **SHARP).fit(*data)
        for cost, solver, data in (
            ("sqeuclidean", "cnt", (X, Y)),
            ("sqeuclidean", "kernel", (X, Y)),
            (lambda U, V: cdist(U, V, "sqeuclidean"), "cnt", (X, Y)),
            (
                "precomputed",
                "kernel",
                (cdist(X, X, "sqeuclidean"), cdist(Y, Y, "sqeuclidean")),
            ),
            (
                ("precomputed", "sqeuclidean"),
                "cnt",
                (cdist(X, X, "sqeuclidean"), Y),
            ),
        )
    ]
    for other in found[1:]:
        assert other.egw_ == pytest.approx(found[0].egw_, rel=1e-6)
        np.testing.assert_allclose(other.plan(), found[0].plan(), atol=1e-5)


@pytest.mark.parametrize("solver", ["kernel", "cnt"])
def test_turning_and_moving_a_space_changes_nothing(solver):
    X, Y = clouds()
    Q = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    plain = quiet(solver=solver, **SHARP).fit(X, Y)
    moved = quiet(solver=solver, **SHARP).fit(X @ Q + 7, Y - 3)
    assert moved.egw_ == pytest.approx(plain.egw_, rel=1e-4)
    np.testing.assert_allclose(moved.plan(), plain.plan(), atol=1e-5)


def test_order_of_rows_carries_over():
    X, Y = clouds()
    rng = np.random.default_rng(3)
    rows, columns = rng.permutation(60), rng.permutation(50)
    plain = quiet(**SHARP).fit(X, Y).plan()
    mixed = quiet(**SHARP).fit(X[rows], Y[columns]).plan()
    np.testing.assert_allclose(mixed, plain[np.ix_(rows, columns)], atol=1e-6)


def test_swapping_the_spaces_transposes_the_plan():
    X, Y = clouds()
    plain, swapped = (
        quiet(epsilon=0.05, **SHARP).fit(*data) for data in ((X, Y), (Y, X))
    )
    assert swapped.egw_ == pytest.approx(plain.egw_, rel=1e-6)
    np.testing.assert_allclose(swapped.plan().T, plain.plan(), atol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 40.0])
def test_results_are_in_squared_units_of_the_cost(scale):
    X, Y = clouds()
    plain, larger = quiet(**SHARP).fit(X, Y), quiet(**SHARP).fit(scale * X, scale * Y)
    for name in ("gw_", "egw_"):
        expected = scale**2 * getattr(plain, name)
        assert getattr(larger, name) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(
        larger.energy_curve_, scale**2 * plain.energy_curve_, rtol=1e-6
    )
    np.testing.assert_allclose(larger.gamma_, scale * plain.gamma_, atol=1e-5 * scale)
    assert larger.score(scale * X) == pytest.approx(plain.score(X))


def test_separate_scales_ignore_size():
    X, _ = clouds()
    found = quiet(cost_scale="separate", epsilon=0.01, **SHARP).fit(X, 100 * X)
    same = quiet(cost_scale="separate", epsilon=0.01, **SHARP).fit(X, X)
    assert found.egw_ == pytest.approx(same.egw_, rel=1e-6)


@pytest.mark.parametrize("solver", ["kernel", "cnt"])
def test_a_repeated_row_is_a_row_of_twice_the_weight(solver):
    X, Y = clouds()
    rows = np.r_[np.arange(60), np.arange(5)]
    weight = np.bincount(rows) / 65
    repeated = quiet(solver=solver, **SHARP).fit(X[rows], Y)
    weighted = quiet(solver=solver, **SHARP).fit(X, Y, source_weight=weight)
    assert repeated.egw_ == pytest.approx(weighted.egw_, rel=1e-6)
    merged = np.zeros((60, 50))
    np.add.at(merged, rows, repeated.plan())
    np.testing.assert_allclose(merged, weighted.plan(), atol=1e-6)


def test_a_row_without_weight_has_no_mass_but_an_image():
    X, Y = clouds()
    weight = np.r_[np.zeros(5), np.ones(55)] / 55
    found = quiet(**SHARP).fit(X, Y, source_weight=weight)
    without = quiet(**SHARP).fit(X[5:], Y)
    P = found.plan()
    assert (P[:5] == 0).all()
    np.testing.assert_allclose(P[5:], without.plan(), atol=1e-6)
    np.testing.assert_allclose(
        found.transform(X[:5]), without.transform(X[:5]), atol=1e-5
    )


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(3))
def test_a_turned_cloud_is_recognized(solver, seed):
    X = bent(300, seed)
    Y, truth = turned(X, seed)
    found = LiftedGWAligner(
        solver=solver, epsilon=1e-3, n_init=9, random_state=seed
    ).fit(X, Y)
    # half of the rows have a neighbor within a hundredth of the extent
    assert np.linalg.norm(Y[found.matching_] - Y[truth], axis=1).mean() < 0.05
    assert np.linalg.norm(found.aligned_ - Y[truth], axis=1).mean() < 0.1


def test_new_rows_follow_the_fitted_ones():
    X = bent(400)
    Y, truth = turned(X)
    found = LiftedGWAligner(epsilon=1e-3, n_init=9, random_state=0).fit(X[::2], Y)
    gap = np.linalg.norm(found.transform(X[1::2]) - Y[truth][1::2], axis=1)
    # rows are about 0.2 apart, and the cloud is 4 wide
    assert gap.mean() < 0.2
    back = np.linalg.norm(found.inverse_transform(Y[truth][1::2]) - X[1::2], axis=1)
    assert back.mean() < 0.2
    # fitted rows are rows like any other
    np.testing.assert_allclose(found.transform(X[::2]), found.aligned_, atol=1e-6)
    np.testing.assert_array_equal(found.predict(X[::2]), found.matching_)


def test_explore_finds_the_symmetries_of_a_rectangle():
    grid = np.stack(np.meshgrid(np.arange(8.0), 1.2 * np.arange(5.0)), -1).reshape(
        -1, 2
    )
    found = LiftedGWAligner(n_components=10, epsilon=5e-3, random_state=0).fit(
        grid, grid
    )
    minima = found.explore(24, random_state=0)
    assert sum(entry.count for entry in minima) == 24
    best = minima[0].egw
    tied = [e for e in minima if e.egw <= best + 1e-3 * found.scale_[0] ** 2]
    maps = {tuple(e.matching) for e in tied}
    rows = np.arange(40).reshape(5, 8)
    group = {
        tuple(x.ravel()) for x in (rows, rows[::-1], rows[:, ::-1], rows[::-1, ::-1])
    }
    assert maps == group
    assert found.minima_ is minima


def test_more_starts_never_end_higher():
    X, Y = clouds(4)
    single = quiet(**SHARP).fit(X, Y)
    several = quiet(n_init=9, **SHARP).fit(X, Y)
    assert several.egw_ <= single.egw_ * (1 + 1e-9)
    assert sum(entry.count for entry in several.minima_) == 9
    assert several.minima_[0].egw == min(entry.egw for entry in several.minima_)


def test_multiscale_ends_where_one_scale_does():
    X = bent(900)
    Y, _ = turned(X, noise=0.01)
    one, two = (
        LiftedGWAligner(solver=s, epsilon=5e-3, random_state=0).fit(X, Y)
        for s in ("cnt", "multiscale")
    )
    assert two.egw_ <= 1.02 * one.egw_
    assert two.converged_


def test_debiasing_makes_equal_spaces_equal():
    X, Y = clouds()
    params = {"n_components": 10, "epsilon": 0.05, "dtype": "float64", "n_init": 9}
    same = LiftedGWAligner(debias=True, **params).fit(X, X[::-1])
    other = LiftedGWAligner(debias=True, **params).fit(X, Y)
    assert abs(same.debiased_) < 1e-6 * same.egw_
    assert other.debiased_ > 0.01 * other.egw_
    D = pairwise_egw([X, Y, X[::-1]], debias=True, n_jobs=2, **params)
    assert D[0, 1] == pytest.approx(other.debiased_)
    assert D[0, 2] == pytest.approx(0, abs=1e-6 * same.egw_)


def test_annealing_reaches_the_epsilon_asked_for():
    X = bent(100)
    Y, _ = turned(X, noise=0.02)
    found = LiftedGWAligner(epsilon=2e-3, anneal=True).fit(X, Y)
    assert found.converged_
    P = found.plan()
    divergence = np.sum(P[P > 0] * np.log(P[P > 0] * P.size))
    reached = (found.egw_ - found.gw_) / divergence
    assert reached == pytest.approx(2e-3 * found.scale_[0] ** 2, rel=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("eps", [1e-4, 1e-3, 1e-2, 1e-1, 1.0])
def test_no_epsilon_gives_nan(solver, dtype, eps):
    X = bent(250)
    Y, _ = turned(X, noise=0.01)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = LiftedGWAligner(
            solver=solver, dtype=dtype, epsilon=eps, random_state=0
        ).fit(X.astype(dtype), Y.astype(dtype))
    P = found.plan()
    assert np.isfinite(P).all()
    assert P.sum() == pytest.approx(1, rel=1e-4)
    for name in ("gw_", "egw_", "marginal_error_"):
        assert np.isfinite(getattr(found, name))
    if found.marginal_error_ > 1.01 * found.sinkhorn_tol:
        messages = [str(w.message) for w in told if w.category is ConvergenceWarning]
        assert any("sinkhorn_max_iter" in m for m in messages)
        assert not found.converged_


@pytest.mark.parametrize("scale", [1e-70, 1e70])
def test_any_unit_of_length_gives_the_same_plan(scale):
    X, Y = clouds()
    plain = quiet(epsilon=0.02).fit(X, Y)
    other = quiet(epsilon=0.02).fit(scale * X, scale * Y)
    assert np.isfinite(other.minima_[0].gamma).all()
    assert np.isfinite(other.explore(2, random_state=0)[0].gamma).all()
    np.testing.assert_allclose(other.plan(), plain.plan(), atol=1e-5)


def test_rows_that_are_all_equal_are_spread_evenly():
    X, Y = np.ones((5, 2)), np.ones((4, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = LiftedGWAligner().fit(X, Y)
    np.testing.assert_allclose(found.plan(), 1 / 20, atol=1e-9)
    assert found.egw_ == pytest.approx(0, abs=1e-12)


def test_plan_in_parts_and_as_an_operator():
    X, Y = clouds()
    found = quiet().fit(X, Y)
    P = found.plan()
    np.testing.assert_allclose(found.plan([3, 1]), P[[3, 1]])
    np.testing.assert_allclose(found.plan(slice(0, 7)), P[:7])
    np.testing.assert_allclose(found.plan(4), P[[4]])
    operator = found.plan_operator_
    rng = np.random.default_rng(0)
    v, V, w = rng.normal(size=50), rng.normal(size=(50, 3)), rng.normal(size=60)
    np.testing.assert_allclose(operator @ v, P @ v, atol=1e-12)
    np.testing.assert_allclose(operator @ V, P @ V, atol=1e-12)
    np.testing.assert_allclose(operator.T @ w, P.T @ w, atol=1e-9)


def test_large_plans_are_refused_with_the_way_out(monkeypatch):
    X, Y = clouds()
    found = quiet().fit(X, Y)
    monkeypatch.setattr("skicml.transport._lifted_gw.LARGEST_PLAN", 2_999)
    with pytest.raises(
        ValueError, match=r"60 x 50 .* plan\(rows=...\) or plan_operator_"
    ):
        found.plan()
    assert found.plan(range(59)).shape == (59, 50)
    monkeypatch.setattr("skicml.transport._lifted_gw.LARGEST_EXACT", 59)
    with pytest.raises(ValueError, match="exact_gw takes up to 59 rows, got 60"):
        found.exact_gw()


def test_score_prefers_the_right_rotation():
    X = bent(300)
    Y, _ = turned(X, noise=0.01)
    good = LiftedGWAligner(epsilon=1e-3, n_init=9, random_state=0).fit(X, Y)
    bad = LiftedGWAligner(epsilon=1.0).fit(X, Y)
    assert bad.score(X) < good.score(X) <= 0
    gap = cdist(X, X) - cdist(Y, Y)[np.ix_(good.matching_, good.matching_)]
    mean_square = (np.mean(cdist(X, X) ** 2) + np.mean(cdist(Y, Y) ** 2)) / 2
    assert good.score(X) == pytest.approx(-np.mean(gap**2) / mean_square, rel=1e-6)


def test_grid_search_chooses_by_score():
    X = bent(120)
    Y, _ = turned(X)
    search = GridSearchCV(
        LiftedGWAligner(n_components=8, n_init=9, random_state=0),
        {"epsilon": [1e-3, 1.0]},
        cv=[(np.arange(120), np.arange(120))],
        n_jobs=2,
    )
    # y has a row for each of X here, as the splitter demands
    search.fit(X, Y)
    assert search.best_params_ == {"epsilon": 1e-3}


def test_pipeline_takes_spaces_of_different_sizes():
    X, Y = clouds()
    model = make_pipeline(StandardScaler(), LiftedGWAligner(n_components=10)).fit(X, Y)
    assert model.transform(X).shape == (60, 2)
    assert model[:-1].transform(X).shape == (60, 3)


def test_frames_keep_their_names():
    X, Y = clouds()
    X, Y = pd.DataFrame(X, columns=list("abc")), pd.DataFrame(Y, columns=["u", "v"])
    found = quiet().fit(X, Y).set_output(transform="pandas")
    assert list(found.transform(X).columns) == ["u", "v"]
    assert list(found.get_feature_names_out()) == ["u", "v"]
    plain = quiet().fit(X, Y.to_numpy())
    assert list(plain.get_feature_names_out()) == [
        "liftedgwaligner0",
        "liftedgwaligner1",
    ]


def test_a_vector_is_a_space_on_a_line():
    rng = np.random.default_rng(0)
    x = np.sort(rng.gamma(2.0, size=80))
    found = LiftedGWAligner(n_components=20, epsilon=1e-3, n_init=9).fit(
        x[:, None], 2 + x[::-1]
    )
    assert found.transform(x[:, None]).shape == (80, 1)
    assert np.abs(found.aligned_[:, 0] - 2 - x).mean() < 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_come_back_as_tensors(dtype):
    X, Y = clouds()
    expected = quiet(epsilon=0.05, **SHARP).fit(X, Y)
    tensors = torch.from_numpy(X).to(dtype), torch.from_numpy(Y).to(dtype)
    found = quiet(epsilon=0.05, **SHARP).fit(*tensors)
    assert isinstance(found.gamma_, torch.Tensor)
    assert found.gamma_.dtype == found.plan().dtype == dtype
    assert found.matching_.dtype == torch.int64
    np.testing.assert_allclose(found.plan().numpy(), expected.plan(), atol=1e-4)
    np.testing.assert_allclose(
        found.transform(tensors[0]).numpy(), expected.transform(X), atol=1e-2
    )


def test_pickles_and_clones_are_as_good(tmp_path):
    X, Y = clouds()
    found = quiet().fit(X, Y)
    copy = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(copy.transform(X), found.transform(X))
    np.testing.assert_array_equal(copy.plan(), found.plan())
    again = clone(found).fit(X, Y)
    np.testing.assert_array_equal(again.plan(), found.plan())


def test_warm_start_goes_on():
    X = bent(200)
    Y, _ = turned(X, noise=0.02)
    short = LiftedGWAligner(
        solver="cnt", max_iter=3, sinkhorn_tol=1e-7, warm_start=True, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = short.fit(X, Y).egw_
        for _ in range(10):
            short.fit(X, Y)
    assert short.egw_ <= first
    whole = LiftedGWAligner(solver="cnt", random_state=0, tol=1e-8).fit(X, Y)
    assert short.egw_ == pytest.approx(whole.egw_, rel=1e-2)
    # other shapes start afresh
    short.set_params(n_components=5).fit(X, Y)
    assert short.gamma_.shape == (5, 5)


@pytest.mark.parametrize("at", [1, 4])
def test_interrupted_fit_keeps_its_best_state(monkeypatch, at):
    from skicml.transport import _egw_search

    X = bent(200)
    Y, _ = turned(X)
    found = LiftedGWAligner(tol=0, random_state=0, n_init=3)
    settled, calls = _egw_search.settled, itertools.count(1)

    def check(*args):
        if next(calls) == at:
            raise KeyboardInterrupt
        return settled(*args)

    monkeypatch.setattr(_egw_search, "settled", check)
    with pytest.raises(KeyboardInterrupt):
        found.fit(X, Y)
    assert found.n_iter_ == at
    assert np.isfinite(found.egw_)
    np.testing.assert_allclose(found.plan().sum(axis=1), 1 / 200, rtol=1e-6)


def test_unfinished_loops_name_their_parameter():
    X = bent(200)
    Y, _ = turned(X, noise=0.02)
    with pytest.warns(ConvergenceWarning, match="sinkhorn_max_iter"):
        found = LiftedGWAligner(epsilon=1e-3, sinkhorn_max_iter=2).fit(X, Y)
    assert not found.converged_
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        LiftedGWAligner(max_iter=1).fit(X, Y)


@pytest.mark.parametrize("verbose", [0, 1])
def test_progress_is_shown_when_asked_for(monkeypatch, verbose):
    X, Y = clouds()
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    quiet(verbose=verbose).fit(X, Y)
    text = stream.getvalue()
    assert bool(text) == bool(verbose)
    assert not verbose or "LiftedGWAligner: 60 x 50 rows, solver" in text


def test_settings_that_do_not_fit_warn():
    X, Y = clouds()
    with pytest.warns(UserWarning, match="n_components=80 exceeds the 59 axes"):
        found = LiftedGWAligner(n_components=80, solver="cnt").fit(X, Y)
    assert found.gamma_.shape[0] <= 59
    with pytest.warns(UserWarning, match="Raise n_components"):
        LiftedGWAligner(
            "gaussian", cost_params={"sigma": 0.1}, n_components=2, solver="cnt"
        ).fit(X, Y)
    rng = np.random.default_rng(0)
    C = rng.random((30, 30)) ** 4
    C = np.triu(C, 1) + np.triu(C, 1).T
    with pytest.warns(UserWarning, match="not of conditionally negative type"):
        found = LiftedGWAligner("precomputed", solver="cnt", n_components=5).fit(C, C)
    assert found.cnt_defect_ > 0.01
    with pytest.warns(UserWarning, match="too little for dtype='float32'"):
        LiftedGWAligner(epsilon=1e-6, max_iter=2, sinkhorn_max_iter=5).fit(X, Y)


X_BAD, Y_BAD = clouds()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": np.nan}, "epsilon"),
        ({"n_components": 0}, "n_components"),
        ({"solver": "exact"}, "solver"),
        ({"cost": "cosine"}, "cost"),
        ({"cost": ("euclidean",)}, "one entry for each of the two spaces"),
        (
            {"cost": "power", "cost_params": {"p": 3}},
            r"conditionally negative type only for 0 < p <= 2, got p=3",
        ),
        (
            {"cost": "gaussian", "cost_params": {"sigma": 0}},
            "sigma .* must be positive, got 0",
        ),
        ({"cost": "euclidean", "cost_params": {"p": 1}}, "takes no parameter"),
        ({"cost": "power", "cost_params": {"p": "1"}}, "must be a number, got '1'"),
        ({"cost": "power", "cost_params": {"q": 1}}, "takes only 'p'"),
        ({"cost": lambda U, V: np.zeros((2, 2))}, r"returned shape \(2, 2\)"),
        ({"cost": lambda U, V: np.full((len(U), len(V)), np.nan)}, "returned NaN"),
        ({"cost": "precomputed"}, r"needs a square matrix, got shape \(60, 3\)"),
        ({"init": np.arange(3)}, r"integer array of shape \(60,\)"),
        ({"init": np.full(60, 50)}, "matches rows 50 to 50"),
        ({"init": "tlb"}, "init"),
        ({"tol": -1}, "tol"),
        ({"dtype": "float16"}, "dtype"),
    ],
)
def test_bad_parameters_are_named(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        LiftedGWAligner(**params).fit(X_BAD, Y_BAD)


def test_bad_spaces_are_named():
    X, Y = X_BAD, Y_BAD
    with pytest.raises(TypeError, match=r"needs two spaces: fit\(X, Y\)"):
        LiftedGWAligner().fit(X)
    with pytest.raises(
        ValueError, match="requires y to be passed, but the target y is None"
    ):
        LiftedGWAligner().fit(X, None)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        LiftedGWAligner().fit(X[:1], Y)
    with pytest.raises(
        ValueError, match=r"In the target y: .* minimum of 2 is required"
    ):
        LiftedGWAligner().fit(X, Y[:1])
    bad = Y.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="In the target y: Input y contains NaN"):
        LiftedGWAligner().fit(X, bad)
    with pytest.raises(ValueError, match="not symmetric"):
        LiftedGWAligner("precomputed").fit(np.arange(9.0).reshape(3, 3), np.eye(3))
    for weight, message in (
        (-np.ones(60), "(?i)negative"),
        (np.zeros(60), "(?i)zero"),
        (np.ones(3), "source_weight"),
        (np.ones((60, 2)), "source_weight|1D"),
    ):
        with pytest.raises(ValueError, match=message):
            LiftedGWAligner().fit(X, Y, source_weight=weight)
    with pytest.warns(UserWarning, match="source_weight sums to 60"):
        quiet().fit(X, Y, source_weight=np.ones(60))
    with pytest.raises(NotFittedError):
        LiftedGWAligner().transform(X)
    with pytest.raises(NotFittedError):
        LiftedGWAligner().plan()
    found = quiet().fit(X, Y)
    with pytest.raises(ValueError, match="expecting 3 features"):
        found.transform(Y)
    with pytest.raises(ValueError, match="expecting 2 features as the target"):
        found.inverse_transform(X)
    with pytest.raises(ValueError, match="n_starts must be a positive integer, got 0"):
        found.explore(0)


def test_kernel_solver_refuses_more_rows_than_matrices_allow():
    X = np.random.default_rng(0).normal(size=(2_001, 2))
    with pytest.raises(
        ValueError, match=r"takes up to 2000 rows, got 2001\. Use solver='cnt'"
    ):
        LiftedGWAligner(solver="kernel").fit(X, X)


def test_squares_that_overflow_are_refused():
    X, Y = (1e25 * x.astype(np.float32) for x in clouds())
    with pytest.raises(ValueError, match=r"overflow the dtype of X\. Rescale"):
        LiftedGWAligner().fit(X, Y)


def test_precomputed_targets_have_no_coordinates():
    X, Y = clouds()
    found = LiftedGWAligner("precomputed").fit(cdist(X, X), cdist(Y, Y))
    assert found.predict(cdist(X, X)[:7]).shape == (7,)
    assert not hasattr(found, "aligned_")
    assert not hasattr(found, "inverse_transform")
    with pytest.raises(AttributeError, match="has no"):
        found.transform(cdist(X, X))
    assert found.__sklearn_tags__().input_tags.pairwise
    mixed = LiftedGWAligner(("precomputed", "euclidean")).fit(cdist(X, X), Y)
    assert mixed.transform(cdist(X, X)).shape == (60, 2)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("cost", ["sqeuclidean", "euclidean", "gaussian", "cityblock"])
def test_sparse_rows_are_as_dense_ones(cost, solver):
    rng = np.random.default_rng(0)
    X = sparse.random(60, 12, 0.3, "csr", random_state=0, data_rvs=rng.standard_normal)
    X[7] = X[3]
    Y = X[rng.permutation(60)]
    found, dense = quiet(cost=cost, solver=solver), quiet(cost=cost, solver=solver)
    found.fit(X, Y)
    dense.fit(X.toarray(), Y.toarray())
    assert found.gw_ == pytest.approx(dense.gw_, rel=2e-2, abs=1e-6)
    assert np.mean(found.matching_ == dense.matching_) >= 0.95
    assert not hasattr(found, "aligned_")
    tolerance = {"atol": 0.05 * abs(X).max()}
    np.testing.assert_allclose(
        found.transform(X), dense.transform(X.toarray()), **tolerance
    )
    np.testing.assert_allclose(
        found.inverse_transform(Y), dense.inverse_transform(Y.toarray()), **tolerance
    )
    assert found.score(X) == pytest.approx(dense.score(X.toarray()), abs=1e-3)
    np.testing.assert_array_equal(found.predict(X)[:5], found.matching_[:5])


def test_sparse_rows_need_a_formula():
    X = sparse.random(20, 20, 0.3, "csr", random_state=0)
    for cost in ("precomputed", lambda U, V: cdist(U, V)):
        with pytest.raises(TypeError, match="Sparse data was passed for X"):
            LiftedGWAligner(cost).fit(X, X)


@pytest.mark.gpu
def test_cuda_agrees_with_the_cpu():
    X, Y = clouds(0, 700, 600)
    expected = quiet(epsilon=0.05).fit(X, Y)
    found = quiet(epsilon=0.05).fit(*(torch.from_numpy(x).cuda() for x in (X, Y)))
    assert found.gamma_.is_cuda
    assert found.egw_ == pytest.approx(expected.egw_, rel=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_missing_devices_are_named():
    with pytest.raises((RuntimeError, ValueError), match=r"(?i)cuda"):
        LiftedGWAligner(device="cuda").fit(X_BAD, Y_BAD)
