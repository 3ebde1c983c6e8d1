"""SRGWMatcher: quality, graphs, new rows, weights, bad input, conventions."""

import io
import pickle
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skicml import SRGWMatcher
from skicml.transport import (
    MaskCollapseWarning,
    _srgw_search,
    pairwise_srgw,
    srgw_distance,
)


def clouds(seed=0, n=40, m=40, noise=0.01):
    """Two clouds of which the second is the first, turned, in another order."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [3, 2, 1]
    order = rng.permutation(n)[:m]
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    Y = ((X + noise * rng.normal(size=X.shape)) @ Q)[order]
    return X, Y, np.argsort(order)


def replaced(C, rho, rng):
    """Replace a share of the pairs by noise; also returns which."""
    wrong = np.triu(rng.random(C.shape) < rho, 1)
    noise = np.where(wrong, rng.uniform(high=C.max(), size=C.shape), 0)
    wrong = wrong | wrong.T
    return np.where(wrong, noise + noise.T, C), wrong


def corrupted(seed, source=0.0, target=0.0, n=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    order = rng.permutation(n)
    Y = X[order] + 0.01 * rng.normal(size=(n, 2))
    Cx, wrong_x = replaced(cdist(X, X), source, rng)
    Cy, wrong_y = replaced(cdist(Y, Y), target, rng)
    return Cx, Cy, np.argsort(order), wrong_x, wrong_y


def les_miserables(share, seed=0):
    """Weighted graph, and a copy in another order with spurious edges."""
    weights = nx.to_numpy_array(nx.les_miserables_graph())
    rng = np.random.default_rng(seed)
    order = rng.permutation(77)
    noisy = weights[np.ix_(order, order)]
    absent = np.argwhere(np.triu(noisy == 0, 1))
    added = rng.choice(len(absent), round(share * 254), replace=False)
    spurious = np.zeros((77, 77), dtype=bool)
    for i, k in absent[added]:
        noisy[i, k] = noisy[k, i] = rng.integers(5, 32)
        spurious[i, k] = spurious[k, i] = True
    return weights, noisy, np.argsort(order), spurious


@pytest.mark.parametrize("penalty", ["quadratic", "geman", "hard"])
@pytest.mark.parametrize(("source", "target"), [(0.2, 0), (0.1, 0.1)])
def test_corrupted_distances_are_found_and_filtered(source, target, penalty):
    """In 60 trials of each kind the share of right matches was 0.9 or more.

    Chance is 0.025, and Gromov-Wasserstein reaches 0.5 at most.
    """
    Cx, Cy, truth, wrong_x, wrong_y = corrupted(0, source, target)
    found = SRGWMatcher("precomputed", penalty=penalty).fit(Cx, Cy)
    assert np.mean(found.assignment_ == truth) >= 0.8
    mapped = wrong_y[np.ix_(truth, truth)]
    trusted = ~(wrong_x | mapped | np.eye(40, dtype=bool))
    assert found.source_mask_[trusted].mean() >= 0.7
    assert found.source_mask_[wrong_x].mean() <= 0.4
    assert found.converged_


def test_a_graph_is_repaired():
    weights, noisy, truth, spurious = les_miserables(0.2)
    found = SRGWMatcher("precomputed").fit(weights, noisy)
    edges = np.argwhere(np.triu(weights, 1))
    image = found.assignment_[edges]
    clean = np.where(spurious, 0, noisy)
    assert np.mean(clean[image[:, 0], image[:, 1]] > 0) >= 0.95
    # the filtered pairs of the target are the edges that do not belong there
    outliers = found.edge_outliers("target")
    assert {(i, k) for i, k, _ in outliers} == set(
        map(tuple, np.argwhere(np.triu(spurious, 1)))
    )
    scores = [score for _, _, score in outliers]
    assert scores == sorted(scores, reverse=True)
    kept = found.masked_cost("target")
    assert kept[spurious].max() <= 0.5 * noisy[spurious].min()
    np.testing.assert_array_equal(kept, found.target_mask_ * noisy)
    # equivalent nodes may stand for each other, all others stand where they belong
    assert np.mean(found.assignment_ == truth) >= 0.6


def test_masks_of_one_side_leave_the_other_whole():
    Cx, Cy, _, _, _ = corrupted(0, 0.2)
    found = SRGWMatcher("precomputed", masks="source").fit(Cx, Cy)
    assert found.source_mask_.min() < 0.5
    assert found.target_mask_.min() == 1
    assert found.target_trust_.min() == pytest.approx(1)


def test_a_good_start_is_not_annealed_away():
    Cx, Cy, truth, _, _ = corrupted(3, 0.1, 0.1)
    start = np.zeros((40, 40))
    start[np.arange(40), truth] = 1 / 40
    found = SRGWMatcher("precomputed", penalty="hard", init=start).fit(Cx, Cy)
    assert np.mean(found.assignment_ == truth) >= 0.95
    assert found.start_scores_.min() == found.start_scores_[-1]


@pytest.mark.parametrize("solver", ["cg", "sinkhorn"])
def test_both_steps_find_the_partners(solver):
    X, Y, truth = clouds()
    found = SRGWMatcher(solver=solver).fit(X, Y)
    np.testing.assert_array_equal(found.assignment_, truth)
    assert np.abs(found.plan_.sum(axis=1) - 1 / 40).sum() <= 1e-10
    assert np.abs(found.plan_.sum(axis=0) - 1 / 40).sum() <= 1e-10


def test_unweighted_graphs_warn_and_match_as_gromov_wasserstein_does():
    ot = pytest.importorskip("ot")
    A = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    order = np.random.default_rng(0).permutation(34)
    B = A[np.ix_(order, order)]
    with pytest.warns(UserWarning, match="source and of the target take at most two"):
        found = SRGWMatcher("precomputed").fit(A, B)
    assert found.penalty_ == "hard"
    _, log = ot.gromov.gromov_wasserstein(A, B, log=True)
    assert found.gw_dist_ <= log["gw_dist"] + 1e-9


def test_graphs_come_in_three_forms():
    graph = nx.les_miserables_graph()
    other = nx.relabel_nodes(
        graph, dict(zip(graph, reversed(list(graph)), strict=True))
    )
    matrices = [nx.to_scipy_sparse_array(g).astype(float) for g in (graph, other)]
    plans = [
        SRGWMatcher("precomputed", init="tlb").fit(*pair).plan_
        for pair in (
            (graph, other),
            matrices,
            [m.toarray() for m in matrices],
            [sparse.coo_matrix(m) for m in matrices],
        )
    ]
    for plan in plans[1:]:
        np.testing.assert_array_equal(plan, plans[0])


def test_costs_of_a_graph():
    graph = nx.Graph([(0, 1, {"weight": 2.0}), (1, 2, {"weight": 3.0})])
    expected = {
        "weight": [[0, 2, 0], [2, 0, 3], [0, 3, 0]],
        "shortest_path": [[0, 2, 5], [2, 0, 3], [5, 3, 0]],
    }
    for cost, matrix in expected.items():
        found = SRGWMatcher("precomputed", graph_cost=cost, init="tlb")
        found.fit(graph, graph)
        np.testing.assert_allclose(found.masked_cost(), matrix)
    # the kernel of the normalized Laplacian at time 0 is the identity, and keeps
    # the square roots of the degrees at any time
    for time in (0, 0.7):
        found = SRGWMatcher(
            "precomputed", graph_cost="heat", metric_params={"time": time}, init="tlb"
        ).fit(graph, graph)
        roots = np.sqrt([2, 5, 3])
        np.testing.assert_allclose(found.masked_cost() @ roots, roots)
        assert np.allclose(found.masked_cost(), np.eye(3)) == (time == 0)


def test_graphs_in_pieces_get_a_finite_distance():
    graph = nx.disjoint_union(nx.path_graph(4), nx.path_graph(3))
    with pytest.warns(UserWarning, match="source graph is not connected: 12 pairs"):
        found = SRGWMatcher("precomputed", graph_cost="shortest_path").fit(
            graph, nx.path_graph(7)
        )
    assert found.masked_cost("source").max() <= 4.5
    assert np.isfinite(found.plan_).all()


def test_new_rows_follow_the_nearest_fitted_ones():
    X, Y, truth = clouds()
    found = SRGWMatcher().fit(X, Y)
    np.testing.assert_allclose(found.transform(X), found.aligned_)
    np.testing.assert_allclose(found.aligned_, 40 * found.plan_ @ Y)
    np.testing.assert_array_equal(found.predict(X), found.assignment_)
    np.testing.assert_allclose(found.transform(X[:5] + 1e-6), Y[truth[:5]])
    np.testing.assert_allclose(found.inverse_transform(Y), X[np.argsort(truth)])
    # halfway between two rows, both count
    middle = (X[:1] + X[1:2]) / 2
    far = SRGWMatcher(metric="cityblock").fit([[0.0], [2.0], [9.0]], [[0.0], [3], [9]])
    np.testing.assert_allclose(
        far.transform([[1.0]]), far.aligned_[:2].mean(axis=0)[None]
    )
    assert far.predict([[1.0]])[0] == far.assignment_[0]
    assert found.transform(middle).shape == (1, 3)


def test_precomputed_rows_are_found_by_their_costs():
    Cx, Cy, _, _, _ = corrupted(0, 0.1)
    found = SRGWMatcher("precomputed").fit(Cx, Cy)
    np.testing.assert_array_equal(found.predict(Cx), found.assignment_)
    np.testing.assert_array_equal(found.predict(Cx[:7] + 1e-3), found.assignment_[:7])
    assert not hasattr(found, "aligned_")
    assert not hasattr(found, "inverse_transform")
    with pytest.raises(AttributeError, match="has no"):
        found.transform(Cx)
    assert found.__sklearn_tags__().input_tags.pairwise
    assert found.score(Cx) <= 0


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "cityblock"])
def test_sparse_rows_are_as_dense_ones(metric):
    X, Y = (sparse.random(20, 30, 0.3, "csr", random_state=s) for s in (0, 1))
    dense = SRGWMatcher(metric=metric, init="tlb").fit(X.toarray(), Y.toarray())
    found = SRGWMatcher(metric=metric, init="tlb").fit(X, Y)
    np.testing.assert_allclose(found.plan_, dense.plan_, atol=1e-12)
    np.testing.assert_allclose(found.transform(X), dense.transform(X.toarray()))
    np.testing.assert_allclose(
        found.inverse_transform(Y), dense.inverse_transform(Y.toarray())
    )
    np.testing.assert_array_equal(found.predict(X), found.assignment_)
    assert found.score(X) == pytest.approx(dense.score(X.toarray()))


def test_metric_may_be_a_function():
    X, Y, _ = clouds(n=15, m=15)

    def distance(x, y):
        return np.abs(x - y).max()

    by_name = SRGWMatcher(metric="chebyshev").fit(X, Y)
    by_function = SRGWMatcher(metric=distance).fit(X, Y)
    np.testing.assert_allclose(by_function.plan_, by_name.plan_)
    power = SRGWMatcher(metric="minkowski", metric_params={"p": 3}).fit(X, Y)
    np.testing.assert_allclose(
        power.masked_cost(), power.source_mask_ * cdist(X, X, "minkowski", p=3)
    )


def test_rows_without_mass_have_a_partner_and_no_trust():
    X, Y, truth = clouds()
    a, b = np.ones(40), np.ones(40)
    a[:3] = 0
    b[truth[:3]] = 0
    found = SRGWMatcher().fit(X, Y, source_weight=a / 37, target_weight=b / 37)
    assert found.plan_[:3].sum() == 0
    np.testing.assert_array_equal(found.assignment_[3:], truth[3:])
    # the targets of the three have no mass, but their places are known
    np.testing.assert_array_equal(found.assignment_[:3], truth[:3])
    np.testing.assert_allclose(found.aligned_[:3], Y[truth[:3]])
    assert found.source_mask_[:3].max() == found.source_trust_[:3].max() == 0
    assert found.target_trust_[truth[:3]].max() == 0
    with pytest.raises(ValueError, match="target_weight is zero in 3 of them"):
        found.inverse_transform(Y)
    whole = SRGWMatcher().fit(X[3:], np.delete(Y, truth[:3], axis=0))
    assert found.srgw_dist_ == pytest.approx(whole.srgw_dist_, rel=1e-6)


@pytest.mark.parametrize("n_init", [1, 3])
def test_number_of_starts(n_init):
    X, Y, _ = clouds(noise=0.5)
    params = {"init": "product", "n_init": n_init, "random_state": 0}
    found, again = SRGWMatcher(**params).fit(X, Y), SRGWMatcher(**params).fit(X, Y)
    # one for each, and another where annealing led away from a good start
    assert n_init <= len(found.start_scores_) <= 2 * n_init
    np.testing.assert_array_equal(found.plan_, again.plan_)


def test_more_starts_never_score_worse():
    Cx, Cy, _, _, _ = corrupted(1, 0.25, 0.1)
    few = SRGWMatcher("precomputed", init="tlb").fit(Cx, Cy)
    many = SRGWMatcher("precomputed", init="tlb", n_init=4, random_state=0).fit(Cx, Cy)
    assert many.start_scores_.min() <= few.start_scores_.min()


def test_several_plans_are_several_starts():
    Cx, Cy, truth, _, _ = corrupted(0, 0.2)
    good, bad = np.zeros((40, 40)), np.zeros((40, 40))
    good[np.arange(40), truth] = bad[np.arange(40), np.roll(truth, 7)] = 1 / 40
    found = SRGWMatcher("precomputed", init=np.stack([bad, good])).fit(Cx, Cy)
    assert np.mean(found.assignment_ == truth) >= 0.95
    one = SRGWMatcher("precomputed", init=[bad, good], n_init=1).fit(Cx, Cy)
    assert one.start_scores_.min() >= found.start_scores_.min()


def test_processes_change_nothing():
    Cx, Cy, _, _, _ = corrupted(0, 0.1, 0.1)
    one = SRGWMatcher("precomputed").fit(Cx, Cy)
    two = SRGWMatcher("precomputed", n_jobs=2).fit(Cx, Cy)
    np.testing.assert_array_equal(one.plan_, two.plan_)
    np.testing.assert_array_equal(one.start_scores_, two.start_scores_)


@pytest.mark.parametrize("kind", ["auto", "argmax", "lap"])
def test_kinds_of_assignment(kind):
    X, Y, _ = clouds(noise=0.4)
    found = SRGWMatcher(assignment=kind, init="product").fit(X, Y)
    largest = found.plan_.argmax(axis=1)
    if kind == "argmax":
        np.testing.assert_array_equal(found.assignment_, largest)
    else:
        assert len(set(found.assignment_)) == 40
    # more rows than targets: those left over go where most of their mass goes
    few = SRGWMatcher(assignment=kind, init="tlb").fit(X, Y[:15])
    assert set(few.assignment_) <= set(range(15))
    if kind == "auto":
        np.testing.assert_array_equal(few.assignment_, few.plan_.argmax(axis=1))


def test_score_compares_parameters_on_one_scale():
    Cx, Cy, _, _, _ = corrupted(0)
    good = SRGWMatcher("precomputed").fit(Cx, Cy)
    with pytest.warns(MaskCollapseWarning, match="Raise lam"):
        masked = SRGWMatcher("precomputed", init="product", lam=1e-6).fit(Cx, Cy)
    # masks hide any distortion, but not from the score
    assert masked.srgw_dist_ <= 1e-6
    assert masked.score(Cx) < good.score(Cx) <= 0
    p = good.assignment_
    gap = Cx - Cy[np.ix_(p, p)]
    assert good.score(Cx) == pytest.approx(-np.mean(gap**2) / good.scale_**2)


def test_grid_search_chooses_by_score():
    X, Y, _ = clouds()
    split = ShuffleSplit(2, train_size=30, random_state=0)
    search = GridSearchCV(SRGWMatcher(init="tlb"), {"lam": ["auto", 1e-5]}, cv=split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MaskCollapseWarning)
        search.fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_pipeline_takes_spaces_of_different_sizes():
    X, Y, _ = clouds(m=25)
    pipeline = make_pipeline(StandardScaler(), SRGWMatcher(init="tlb")).fit(X, Y)
    assert pipeline.transform(X[:4]).shape == (4, 3)


def test_frames_keep_their_names():
    X, Y, _ = clouds(n=15, m=15)
    frames = pd.DataFrame(X, columns=list("abc")), pd.DataFrame(Y, columns=list("uvw"))
    found = SRGWMatcher(init="tlb").set_output(transform="pandas").fit(*frames)
    assert list(found.transform(frames[0]).columns) == ["u", "v", "w"]
    plain = SRGWMatcher(init="tlb").fit(X, Y)
    assert list(plain.get_feature_names_out()) == [f"srgwmatcher{i}" for i in range(3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("solver", ["auto", "sinkhorn"])
def test_tensors_come_back_as_tensors(dtype, solver):
    X, Y, truth = clouds()
    X, Y = (torch.from_numpy(x).to(dtype) for x in (X, Y))
    found = SRGWMatcher(solver=solver).fit(X, Y)
    for name in ("plan_", "aligned_", "source_mask_", "target_trust_"):
        assert getattr(found, name).dtype == dtype
    np.testing.assert_array_equal(found.assignment_, truth)
    assert found.transform(X).dtype == dtype
    assert found.predict(X).dtype == torch.int64
    assert np.isfinite(found.score(X))


def test_single_precision_steps_agree():
    X, Y, truth = clouds()
    found = SRGWMatcher(solver="sinkhorn", dtype="float32").fit(X, Y)
    np.testing.assert_array_equal(found.assignment_, truth)
    assert found.plan_.dtype == np.float64
    assert np.abs(found.plan_.sum(axis=1) - 1 / 40).sum() <= 1e-5


def test_pickles_and_clones_are_as_good():
    X, Y, _ = clouds(m=30)
    found = SRGWMatcher(init="tlb").fit(X, Y)
    loaded = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(loaded.transform(X), found.transform(X))
    copy = clone(found)
    assert not hasattr(copy, "plan_")
    np.testing.assert_array_equal(copy.fit(X, Y).plan_, found.plan_)


def test_warm_start_goes_on():
    Cx, Cy, _, _, _ = corrupted(0, 0.2)
    found = SRGWMatcher("precomputed", warm_start=True).fit(Cx, Cy)
    plan, starts = found.plan_, len(found.start_scores_)
    found.fit(Cx, Cy)
    assert len(found.start_scores_) <= 2 < starts
    np.testing.assert_allclose(found.plan_, plan, atol=1e-9)
    # another shape starts afresh
    found.fit(Cx[:20, :20], Cy)
    assert found.plan_.shape == (20, 40)


@pytest.mark.parametrize("at", [0, 1, 30])
def test_interrupted_fit_keeps_its_best_state(monkeypatch, at):
    Cx, Cy, _, _, _ = corrupted(0, 0.2)
    found = SRGWMatcher("precomputed")
    follow, calls = _srgw_search.graduate, iter(range(1000))

    def interrupted(*args, **kwargs):
        for state in follow(*args, **kwargs):
            if next(calls) == at:
                raise KeyboardInterrupt
            yield state

    monkeypatch.setattr(_srgw_search, "graduate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        found.fit(Cx, Cy)
    assert hasattr(found, "plan_") == (at > 0)
    if at > 0:
        assert np.isfinite(found.objective_)
        assert not found.converged_
        assert np.abs(found.plan_.sum(axis=1) - 1 / 40).sum() <= 1e-10
        assert found.n_iter_ == at - 1


def test_unfinished_loops_name_their_parameter():
    Cx, Cy, _, _, _ = corrupted(0, 0.1)
    with pytest.warns(ConvergenceWarning, match="max_iter=3 steps lambda is at"):
        found = SRGWMatcher("precomputed", init="product", max_iter=3).fit(Cx, Cy)
    assert not found.converged_
    with pytest.warns(ConvergenceWarning, match="Raise max_polish, or tol"):
        SRGWMatcher("precomputed", max_polish=1, tol=0).fit(Cx, Cy)


@pytest.mark.parametrize("verbose", [0, 1])
def test_progress_is_shown_when_asked_for(monkeypatch, verbose):
    X, Y, _ = clouds(n=12, m=12)
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    SRGWMatcher(verbose=verbose, init="product").fit(X, Y)
    text = stream.getvalue()
    assert bool(text) == bool(verbose)
    assert not verbose or "SRGWMatcher: 12 x 12 rows, solver" in text


def test_pictures_show_what_they_say():
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    Cx, Cy, _, _, _ = corrupted(0, 0.2)
    found = SRGWMatcher("precomputed", init="tlb").fit(Cx, Cy)
    ax = found.plot_plan()
    np.testing.assert_array_equal(ax.images[0].get_array(), found.plan_)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), found.assignment_)
    ax = found.plot_masks("target")
    np.testing.assert_allclose(ax.images[0].get_array(), 1 - found.target_mask_)
    _, given = pyplot.subplots()
    assert found.plot_trust(ax=given) is given
    np.testing.assert_array_equal(
        given.lines[0].get_ydata(), np.sort(found.source_trust_)
    )
    with pytest.raises(ValueError, match="side must be 'source' or 'target', got 'x'"):
        found.plot_masks("x")
    pyplot.close("all")


def test_functions_give_what_the_estimator_does():
    Cx, Cy, _, _, _ = corrupted(0, 0.2)
    a = np.arange(1.0, 41) / np.arange(1.0, 41).sum()
    found = srgw_distance(Cx, Cy, a, init="tlb")
    fitted = SRGWMatcher("precomputed", init="tlb").fit(Cx, Cy, source_weight=a)
    np.testing.assert_array_equal(found.plan, fitted.plan_)
    assert found.srgw_dist == fitted.srgw_dist_
    D = pairwise_srgw([Cx, Cy, Cx[::-1, ::-1]], init="tlb", n_jobs=2)
    np.testing.assert_array_equal(D, D.T)
    assert D[0, 2] <= 1e-12 < D[0, 1]
    assert (np.diag(D) == 0).all()


PARAMETERS = [
    ({"penalty": "soft"}, "'penalty' parameter of SRGWMatcher must be a str among"),
    ({"lam": 0}, "'lam' parameter of SRGWMatcher must be"),
    ({"lam": -1.0}, "'lam' parameter of SRGWMatcher must be"),
    ({"masks": "left"}, "'masks' parameter of SRGWMatcher must be a str among"),
    ({"anneal": 1.0}, "'anneal' parameter of SRGWMatcher must be a float in the range"),
    ({"init": "best"}, "'init' parameter of SRGWMatcher must be"),
    ({"init": np.ones((3, 40))}, r"init must have the shape \(40, 40\) or \(k, 40, 40"),
    ({"init": np.ones((40, 40))}, "init must hold plans"),
    ({"init": np.eye(40) / 40 - 1e-3}, "init must hold plans"),
    ({"assignment": "hard"}, "'assignment' parameter of SRGWMatcher must be"),
    (
        {"metric": "precomputed"},
        r"needs a square matrix, got shape \(40, 3\) for the s",
    ),
    ({"device": "tpu"}, "device must be None, 'cpu'"),
]


@pytest.mark.parametrize(("params", "message"), PARAMETERS)
def test_bad_parameters_are_named(params, message):
    X, Y, _ = clouds()
    with pytest.raises(ValueError, match=message):
        SRGWMatcher(**params).fit(X, Y)


def test_bad_spaces_are_named():
    X, Y, _ = clouds()
    with pytest.raises(TypeError, match=r"SRGWMatcher.fit needs two spaces: fit\(X, Y"):
        SRGWMatcher().fit(X)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y"):
        SRGWMatcher().fit(X, None)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        SRGWMatcher().fit(np.where(X > 2, np.nan, X), Y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        SRGWMatcher().fit(X, np.where(Y > 2, np.nan, Y))
    with pytest.raises(ValueError, match="minimum of 2 is required by SRGWMatcher"):
        SRGWMatcher().fit(X[:1], Y)
    with pytest.raises(ValueError, match="minimum of 2 is required by SRGWMatcher"):
        SRGWMatcher("precomputed").fit(nx.path_graph(1), nx.path_graph(4))
    with pytest.raises(ValueError, match="The target graph has no nodes"):
        SRGWMatcher("precomputed").fit(nx.path_graph(4), nx.Graph())
    with pytest.raises(ValueError, match="Negative values in data passed to `source_w"):
        SRGWMatcher().fit(X, Y, source_weight=-np.ones(40))
    with pytest.raises(ValueError, match="at least one non-zero number"):
        SRGWMatcher().fit(X, Y, target_weight=np.zeros(40))
    with pytest.warns(UserWarning, match="source_weight sums to 40 and is divided"):
        SRGWMatcher(init="tlb").fit(X, Y, source_weight=np.ones(40))
    C = cdist(X, X)
    skewed = C + np.triu(C)
    message = r"source cost is not symmetric \(max .* pass|Pass .* symmetrize=True"
    with pytest.raises(ValueError, match=message):
        SRGWMatcher("precomputed").fit(skewed, C)
    found = SRGWMatcher("precomputed", symmetrize=True, init="tlb").fit(skewed, C)
    np.testing.assert_allclose(found.masked_cost(), found.source_mask_ * C * 1.5)
    with pytest.raises(ValueError, match="not negative, got -1 in the target"):
        SRGWMatcher("precomputed", graph_cost="heat").fit(
            nx.path_graph(3), nx.Graph([(0, 1, {"weight": -1}), (1, 2)])
        )
    with pytest.raises(ValueError, match="edge weight of the source graph is NaN"):
        SRGWMatcher("precomputed").fit(
            nx.Graph([(0, 1, {"weight": np.nan}), (1, 2)]), nx.path_graph(3)
        )
    with pytest.raises(ValueError, match="gives NaN or infinity for some rows"):
        SRGWMatcher(metric="correlation").fit(np.ones((5, 3)), Y)
    with pytest.raises(
        ValueError, match="squared costs overflow, of which the largest"
    ):
        SRGWMatcher("sqeuclidean").fit(1e100 * X, Y)
    with pytest.raises(ValueError, match="rescale the columns"):
        SRGWMatcher().fit(1e200 * X, Y)
    with pytest.raises(NotFittedError):
        SRGWMatcher().predict(X)
    with pytest.raises(NotFittedError):
        SRGWMatcher().score(X)
    found = SRGWMatcher(init="tlb").fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but SRGWMatcher is expect"):
        found.transform(X[:, :2])
    with pytest.raises(ValueError, match="y has 2 features, but SRGWMatcher is expect"):
        found.inverse_transform(Y[:, :2])


def test_kinds_of_space_that_do_not_fit_are_named():
    X, Y, _ = clouds(n=12, m=12)
    C = cdist(X, X)
    with pytest.raises(
        TypeError, match=r"takes rows, but the target is a graph\. Use m"
    ):
        SRGWMatcher().fit(X, nx.path_graph(5))
    with pytest.raises(
        ValueError, match=r"Expected 2D array, got a sparse array of sh"
    ):
        SRGWMatcher("precomputed").fit(sparse.coo_array(np.arange(5.0)), C)
    with pytest.raises(TypeError, match="y is a sparse matrix, but X is a torch array"):
        SRGWMatcher().fit(torch.from_numpy(X), sparse.csr_array(Y))
    with pytest.raises(ValueError, match="Complex data not supported: the source"):
        SRGWMatcher("precomputed").fit(sparse.csr_array(C * 1j), C)
    with pytest.raises(
        ValueError, match="edge weights of the target graph must be num"
    ):
        SRGWMatcher("precomputed").fit(C, nx.Graph([(0, 1, {"weight": "a"}), (1, 2)]))
    with pytest.raises(ValueError, match="leaves 1 row with mass, and 2 are the minim"):
        SRGWMatcher("precomputed").fit(C, C, source_weight=np.eye(12)[3])
    for params, message in [
        ({"time": -1}, "time of the heat kernel must be a finite number from 0 on"),
        ({"time": np.nan}, "time of the heat kernel must be a finite number"),
        ({"time": "x"}, "time of the heat kernel must be a finite number"),
        ({"tme": 1}, "takes only 'time', got {'tme': 1}"),
    ]:
        with pytest.raises(ValueError, match=message):
            SRGWMatcher("precomputed", graph_cost="heat", metric_params=params).fit(
                nx.path_graph(4), nx.path_graph(4)
            )
    with pytest.raises(ValueError, match=r"metric='seuclidean' needs 'V' in metric_pa"):
        SRGWMatcher("seuclidean").fit(X, Y)
    with pytest.raises(ValueError, match="There are no spaces to compare"):
        pairwise_srgw([])


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.zeros((0, 12, 12)), r"got \(0, 12, 12\)"),
        (np.full((12, 12), np.nan), "init contains NaN or infinity"),
        (np.full((12, 12), 1j), "init must be a name or hold plans of numbers"),
        ([[1.0], [1.0, 2.0]], "init must be a name or hold plans of numbers"),
    ],
)
def test_starts_that_are_no_plans_are_named(init, message):
    X, Y, _ = clouds(n=12, m=12)
    with pytest.raises(ValueError, match=message):
        SRGWMatcher(init=init).fit(X, Y)


def test_parallel_edges_count_once_as_paths_and_together_as_weights():
    graph = nx.MultiGraph([(0, 1, {"weight": 10}), (0, 1, {"weight": 1}), (1, 2)])
    for cost, expected in (("shortest_path", 1), ("weight", 11)):
        found = SRGWMatcher("precomputed", graph_cost=cost, init="tlb")
        weight = found.fit(graph, graph).masked_cost()[0, 1]
        assert weight == pytest.approx(expected)


@pytest.mark.parametrize("solver", ["cg", "sinkhorn"])
@pytest.mark.parametrize("lam", [1e-299, 1e299])
@pytest.mark.parametrize("penalty", ["quadratic", "geman", "hard"])
@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1e3, 1e140])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_price_or_unit_gives_nan(solver, lam, penalty, scale):
    Cx, Cy, _, _, _ = corrupted(0, 0.2, n=12)
    for dtype in (None, "float32"):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            found = SRGWMatcher(
                "precomputed",
                lam=lam,
                penalty=penalty,
                solver=solver,
                dtype=dtype,
                init="tlb",
                anneal=0.5,
            ).fit(scale * Cx, scale * Cy)
        for name in ("objective_", "lam_", "gw_dist_", "srgw_dist_", "plan_"):
            assert np.isfinite(getattr(found, name)).all()
        assert np.isfinite(found.objective_curve_).all()
        assert np.isfinite(found.history_["lam"]).all()


def test_a_constant_added_to_both_costs_changes_nothing():
    Cx, Cy, truth, _, _ = corrupted(0, 0.2)
    one = SRGWMatcher("precomputed").fit(Cx, Cy)
    for constant in (-3.0, 1e3, 1e8):
        other = SRGWMatcher("precomputed").fit(Cx + constant, Cy + constant)
        np.testing.assert_array_equal(other.assignment_, one.assignment_)
        # digits that the constant has taken are gone
        atol = 1e-3 if constant == 1e8 else 1e-6
        np.testing.assert_allclose(other.source_mask_, one.source_mask_, atol=atol)
        assert other.gw_dist_ == pytest.approx(one.gw_dist_, rel=1e-5)
    assert np.mean(one.assignment_ == truth) >= 0.9


@pytest.mark.parametrize("least", [1e-163, 1e-20, 1e-9])
@pytest.mark.parametrize("solver", ["cg", "sinkhorn"])
def test_tiny_masses_are_no_trouble(solver, least):
    X, Y, _ = clouds(n=20, m=15)
    a = np.r_[np.ones(19), least]
    for dtype in (np.float32, np.float64):
        found = SRGWMatcher(solver=solver, init="tlb").fit(
            X.astype(dtype), Y.astype(dtype), source_weight=a / a.sum()
        )
        assert np.isfinite([found.gw_dist_, found.lam_, found.objective_]).all()
        error = np.abs(found.plan_.sum(axis=1) - a / a.sum()).sum()
        assert error <= 1e-10 if dtype == np.float64 else error <= 1e-6


def test_entropic_steps_in_single_precision_leave_exact_marginals():
    X, Y, _ = clouds(n=20, m=15)
    found = SRGWMatcher(solver="sinkhorn", dtype="float32", init="tlb").fit(X, Y)
    assert np.abs(found.plan_.sum(axis=1) - 1 / 20).sum() <= 1e-12
    assert np.abs(found.plan_.sum(axis=0) - 1 / 15).sum() <= 1e-12


def test_a_failed_fit_leaves_what_was_there():
    X, Y, _ = clouds(n=12, m=12)
    found = SRGWMatcher(init=np.ones((3, 3)))
    with pytest.raises(ValueError, match="init must have the shape"):
        found.fit(X, Y)
    for call in (found.predict, found.transform, found.score):
        with pytest.raises(NotFittedError):
            call(X)
    found.set_params(init="tlb").fit(X, Y)
    images = found.transform(X)
    with pytest.raises(ValueError, match="at least one non-zero number"):
        found.fit(X[:7], Y[:5], source_weight=np.zeros(7))
    np.testing.assert_array_equal(found.transform(X), images)
    assert np.isfinite(found.score(X))


def test_an_interrupted_polish_keeps_the_search(monkeypatch):
    Cx, Cy, _, _, _ = corrupted(0, 0.2)
    from skicml.transport import _srgw

    polish = _srgw.polish

    def interrupted(problem, plan, lam, step, max_iter, tol):
        if max_iter:
            raise KeyboardInterrupt
        return polish(problem, plan, lam, step, max_iter, tol)

    monkeypatch.setattr(_srgw, "polish", interrupted)
    found = SRGWMatcher("precomputed")
    with pytest.raises(KeyboardInterrupt):
        found.fit(Cx, Cy)
    assert not found.converged_
    assert np.isfinite(found.objective_)
    assert len(found.start_scores_) >= 2


def test_rows_of_a_sparse_matrix_are_predicted():
    Cx, Cy, _, _, _ = corrupted(0, 0.1)
    found = SRGWMatcher("precomputed", init="tlb").fit(Cx, Cy)
    np.testing.assert_array_equal(
        found.predict(sparse.csr_array(Cx)[:3]), found.assignment_[:3]
    )


def test_columns_of_the_target_keep_their_order():
    X, Y, _ = clouds(n=12, m=12)
    frame = pd.DataFrame(Y, columns=list("uvw"))
    found = SRGWMatcher(init="tlb").fit(X, frame)
    with pytest.raises(ValueError, match=r"y has the columns \['w', 'v', 'u'\]"):
        found.inverse_transform(frame[["w", "v", "u"]])
    # numbers are no names, as in scikit-learn
    found.fit(X, pd.DataFrame(Y))
    assert found.get_feature_names_out()[0] == "srgwmatcher0"


def test_scores_that_overflow_are_refused():
    X, Y, _ = clouds(n=12, m=12)
    found = SRGWMatcher(init="tlb").fit(X, Y)
    with pytest.raises(ValueError, match="their squares overflow"):
        found.score(1e153 * X)


def test_warnings_name_the_line_of_the_user():
    Cx, Cy, _, _, _ = corrupted(0, 0.1)
    pipeline = make_pipeline("passthrough", SRGWMatcher("precomputed", max_iter=2))
    with pytest.warns(ConvergenceWarning) as caught:
        pipeline.fit(Cx, Cy)
    assert caught[0].filename == __file__


def test_degenerate_spaces_have_a_plan():
    """Two rows, one place, two places: nothing to tell apart, and nothing fails."""
    ones = np.ones((5, 2))
    for X, Y in [
        (ones, ones),
        (ones, np.arange(10.0).reshape(5, 2)),
        (np.arange(4.0).reshape(2, 2), ones),
        (np.repeat([[0.0], [1.0]], 3, axis=0), np.repeat([[0.0], [2.0]], 2, axis=0)),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = SRGWMatcher().fit(X, Y)
        assert np.abs(found.plan_.sum(axis=1) - 1 / len(X)).sum() <= 1e-10
        for value in (found.aligned_, found.source_mask_, found.srgw_dist_):
            assert np.isfinite(value).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_agrees_with_the_cpu():
    X, Y, truth = clouds()
    found = SRGWMatcher().fit(*(torch.from_numpy(x).cuda() for x in (X, Y)))
    assert found.plan_.is_cuda
    np.testing.assert_array_equal(found.assignment_.cpu(), truth)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_missing_devices_are_named():
    X, Y, _ = clouds()
    with pytest.raises(RuntimeError, match="device 'cuda' was requested, but torch"):
        SRGWMatcher(device="cuda").fit(X, Y)
