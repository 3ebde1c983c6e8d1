"""Masked contractions against sums over quadruples of rows, and masks against a grid."""

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skicml_accel import use_implementation
from skicml_accel.transport import (
    mask_update,
    masked_gw_estimate_bytes,
    masked_gw_grad,
    pair_residual,
)
from skicml_accel.transport._masked_gw import PENALTIES

CONTRACTIONS = ["reference", "sparse"]
UPDATES = ["reference", "numba"]
PRICES = {
    "quadratic": lambda w: (1 - w) ** 2 / 2,
    "geman": lambda w: (np.sqrt(w) - 1) ** 2,
    "hard": lambda w: 1 - w,
}


def needs(name):
    if name == "numba":
        pytest.importorskip("numba")


def masked_space(rng, n, size=1.0):
    """Cost and mask of a space, and the moments that stand for both."""
    C, W = size * rng.normal(size=(n, n)), rng.random((n, n))
    C, W = C + C.T, (W + W.T) / 2
    return C, W, np.stack([W, W * C, W * C * C])


def plan_between(rng, n, m, few):
    """Random matrix of positive row sums, not necessarily of given marginals."""
    plan = rng.random((n, m))
    if few:
        plan *= rng.random((n, m)) < 0.2
        plan[np.arange(n), rng.integers(0, m, n)] += 0.5
    return plan / plan.sum()


def quadruples(Cx, Cy, Wx, Wy):
    gap = Cx[:, None, :, None] - Cy[None, :, None, :]
    return Wx[:, None, :, None] * Wy[None, :, None, :] * gap**2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CONTRACTIONS)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 8),
    m=st.integers(1, 8),
    few=st.booleans(),
    size=st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_contractions_match_the_quadruple_sum(name, dtype, seed, n, m, few, size):
    rng = np.random.default_rng(seed)
    Cx, Wx, A = masked_space(rng, n, size)
    Cy, Wy, B = masked_space(rng, m, size)
    T = plan_between(rng, n, m, few)
    a = T.sum(axis=1)
    tensor = quadruples(Cx, Cy, Wx, Wy)
    with use_implementation(name):
        G = masked_gw_grad(*(x.astype(dtype) for x in (A, B, T)))
        R = pair_residual(*(x.astype(dtype) for x in (B, T, Cx, a)))
    assert G.dtype == R.dtype == dtype
    # terms of the size of the squared costs cancel
    largest = max(np.abs(Cx).max(), np.abs(Cy).max()) ** 2
    tolerance = {"rtol": 0, "atol": 2e3 * np.finfo(dtype).eps * largest}
    expected = 2 * np.einsum("ijkl,kl->ij", tensor, T)
    np.testing.assert_allclose(G, expected, **tolerance)
    unmasked = quadruples(Cx, Cy, np.ones_like(Wx), Wy)
    mean = np.einsum("ijkl,ij,kl->ik", unmasked, T, T) / np.outer(a, a)
    np.testing.assert_allclose(R, mean, **tolerance)
    assert (R >= 0).all()
    np.testing.assert_array_equal(R, R.T)
    # what the pairs suffer adds up to the cost
    cost = np.sum(G.astype(np.float64) * T) / 2
    np.testing.assert_allclose(np.sum(np.outer(a, a) * Wx * R), cost, **tolerance)


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_gradient_matches_finite_differences(name):
    rng = np.random.default_rng(0)
    _, _, A = masked_space(rng, 6)
    _, _, B = masked_space(rng, 5)
    T, way = plan_between(rng, 6, 5, True), rng.normal(size=(6, 5))

    def cost(T):
        return np.sum(T * masked_gw_grad(A, B, T)) / 2

    step = 1e-4
    with use_implementation(name):
        slope = (cost(T + step * way) - cost(T - step * way)) / (2 * step)
        expected = np.sum(masked_gw_grad(A, B, T) * way)
    # the cost is quadratic: central differences are exact up to rounding
    assert slope == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("name", UPDATES)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(0, 20),
    lam=st.sampled_from([1e-6, 0.3, 1.0, 1e8]),
)
def test_masks_match_the_formula(name, penalty, dtype, seed, n, lam):
    needs(name)
    rng = np.random.default_rng(seed)
    R = (lam * rng.exponential(size=(n, n))).astype(dtype)
    # on the edge of what is masked, far beyond it, and an exact match
    R.ravel()[:3] = np.array([lam, 1e20, 0], dtype=dtype)[: R.size]
    C = rng.normal(size=(n, n)).astype(dtype)
    with use_implementation(name):
        found = mask_update(R, C, lam=lam, penalty=penalty)
    assert found.shape == (3, n, n)
    assert found.dtype == dtype
    r = R.astype(np.float64)
    expected = {
        "quadratic": np.clip(1 - r / lam, 0, 1),
        "geman": (lam / (lam + r)) ** 2,
        "hard": (R <= np.dtype(dtype).type(lam)) * 1.0,
    }[penalty]
    atol = 10 * np.finfo(dtype).eps
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=atol)
    np.testing.assert_allclose(found[1], found[0] * C, rtol=4 * atol)
    np.testing.assert_allclose(found[2], found[0] * C * C, rtol=4 * atol)
    assert ((found[0] >= 0) & (found[0] <= 1)).all()


