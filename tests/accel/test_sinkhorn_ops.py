"""Passes over factored plans against sums over the whole matrix."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from skicml_accel import use_implementation
from skicml_accel.transport import (
    plan_argmax,
    plan_contract,
    plan_contract_estimate_bytes,
    sinkhorn_pass,
    sinkhorn_pass_estimate_bytes,
)

IMPLEMENTATIONS = ["reference", "blas", "numba"]
DTYPES = ["float32", "float64"]


def needs(name):
    if name == "numba":
        pytest.importorskip("numba")


def problem(seed, n, m, d, size=1.0, zeros=False):
    rng = np.random.default_rng(seed)
    left, right = size * rng.normal(size=(n, d)), size * rng.normal(size=(m, d))
    p, q = rng.normal(size=n), rng.normal(size=m)
    a, b = rng.random(n) + 0.01, rng.random(m) + 0.01
    if zeros:
        a[rng.random(n) < 0.4] = 0
        b[rng.random(m) < 0.4] = 0
        a[0] = b[0] = 1
    return left, right, p, q, a / a.sum(), b / b.sum()


def expected_pass(left, right, p, q, a, b, jacobi):
    """Sum in double precision over the stored matrix."""
    z = left @ right.T + q
    rows = -logsumexp(z, b=b[None], axis=1)
    known = p if jacobi else rows
    return rows, logsumexp(z + known[:, None], b=a[:, None], axis=0)


def assert_pass(arrays, dtype, jacobi, **options):
    cast = [x.astype(dtype) for x in arrays]
    rows, log_c = sinkhorn_pass(*cast, jacobi=jacobi, **options)
    assert rows.dtype == log_c.dtype == dtype
    wide = [x.astype(np.float64) for x in cast]
    expected = expected_pass(*wide, jacobi)
    # rounding of the products, of the order of the exponents themselves
    largest = max(1, np.abs(wide[0] @ wide[1].T).max(), np.abs(expected[0]).max())
    tolerance = 20 * (wide[0].shape[1] + 4) * np.finfo(dtype).eps * largest
    np.testing.assert_allclose(rows, expected[0], rtol=0, atol=tolerance)
    np.testing.assert_allclose(log_c, expected[1], rtol=0, atol=2 * tolerance)


@pytest.mark.parametrize("jacobi", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 40),
    m=st.integers(1, 40),
    d=st.integers(1, 6),
    size=st.sampled_from([0.1, 1.0, 6.0]),
    zeros=st.booleans(),
    chunk=st.sampled_from([None, 1, 500]),
)
def test_pass_matches_the_whole_matrix(
    name, dtype, jacobi, seed, n, m, d, size, zeros, chunk
):
    needs(name)
    with use_implementation(name):
        assert_pass(
            problem(seed, n, m, d, size, zeros), dtype, jacobi, chunk_bytes=chunk
        )


@pytest.mark.parametrize("jacobi", [False, True])
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_pass_survives_exponents_out_of_range(name, jacobi):
    needs(name)
    left, right, p, q, a, b = problem(0, 30, 50, 3, size=40.0)
    # from e^2000 to e^-2000 even in double precision
    with use_implementation(name):
        assert_pass((left, right, p - 500, q + 500, a, b), "float64", jacobi)
        assert_pass((left, right, p + 900, q, a, b), "float64", jacobi)
        assert_pass((left, right, p, q, a, b), "float32", jacobi)


@pytest.mark.parametrize("name", ["blas", "numba"])
def test_iteration_reaches_the_marginals_of_pot(name):
    needs(name)
    ot = pytest.importorskip("ot")
    left, right, p, q, a, b = problem(3, 12, 9, 2)
    q = 0 * q
    with use_implementation(name):
        for _ in range(300):
            p, log_c = sinkhorn_pass(left, right, p, q, a, b)
            q = q - log_c
    plan = a[:, None] * b * np.exp(left @ right.T + p[:, None] + q)
    expected = ot.sinkhorn(a, b, -left @ right.T, 1.0, stopThr=1e-14)
    np.testing.assert_allclose(plan, expected, rtol=1e-9)


@pytest.mark.parametrize("guessed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(0, 40),
    m=st.integers(1, 40),
    k=st.integers(1, 5),
    size=st.sampled_from([0.1, 1.0, 30.0]),
    zeros=st.booleans(),
)
def test_contract_matches_the_whole_matrix(
    name, dtype, guessed, seed, n, m, k, size, zeros
):
    needs(name)
    if name == "numba" and not guessed:
        pytest.skip("the compiled kernel starts from a guess")
    left, right, p, q, _, b = (
        x.astype(dtype) for x in problem(seed, max(n, 1), m, 3, size, zeros)
    )
    left, p = left[:n], p[:n]
    values = np.random.default_rng(seed).normal(size=(m, k)).astype(dtype)
    with np.errstate(divide="ignore"):
        bias = q + np.log(b)
    with use_implementation(name):
        actual = plan_contract(left, right, bias, values, guess=p if guessed else None)
    z = left.astype(np.float64) @ right.T.astype(np.float64) + bias
    weight = np.exp(z - logsumexp(z, axis=1, keepdims=True))
    assert actual.dtype == dtype
    tolerance = (
        100 * np.finfo(dtype).eps * max(1, np.abs(left @ right.T).max(initial=0))
    )
    np.testing.assert_allclose(actual, weight @ values, rtol=0, atol=4 * tolerance)


@pytest.mark.parametrize("name", ["reference", "blas"])
def test_argmax_takes_the_first_of_equal_columns(name):
    left, right = np.ones((3, 2)), np.array([[1.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
    with use_implementation(name):
        found = plan_argmax(left, right, np.zeros(3))
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, [1, 1, 1])
        found = plan_argmax(left, right, np.array([5.0, 0.0, 0.0]))
        np.testing.assert_array_equal(found, [0, 0, 0])
        assert plan_argmax(left[:0], right, np.zeros(3)).shape == (0,)


@pytest.mark.parametrize("name", ["blas", "numba"])
def test_any_strides(name):
    needs(name)
    left, right, p, q, a, b = problem(1, 20, 24, 4)
    with use_implementation(name):
        plain = sinkhorn_pass(left, right, p, q, a, b)
        strided = sinkhorn_pass(
            np.asfortranarray(left),
            right[::-1].copy()[::-1],
            np.repeat(p, 2)[::2],
            q,
            a[::-1].copy()[::-1],
            b,
        )
    for x, y in zip(plain, strided, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    needs("numba")
    arrays = problem(2, 900, 700, 5)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("SKICML_NUM_THREADS", threads)
        with use_implementation("numba"):
            found.append(sinkhorn_pass(*arrays))
    for x, y in zip(*found, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", ["reference", "blas", "numba"])
def test_torch_tensors_stay_tensors(name):
    needs(name)
    arrays = problem(4, 15, 17, 3)
    with use_implementation(name):
        expected = sinkhorn_pass(*arrays)
        found = sinkhorn_pass(*(torch.from_numpy(x) for x in arrays))
    for x, y in zip(expected, found, strict=True):
        torch.testing.assert_close(torch.from_numpy(x), y)


def test_gradients_take_the_reference():
    left, right, p, q, a, b = (torch.from_numpy(x) for x in problem(5, 6, 7, 2))
    left.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda z: sinkhorn_pass(z, right, p, q, a, b), (left,)
    )


def test_shapes_are_checked():
    left, right, p, q, a, b = problem(0, 5, 6, 2)
    with pytest.raises(ValueError, match="equally many columns"):
        sinkhorn_pass(left[:, :1], right, p, q, a, b)
    with pytest.raises(ValueError, match=r"p must have shape \(5,\), got \(6,\)"):
        sinkhorn_pass(left, right, q, q, a, b)
    with pytest.raises(ValueError, match="right has no rows"):
        plan_contract(left, right[:0], q[:0], right[:0])
    with pytest.raises(TypeError, match="share library"):
        plan_argmax(left, torch.from_numpy(right), q)


@pytest.mark.parametrize("n", [3_000, 12_000])
def test_memory_stays_within_its_estimate(n, monkeypatch):
    needs("numba")
    import tracemalloc

    monkeypatch.setenv("SKICML_NUM_THREADS", "1")
    left, right, p, q, a, b = (
        x.astype(np.float32) for x in problem(0, n, 2_000, 6, 0.3)
    )
    with use_implementation("numba"):
        p, _ = sinkhorn_pass(left, right, p, q, a, b)
        plan_contract(left, right, q, right, guess=p)
        for run, estimate in (
            (
                lambda: sinkhorn_pass(left, right, p, q, a, b),
                sinkhorn_pass_estimate_bytes(n, 2_000, 6),
            ),
            (
                lambda: plan_contract(left, right, q, right, guess=p),
                plan_contract_estimate_bytes(n, 2_000, 6, 6),
            ),
        ):
            tracemalloc.start()
            try:
                run()
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            # far from n m numbers
            assert peak <= 1.25 * estimate <= 0.6 * 4 * n * 2_000
