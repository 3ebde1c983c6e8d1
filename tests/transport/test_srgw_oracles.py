"""SRGWMatcher: what the theory says, against brute force and POT."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from skicml import SRGWMatcher
from skicml.transport._srgw_search import Settings
from skicml.transport._srgw_solver import PRICES, Problem, State, graduate, polish
from skicml.transport._srgw_starts import BANDWIDTHS, REACH, _levels, plan_of
from skicml.transport._transport_steps import (
    best_vertex,
    conditional_gradient,
    proximal_sinkhorn,
    rounded,
)
from skicml_accel.transport import masked_gw_grad

SETTINGS = Settings("cg", 0.05, None, 3.0, 0.9, 1e-7, 200)


def cost_matrix(rng, n):
    C = rng.normal(size=(n, n))
    return np.abs(C + C.T)


def weights(rng, n, uniform=False):
    w = np.ones(n) if uniform else rng.random(n) + 0.1
    return w / w.sum()


def problem_of(seed, n, m, penalty="quadratic", masks="both", uniform=False):
    rng = np.random.default_rng(seed)
    return Problem(
        cost_matrix(rng, n),
        cost_matrix(rng, m),
        weights(rng, n, uniform),
        weights(rng, m, uniform),
        penalty,
        masks,
    )


def quadruple_cost(Cx, Cy, T, Wx, Wy):
    gap = Cx[:, None, :, None] - Cy[None, :, None, :]
    return np.einsum("ik,jl,ijkl,ij,kl->", Wx, Wy, gap**2, T, T)


sizes = st.integers(2, 8)


@given(seed=st.integers(0, 10_000), n=sizes, m=sizes)
@pytest.mark.parametrize("penalty", sorted(PRICES))
@pytest.mark.filterwarnings("ignore")
def test_costs_are_the_sums_over_quadruples(penalty, seed, n, m):
    rng = np.random.default_rng(seed)
    Cx, Cy = cost_matrix(rng, n), cost_matrix(rng, m)
    a, b = weights(rng, n), weights(rng, m)
    found = SRGWMatcher("precomputed", penalty=penalty, init="product").fit(
        Cx, Cy, source_weight=a, target_weight=b
    )
    T, Wx, Wy = found.plan_, found.source_mask_, found.target_mask_
    largest = found.scale_**2
    masked = quadruple_cost(Cx, Cy, T, Wx, Wy)
    assert found.srgw_dist_ == pytest.approx(masked, rel=1e-9, abs=1e-9 * largest)
    plain = quadruple_cost(Cx, Cy, T, np.ones_like(Wx), np.ones_like(Wy))
    assert found.gw_dist_ == pytest.approx(plain, rel=1e-9, abs=1e-9 * largest)
    # marginals are strict, whatever is masked
    assert np.abs(T.sum(axis=1) - a).sum() <= 1e-10
    assert np.abs(T.sum(axis=0) - b).sum() <= 1e-10
    for W in (Wx, Wy):
        assert ((W >= 0) & (W <= 1)).all()
        np.testing.assert_array_equal(W, W.T)


@given(seed=st.integers(0, 10_000), n=sizes, m=sizes, lam=st.sampled_from([0.01, 1.0]))
@pytest.mark.parametrize("masks", ["both", "source", "target", "none"])
@pytest.mark.parametrize("penalty", sorted(PRICES))
@pytest.mark.parametrize("solver", ["cg", "sinkhorn"])
def test_polish_never_increases_the_objective(solver, penalty, masks, seed, n, m, lam):
    problem = problem_of(seed, n, m, penalty, masks)
    settings = Settings(solver, 0.05, None, 3.0, 0.9, 1e-7, 200)
    plan = 0.5 * plan_of("tlb", problem, np.random.default_rng(0))
    plan += 0.5 * np.outer(problem.a, problem.b)
    state = State.of(problem, plan, lam)
    _, curve, _ = polish(
        problem, plan, lam, settings.step(problem), max_iter=8, tol=1e-9
    )
    drops = -np.diff(curve)
    assert (drops >= -1e-12 * np.abs(curve[:-1])).all()
    # the first entry is the objective, term by term
    A, B = state.masked(problem)
    expected = quadruple_cost(problem.Cx, problem.Cy, state.plan, A[0], B[0])
    for W, w in ((A[0], problem.a), (B[0], problem.b)):
        expected += lam * w @ PRICES[penalty](W) @ w
    assert curve[0] == pytest.approx(expected, rel=1e-9)


def test_blocks_of_the_polish_are_minimizers():
    problem = problem_of(0, 7, 6, "geman")
    plan = np.outer(problem.a, problem.b)
    state = State.of(problem, plan, 0.7)
    A, B = state.masked(problem)
    rng = np.random.default_rng(1)

    def objective(Wx, Wy):
        phi = PRICES["geman"]
        total = quadruple_cost(problem.Cx, problem.Cy, plan, Wx, Wy)
        for W, w in ((Wx, problem.a), (Wy, problem.b)):
            total += 0.7 * w @ phi(W) @ w
        return total

    residual = problem.residuals(plan, (A, B))[0]
    best = problem.source_moments(residual, 0.7)[0]
    for _ in range(50):
        other = rng.random(best.shape)
        other = (other + other.T) / 2
        assert objective(best, B[0]) <= objective(other, B[0])


@pytest.mark.parametrize(("n", "m"), [(12, 12), (12, 9), (8, 15)])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "params", [{"lam": 1e12}, {"masks": "none"}], ids=["lam", "none"]
)
def test_without_masks_it_is_the_solution_of_pot(params, seed, n, m):
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(seed)
    # with distances the problem is concave: both end at a vertex, in a few lines
    Cx, Cy = (cdist(X, X) for X in (rng.normal(size=(n, 3)), rng.random((m, 2))))
    a, b = weights(rng, n, n == m), weights(rng, m, n == m)
    _, log = ot.gromov.gromov_wasserstein(
        Cx, Cy, a, b, G0=np.outer(a, b), log=True, tol_rel=1e-12, tol_abs=1e-12
    )
    found = SRGWMatcher("precomputed", init="product", **params).fit(
        Cx, Cy, source_weight=a, target_weight=b
    )
    assert found.gw_dist_ == pytest.approx(log["gw_dist"], rel=1e-8)
    assert found.srgw_dist_ == pytest.approx(found.gw_dist_, rel=1e-8)
    assert found.source_mask_.min() >= 1 - 1e-8


@pytest.mark.parametrize("solver", ["cg", "sinkhorn"])
def test_steps_go_downhill_and_keep_the_marginals(solver):
    problem = problem_of(3, 20, 15)
    a, b = problem.a, problem.b
    rng = np.random.default_rng(0)
    start = rounded(rng.random((20, 15)), a, b)

    def gradient(T):
        return masked_gw_grad(*problem.whole, T)

    values = [np.sum(gradient(start) * start)]
    plan = start
    for _ in range(5):
        if solver == "cg":
            plan = conditional_gradient(gradient, plan, a, b, 2)
        else:
            plan = proximal_sinkhorn(gradient, plan, a, b, 2, epsilon=0.05, tol=1e-9)
        values.append(np.sum(gradient(plan) * plan))
        assert np.abs(plan.sum(axis=1) - a).sum() <= 1e-10
        assert np.abs(plan.sum(axis=0) - b).sum() <= 1e-10
    assert (np.diff(values) <= 1e-12 * values[0]).all()
    # a first-order condition: no vertex lies much further down
    G = gradient(plan)
    gap = np.sum(G * (plan - best_vertex(G, a, b)))
    assert gap <= {"cg": 1e-2, "sinkhorn": 0.1}[solver] * np.abs(G).max()


@pytest.mark.parametrize(
    ("n", "m", "uniform"), [(7, 7, True), (7, 7, False), (6, 9, 1)]
)
def test_vertices_are_optimal_plans(n, m, uniform):
    rng = np.random.default_rng(0)
    a, b = weights(rng, n, uniform), weights(rng, m, uniform)
    cost = rng.normal(size=(n, m))
    vertex = best_vertex(cost, a, b)
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.kron(np.ones(n), np.eye(m))
    optimum = linprog(
        cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b])
    )
    assert np.sum(vertex * cost) == pytest.approx(optimum.fun, abs=1e-10)
    assert np.count_nonzero(vertex) <= n + m - 1


def test_rounding_gives_exact_marginals_in_single_precision_too():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        plan = rng.random((30, 20)).astype(dtype)
        a, b = (weights(rng, k).astype(dtype) for k in (30, 20))
        found = rounded(plan, a, b)
        assert (found >= 0).all()
        eps = np.finfo(dtype).eps
        assert np.abs(found.sum(axis=1) - a).sum() <= 40 * eps
        assert np.abs(found.sum(axis=0) - b).sum() <= 40 * eps
        np.testing.assert_allclose(rounded(found, a, b), found, atol=10 * eps)


def test_bumps_make_welsch_s_loss():
    """Sums over levels against the Gaussian of the difference, as the module claims."""
    problem = problem_of(5, 20, 25)
    for h in BANDWIDTHS:
        levels = _levels(problem, h)
        assert len(levels)
        left, right = (
            np.exp(-(((C.ravel()[:, None] - levels) / h) ** 2))
            for C in (problem.Cx, problem.Cy)
        )
        sums = left @ right.T
        gap = problem.Cx.ravel()[:, None] - problem.Cy.ravel()[None]
        expected = np.exp(-(gap**2) / (2 * h * h)) * np.sqrt(np.pi / 2)
        # costs at the ends lack bumps beyond them
        inner = [
            (C.ravel() >= levels[0] + h) & (C.ravel() <= levels[-1] - h)
            for C in (problem.Cx, problem.Cy)
        ]
        kept = np.outer(*inner)
        # what the bumps out of reach would have given
        lost = np.exp(-(REACH**2))
        error = np.abs(sums - expected)[kept]
        assert (error <= 0.016 * expected[kept] + 3 * lost).all()


@pytest.mark.parametrize("penalty", sorted(PRICES))
@pytest.mark.parametrize("seed", range(3))
def test_an_exact_copy_costs_nothing_and_is_trusted(penalty, seed):
    rng = np.random.default_rng(seed)
    C, order = cost_matrix(rng, 25), rng.permutation(25)
    found = SRGWMatcher("precomputed", penalty=penalty).fit(C, C[np.ix_(order, order)])
    np.testing.assert_array_equal(found.assignment_, np.argsort(order))
    assert found.srgw_dist_ <= 1e-14
    assert found.gw_dist_ <= 1e-14
    assert found.source_mask_.min() == found.target_mask_.min() == 1
    assert found.converged_


def corrupted(seed, n=30, rho=0.15):
    """Distances of a cloud, some replaced, and those of the cloud in another order."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    C = cdist(X, X)
    order = rng.permutation(n)
    Y = X[order] + 0.01 * rng.normal(size=(n, 2))
    wrong = np.triu(rng.random((n, n)) < rho, 1)
    noise = np.where(wrong, rng.uniform(high=C.max(), size=(n, n)), 0)
    wrong = wrong | wrong.T
    return np.where(wrong, noise + noise.T, C), cdist(Y, Y), np.argsort(order), wrong