@pytest.mark.parametrize("penalty", PENALTIES)
@given(
    share=st.floats(0, 8),
    lam=st.sampled_from([1e-4, 0.7, 30.0]),
)
def test_masks_are_the_best_on_a_fine_grid(penalty, share, lam):
    r = share * lam
    grid = np.linspace(0, 1, 100_001)
    values = grid * r + lam * PRICES[penalty](grid)
    w = mask_update(np.array([[r]]), np.zeros((1, 1)), lam=lam, penalty=penalty)
    value = w[0, 0, 0] * r + lam * PRICES[penalty](w[0, 0, 0])
    assert value <= values.min() + 1e-12 * lam * (1 + share)


@pytest.mark.parametrize("name", [*CONTRACTIONS, "numba"])
def test_tensors_and_strides(name):
    needs(name)
    rng = np.random.default_rng(0)
    C, _, A = masked_space(rng, 9)
    _, _, B = masked_space(rng, 7)
    T = plan_between(rng, 9, 7, True)
    a, R = T.sum(axis=1), rng.random((9, 9))

    def all_three(A, B, T, C, a, R):
        return (
            masked_gw_grad(A, B, T),
            pair_residual(B, T, C, a),
            mask_update(R, C, lam=0.4),
        )

    with use_implementation(name):
        plain = all_three(A, B, T, C, a, R)
        strided = all_three(
            *(np.asfortranarray(x) for x in (A, B)),
            T[:, ::-1].copy()[:, ::-1],
            C.T,
            np.repeat(a, 2)[::2],
            R[::-1].copy()[::-1],
        )
        tensors = all_three(*map(torch.from_numpy, (A, B, T, C, a, R)))
    for expected, other, tensor in zip(plain, strided, tensors, strict=True):
        np.testing.assert_allclose(other, expected, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(tensor, torch.from_numpy(expected))


def test_the_sparse_way_is_taken_for_vertices_only():
    _, _, A = masked_space(np.random.default_rng(0), 40)
    vertex, blur = np.eye(40) / 40, np.full((40, 40), 1 / 1600)
    assert masked_gw_grad.explain(A, A, vertex)["sparse"] == "chosen"
    assert "is not zero" in masked_gw_grad.explain(A, A, blur)["sparse"]


def test_bad_input_is_named():
    A, T = np.ones((3, 4, 4)), np.ones((4, 5))
    with pytest.raises(ValueError, match=r"\(3, m, m\) and \(n, m\), got \(3, 4, 4\)"):
        masked_gw_grad(A, A, T)
    with pytest.raises(ValueError, match="target, plan, cost and weights must"):
        pair_residual(A, T.T, A[0], np.ones(4))
    with pytest.raises(ValueError, match="penalty must be one of quadratic, geman"):
        mask_update(A[0], A[0], lam=1.0, penalty="soft")
    with pytest.raises(ValueError, match="lam must be positive, got 0"):
        mask_update(A[0], A[0], lam=0)
    with pytest.raises(ValueError, match="matrices of one shape"):
        mask_update(A[0], T, lam=1.0)
    with pytest.raises(TypeError, match="must share library"):
        masked_gw_grad(A, torch.from_numpy(A), T)


@pytest.mark.parametrize(("n", "m"), [(300, 300), (100, 500)])
@pytest.mark.parametrize("few", [False, True])
def test_memory_stays_within_its_estimate(n, m, few):
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    C, _, A = masked_space(rng, n)
    _, _, B = masked_space(rng, m)
    T = plan_between(rng, n, m, False)
    if few:
        T = np.zeros((n, m))
        T[np.arange(n), np.arange(n) % m] = 1 / n
    a = T.sum(axis=1)
    R = mask_update(np.abs(C), C, lam=1.0)[0]
    peaks = []
    for run in (
        lambda: masked_gw_grad(A, B, T),
        lambda: pair_residual(B, T, C, a),
        lambda: mask_update(R, C, lam=0.5),
    ):
        tracemalloc.start()
        try:
            run()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    estimate = masked_gw_estimate_bytes(n, m)
    assert max(peaks) <= 1.1 * estimate
    if not few:
        # an estimate far above the truth would promise nothing
        assert estimate <= 2 * max(peaks)
