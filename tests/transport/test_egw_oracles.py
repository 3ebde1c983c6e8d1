"""Identities, bounds and descent of the lifted Gromov-Wasserstein problem."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skicml.transport._costs import Cost
from skicml.transport._egw_solver import Coupling, descend, evaluate, spaces_of
from skicml.transport._lift import lift
from skicml.transport._starts import random

seeds = st.integers(0, 10_000)


def weights(rng, n):
    a = rng.random(n) + 0.1
    return a / a.sum()


def power(p):
    return Cost("power", p)


def costs_of(cost, X):
    return cost.block(X, X)


def pair(seed, cost, n=7, m=6, n_components=None, diagonal="exact"):
    """Two random weighted clouds, lifted."""
    rng = np.random.default_rng(seed)
    lifts = [
        lift(
            cost,
            rng.normal(size=(k, d)),
            weights(rng, k),
            n_components,
            diagonal=diagonal,
        )
        for k, d in ((n, 2), (m, 3))
    ]
    return (*lifts, rng)


def scaled(source, target):
    """Spaces of which one is the mean squared cost."""
    unit = np.sqrt((source.mean_square + target.mean_square) / 2)
    return spaces_of(source, target, (unit, unit))


def random_plan(rng, a, b):
    """Coupling without structure, by plain Sinkhorn scaling."""
    P = rng.random((a.size, b.size)) ** 4 + 1e-3
    for _ in range(2_000):
        P *= (a / P.sum(axis=1))[:, None]
        P *= b / P.sum(axis=0)
    return P


def quadruple_loop(Cx, Cy, P):
    total = 0.0
    for i, k in itertools.product(range(len(Cx)), repeat=2):
        for j, l in itertools.product(range(len(Cy)), repeat=2):
            total += (Cx[i, k] - Cy[j, l]) ** 2 * P[i, j] * P[k, l]
    return total


def model_cost(spaces, P):
    """Objective without entropy from the lifted coordinates."""
    G = spaces.U.T @ P @ spaces.W
    squared = np.sum(spaces.signs * G * G)
    return spaces.constant - 4 * spaces.s @ P @ spaces.t - 8 * squared


def dense_plan(spaces, state):
    z = Coupling(spaces, state.gamma, state.eps)
    log = z.left @ z.right.T + state.p[:, None] + state.q
    return spaces.a[:, None] * spaces.b * np.exp(log)


@given(seed=seeds, n=st.integers(2, 7), m=st.integers(2, 7), p=st.floats(0.1, 2.0))
def test_objective_equals_the_quadruple_loop(seed, n, m, p):
    source, target, rng = pair(seed, power(p), n, m)
    P = random_plan(rng, source.weights, target.weights)
    Cx, Cy = costs_of(power(p), source.rows), costs_of(power(p), target.rows)
    expected = quadruple_loop(Cx, Cy, P)
    found = model_cost(spaces_of(source, target, (1.0, 1.0)), P)
    size = np.mean(Cx**2) + np.mean(Cy**2)
    assert abs(found - expected) <= 1e-10 * size


def test_indefinite_costs_keep_the_identity_with_all_axes():
    rng = np.random.default_rng(0)
    lifts = []
    for n in (6, 7):
        C = rng.random((n, n)) ** 4
        C = C + C.T
        np.fill_diagonal(C, 0)
        lifts.append(lift(Cost("precomputed"), C, weights(rng, n), None))
    source, target = lifts
    assert min(source.defect, target.defect) > 0.05
    P = random_plan(rng, source.weights, target.weights)
    found = model_cost(spaces_of(source, target, (1.0, 1.0)), P)
    assert found == pytest.approx(
        quadruple_loop(source.rows, target.rows, P), rel=1e-10
    )


@given(seed=seeds, p=st.floats(0.3, 2.0))
def test_lift_is_centered_diagonal_and_complete(seed, p):
    source, _, _ = pair(seed, power(p), 9)
    U, a, C = source.embedding, source.weights, costs_of(power(p), source.rows)
    size = C.max()
    np.testing.assert_allclose(a @ U, 0, atol=1e-9 * size**0.5)
    moments = U.T @ (a[:, None] * U)
    np.testing.assert_allclose(moments, np.diag(source.eigenvalues), atol=1e-8 * size)
    squared = np.sum(U**2, axis=1)
    rebuilt = squared[:, None] + squared - 2 * U @ U.T
    np.testing.assert_allclose(rebuilt, C, atol=1e-7 * size)


@pytest.mark.parametrize(
    "cost", [power(1.0), power(1.5), Cost("gaussian", 3.0)], ids=str
)
def test_streamed_lift_finds_the_axes_of_the_dense_one(cost, monkeypatch):
    rng = np.random.default_rng(0)
    X, a = rng.normal(size=(400, 3)) * [3, 2, 1], weights(rng, 400)
    dense = lift(cost, X, a, 12)
    monkeypatch.setattr("skicml.transport._lift._is_small", lambda *_: False)
    streamed = lift(cost, X, a, 12, rng=rng)
    np.testing.assert_allclose(streamed.eigenvalues, dense.eigenvalues, rtol=2e-2)
    np.testing.assert_allclose(
        streamed.eigenvalues[:3], dense.eigenvalues[:3], rtol=1e-4
    )
    # distances to the center are exact however many axes are kept
    np.testing.assert_allclose(streamed.diagonal, dense.diagonal, rtol=1e-9)
    assert streamed.mean_square == pytest.approx(dense.mean_square, rel=1e-9)
    gap = (
        streamed.embedding @ streamed.embedding.T - dense.embedding @ dense.embedding.T
    )
    assert np.abs(gap).max() < 0.05 * dense.diagonal.max()


@pytest.mark.parametrize("streamed", [False, True])
def test_new_rows_are_embedded_by_the_formula_of_the_old(streamed, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    if streamed:
        monkeypatch.setattr("skicml.transport._lift._is_small", lambda *_: False)
    for cost in (power(1.0), Cost("sqeuclidean"), Cost("gaussian", 1.0)):
        found = lift(cost, X, weights(rng, 60), 5, rng=rng)
        U, s = found.embed(X)
        np.testing.assert_allclose(U, found.embedding, atol=1e-9)
        np.testing.assert_allclose(s, found.diagonal, atol=1e-9)


@given(seed=seeds, eps=st.floats(0.02, 1.0))
def test_state_measures_its_plan(seed, eps):
    source, target, rng = pair(seed, power(1.0))
    spaces = scaled(source, target)
    state = evaluate(
        spaces,
        random(spaces, rng),
        0 * spaces.s,
        0 * spaces.t,
        eps,
        sinkhorn_tol=1e-12,
        sinkhorn_max_iter=5_000,
    )
    P = dense_plan(spaces, state)
    np.testing.assert_allclose(P.sum(axis=1), spaces.a, rtol=1e-9)
    np.testing.assert_allclose(P.sum(axis=0), spaces.b, atol=1e-9)
    np.testing.assert_allclose(state.following, spaces.U.T @ P @ spaces.W, atol=1e-9)
    assert state.gw == pytest.approx(model_cost(spaces, P), abs=1e-9)
    kl = np.sum(P * np.log(P / (spaces.a[:, None] * spaces.b)))
    assert state.kl == pytest.approx(kl, abs=1e-8)
    assert state.egw == pytest.approx(state.gw + eps * kl, abs=1e-8)


def test_transport_step_is_that_of_pot_between_augmented_clouds():
    ot = pytest.importorskip("ot")
    source, target, rng = pair(3, power(1.0), 20, 15)
    spaces = scaled(source, target)
    gamma, eps = random(spaces, rng), 0.3
    state = evaluate(
        spaces,
        gamma,
        0 * spaces.s,
        0 * spaces.t,
        eps,
        sinkhorn_tol=1e-12,
        sinkhorn_max_iter=5_000,
    )
    left = np.column_stack([16 * spaces.U @ gamma, 4 * spaces.s])
    right = np.column_stack([spaces.W, spaces.t])
    half = ((left[:, None] - right) ** 2).sum(axis=2) / 2
    expected = ot.sinkhorn(
        spaces.a,
        spaces.b,
        half,
        eps,
        method="sinkhorn_log",
        stopThr=1e-13,
        numItermax=20_000,
    )
    np.testing.assert_allclose(dense_plan(spaces, state), expected, atol=1e-10)


@given(seed=seeds, eps=st.floats(0.02, 0.5), p=st.sampled_from([1.0, 1.5, 2.0]))
def test_each_iteration_descends_by_what_the_theorem_says(seed, eps, p):
    source, target, rng = pair(seed, power(p), 9, 8)
    spaces = scaled(source, target)
    states = list(
        itertools.islice(
            descend(
                spaces,
                random(spaces, rng),
                eps,
                sinkhorn_tol=1e-13,
                sinkhorn_max_iter=20_000,
            ),
            8,
        )
    )
    # F(gamma) = egw + 8 |gamma - G|^2 falls by 8 |step|^2 at least
    steps = [8 * np.sum((s.gamma - s.following) ** 2) for s in states]
    values = [s.egw + step for s, step in zip(states, steps, strict=True)]
    for before, step, after in zip(values, steps, values[1:], strict=False):
        assert before - after >= step - 1e-9 * abs(before)
    bound = np.sqrt((spaces.a @ spaces.s) * (spaces.b @ spaces.t))
    assert all(np.linalg.norm(s.following) <= bound * (1 + 1e-12) for s in states)


@given(seed=seeds, D=st.integers(1, 6))
def test_truncation_changes_the_root_by_no_more_than_its_bound(seed, D):
    cost = power(1.0)
    source, target, rng = pair(seed, cost, 12, 11, D, "truncated")
    P = random_plan(rng, source.weights, target.weights)
    Cx, Cy = costs_of(cost, source.rows), costs_of(cost, target.rows)
    a, b = source.weights, target.weights
    exact = a @ Cx**2 @ a + b @ Cy**2 @ b - 2 * np.sum((Cx @ P @ Cy) * P)
    truncated = model_cost(spaces_of(source, target, (1.0, 1.0)), P)
    bound = 0.0
    for space, C in ((source, Cx), (target, Cy)):
        U = space.embedding
        kept = np.sum(U**2, 1)[:, None] + np.sum(U**2, 1) - 2 * U @ U.T
        w = space.weights
        bound += np.sqrt(w @ (C - kept) ** 2 @ w)
    assert abs(np.sqrt(max(truncated, 0)) - np.sqrt(max(exact, 0))) <= bound + 1e-9


@given(seed=seeds)
def test_exact_diagonal_bounds_the_cost_from_above_and_closes_in(seed):
    cost = power(1.0)
    source, target, rng = pair(seed, cost, 12, 11)
    P = random_plan(rng, source.weights, target.weights)
    exact = model_cost(spaces_of(source, target, (1.0, 1.0)), P)
    found = []
    for D in (1, 3, 5, 8, 11):
        lifts = [lift(cost, x.rows, x.weights, D) for x in (source, target)]
        found.append(model_cost(spaces_of(*lifts, (1.0, 1.0)), P))
    assert (np.diff(found) <= 1e-10).all()
    assert found[-1] >= exact - 1e-9


def test_a_longer_loop_changes_nothing_once_settled():
    source, target, rng = pair(5, power(1.0), 30, 25)
    spaces = scaled(source, target)
    states = descend(
        spaces, random(spaces, rng), 0.2, sinkhorn_tol=1e-12, sinkhorn_max_iter=5_000
    )
    values = [state.egw for state in itertools.islice(states, 60)]
    assert (np.diff(values) <= 1e-10).all()
    assert values[-2] - values[-1] < 1e-8