@pytest.mark.parametrize("penalty", sorted(PRICES))
def test_order_of_rows_carries_over(penalty):
    Cx, Cy, _, _ = corrupted(0)
    order = np.random.default_rng(1).permutation(30)
    one = SRGWMatcher("precomputed", penalty=penalty).fit(Cx, Cy)
    other = SRGWMatcher("precomputed", penalty=penalty).fit(
        Cx[np.ix_(order, order)], Cy
    )
    np.testing.assert_allclose(other.plan_, one.plan_[order], atol=1e-12)
    np.testing.assert_allclose(
        other.source_mask_, one.source_mask_[np.ix_(order, order)], atol=1e-9
    )
    np.testing.assert_allclose(other.target_mask_, one.target_mask_, atol=1e-9)


@pytest.mark.parametrize("k", [1e-6, 3.0, 1e6])
def test_costs_are_in_squared_units(k):
    Cx, Cy, _, _ = corrupted(1)
    one = SRGWMatcher("precomputed").fit(Cx, Cy)
    other = SRGWMatcher("precomputed").fit(k * Cx, k * Cy)
    np.testing.assert_allclose(other.plan_, one.plan_, atol=1e-12)
    np.testing.assert_allclose(other.source_mask_, one.source_mask_, atol=1e-7)
    for name in ("srgw_dist_", "gw_dist_", "objective_", "lam_"):
        expected = k**2 * getattr(one, name)
        assert getattr(other, name) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("m", [30, 20])
