"""Costs and their products against SciPy's distances."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from skicml_accel import use_implementation
from skicml_accel.transport import (
    cost_block,
    cost_block_matvec,
    cost_block_matvec_estimate_bytes,
)

IMPLEMENTATIONS = ["reference", "scipy", "numba"]
CASES = [
    ("sqeuclidean", 1.0),
    ("euclidean", 1.0),
    ("cityblock", 1.0),
    ("power", 0.5),
    ("power", 1.7),
    ("gaussian", 0.8),
]


def needs(name):
    if name == "numba":
        pytest.importorskip("numba")


def expected(X, Y, cost, parameter):
    if cost == "power":
        return cdist(X, Y) ** parameter
    if cost == "gaussian":
        return 2 - 2 * np.exp(-cdist(X, Y, "sqeuclidean") / (2 * parameter**2))
    return cdist(X, Y, cost)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("cost", "parameter"), CASES)
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(0, 20),
    m=st.integers(1, 30),
    d=st.integers(1, 9),
    far=st.sampled_from([0.0, 1e3]),
    chunk=st.sampled_from([None, 1, 300]),
)
def test_products_match_distances(
    name, cost, parameter, dtype, seed, n, m, d, far, chunk
):
    needs(name)
    rng = np.random.default_rng(seed)
    X, Y = (
        rng.normal(size=(k, d)).astype(dtype) + dtype_of(far, dtype) for k in (n, m)
    )
    Y[: min(n, m)] = X[: min(n, m)]
    V, w = rng.normal(size=(m, 3)).astype(dtype), rng.random(m).astype(dtype)
    with use_implementation(name):
        block = cost_block(X, Y, cost=cost, parameter=parameter)
        product, squared = cost_block_matvec(
            X, Y, V, cost=cost, parameter=parameter, weights=w, chunk_bytes=chunk
        )
    C = expected(X.astype(np.float64), Y.astype(np.float64), cost, parameter)
    # differences are exact up to the rounding of their own size: far is harmless
    tolerance = {
        "rtol": 0,
        "atol": 200 * np.finfo(dtype).eps * max(1, C.max(initial=0)),
    }
    np.testing.assert_allclose(block, C, **tolerance)
    assert (np.diagonal(block) == 0).all()
    assert product.dtype == squared.dtype == block.dtype == dtype
    tolerance["atol"] *= m * max(1, C.max(initial=0))
    np.testing.assert_allclose(product, C @ V, **tolerance)
    np.testing.assert_allclose(squared, C**2 @ w, **tolerance)


def dtype_of(value, dtype):
    return np.dtype(dtype).type(value)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_tensors_and_strides(name):
    needs(name)
    rng = np.random.default_rng(0)
    X, Y, V = rng.normal(size=(7, 4)), rng.normal(size=(9, 4)), rng.normal(size=(9, 2))
    with use_implementation(name):
        plain, nothing = cost_block_matvec(X, Y, V)
        strided, _ = cost_block_matvec(
            np.asfortranarray(X), Y[::-1].copy()[::-1], np.asfortranarray(V)
        )
        tensor, none = cost_block_matvec(*map(torch.from_numpy, (X, Y, V)))
    assert nothing is None
    assert none is None
    np.testing.assert_allclose(strided, plain, rtol=1e-12)
    torch.testing.assert_close(tensor, torch.from_numpy(plain))


def test_bad_input_is_named():
    X, V = np.zeros((3, 2)), np.zeros((3, 1))
    with pytest.raises(ValueError, match=r"cost must be one of .* got 'cosine'"):
        cost_block(X, X, cost="cosine")
    with pytest.raises(ValueError, match="equally many columns"):
        cost_block_matvec(X, X[:, :1], V)
    with pytest.raises(ValueError, match="V must have 3 rows, as Y has, got 2"):
        cost_block_matvec(X, X, V[:2])


def test_memory_stays_within_its_estimate(monkeypatch):
    needs("numba")
    import tracemalloc

    monkeypatch.setenv("SKICML_NUM_THREADS", "1")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 5)).astype(np.float32)
    V = rng.normal(size=(4_000, 8)).astype(np.float32)
    with use_implementation("numba"):
        cost_block_matvec(X, X, V, weights=V[:, 0])
        tracemalloc.start()
        try:
            cost_block_matvec(X, X, V, weights=V[:, 0])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    estimate = cost_block_matvec_estimate_bytes(4_000, 4_000, 5, 8)
    assert peak <= 1.25 * estimate <= 0.2 * 4 * 4_000**2