def test_swapping_the_spaces_transposes_the_plan(m):
    Cx, Cy, _, _ = corrupted(2)
    Cy = Cy[:m, :m]
    start = rounded(
        np.random.default_rng(0).random((30, m)), np.full(30, 1 / 30), np.full(m, 1 / m)
    )
    one = SRGWMatcher("precomputed", init=start).fit(Cx, Cy)
    other = SRGWMatcher("precomputed", init=start.T).fit(Cy, Cx)
    np.testing.assert_allclose(other.plan_, one.plan_.T, atol=1e-9)
    np.testing.assert_allclose(other.source_mask_, one.target_mask_, atol=1e-6)
    assert other.gw_dist_ == pytest.approx(one.gw_dist_, rel=1e-9)


def test_annealing_ends_at_the_lam_asked_for():
    Cx, Cy, _, _ = corrupted(3)
    found = SRGWMatcher("precomputed", lam=0.05).fit(Cx, Cy)
    assert found.lam_ == pytest.approx(0.05)
    lam = found.history_["lam"]
    assert (np.diff(lam) <= 0).all()
    assert lam[-1] * found.scale_**2 == pytest.approx(0.05)


def test_annealing_starts_where_nothing_is_masked():
    problem = problem_of(0, 10, 10)
    plan = np.outer(problem.a, problem.b)
    first = next(
        graduate(
            problem,
            plan,
            SETTINGS.step(problem),
            lam=None,
            mad_factor=3.0,
            anneal=0.9,
            tol=1e-7,
        )
    )
    assert first.lam == max(residual.max() for residual in first.residuals)
