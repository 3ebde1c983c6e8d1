"""The fused search for CUDA, in Triton's interpreter where there is no GPU.

Without a GPU, run it with ``SKICML_TEST_TRITON=interpret``.
"""

import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skicml_accel import use_implementation
from skicml_accel.neighbors import knn

pytestmark = pytest.mark.triton
pytest.importorskip("triton")

from skicml_accel.neighbors import _knn_triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
runs = pytest.mark.skipif(
    DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1",
    reason="no GPU; SKICML_TEST_TRITON=interpret runs it on the CPU",
)


def move(array):
    return torch.from_numpy(array).to(DEVICE)


def run(query, data, *, k, exclude=None, chunk_bytes=None, **launch):
    """Search with small tiles: few programs, yet more than one of everything."""
    launch = _knn_triton.Launch(**{"block_m": 16, "block_n": 32, **launch})
    distance, index = _knn_triton.search(
        move(query),
        move(data),
        k=k,
        exclude=None if exclude is None else move(exclude),
        chunk_bytes=chunk_bytes,
        launch=launch,
    )
    return distance.cpu().numpy(), index.cpu().numpy()


def reference(query, data, **kwargs):
    with use_implementation("reference"), np.errstate(over="ignore"):
        return knn(query.astype(np.float64), data.astype(np.float64), **kwargs)


def assert_nearest(query, data, distance, index, *, k, exclude=None):
    expected = reference(query, data, k=k, exclude=exclude)
    assert distance.dtype == query.dtype
    assert index.dtype == np.int64
    limits = np.finfo(query.dtype)
    tolerance = {"rtol": (query.shape[1] + 4) * limits.eps, "atol": limits.tiny}
    np.testing.assert_allclose(distance, expected[0], **tolerance)
    np.testing.assert_array_equal(index, expected[1])


def cloud(n, d, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


@runs
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("m", "n", "d", "k", "n_splits"),
    [
        (1, 1, 1, 1, 1),
        (5, 7, 3, 2, 1),
        (17, 200, 20, 10, 3),
        (33, 100, 1, 32, 2),
        (16, 128, 16, 14, 4),
        (20, 150, 300, 5, 2),
        (3, 40, 2, 15, 2),
    ],
)
def test_search_matches_reference(m, n, d, k, n_splits, dtype):
    query, data = cloud(m, d, 1, dtype), cloud(n, d, dtype=dtype)
    distance, index = run(query, data, k=k, n_splits=n_splits)
    assert_nearest(query, data, distance, index, k=k)


@st.composite
def grids(draw):
    """Draw points of a small grid: their distances are exact, and often equal."""
    n, m, d = (
        draw(st.integers(2, 90)),
        draw(st.integers(0, 20)),
        draw(st.integers(1, 3)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    data = rng.integers(0, draw(st.integers(1, 9)), (n, d)).astype(dtype)
    own = rng.integers(-1, n, m)
    excludes = draw(st.booleans())
    k = draw(st.integers(1, min(32, n - excludes)))
    return data[own], data, k, own if excludes else None


@runs
@given(search=grids(), n_splits=st.integers(1, 4))
def test_ties_are_ordered_by_index(search, n_splits):
    query, data, k, exclude = search
    distance, index = run(query, data, k=k, exclude=exclude, n_splits=n_splits)
    expected = reference(query, data, k=k, exclude=exclude)
    np.testing.assert_array_equal(distance, expected[0])
    np.testing.assert_array_equal(index, expected[1])


@runs
@pytest.mark.parametrize("k", [1, 6, 14, 30])
def test_ordinary_data_are_certified_at_once(k, monkeypatch):
    def search_all(*args):
        raise AssertionError("the certificate failed")

    monkeypatch.setattr(_knn_triton, "_search_all", search_all)
    query, data = cloud(40, 5, 1), cloud(300, 5)
    distance, index = run(query, data, k=k)
    assert_nearest(query, data, distance, index, k=k)


@runs
def test_result_does_not_depend_on_tiles_or_chunks():
    query, data = cloud(20, 20, 1), cloud(150, 20)
    expected = run(query, data, k=10)
    launches = [
        {"block_n": 64},
        {"block_d": 32},
        {"block_m": 32, "n_splits": 5},
        {"n_splits": 10},
        {"chunk_bytes": 1},
    ]
    for launch in launches:
        distance, index = run(query, data, k=10, **launch)
        np.testing.assert_array_equal(distance, expected[0])
        np.testing.assert_array_equal(index, expected[1])


@runs
def test_more_shares_than_tiles_leave_some_empty():
    query, data = cloud(4, 3, 1), cloud(40, 3)
    distance, index = run(query, data, k=8, n_splits=7)
    assert_nearest(query, data, distance, index, k=8)


@runs
@pytest.mark.parametrize("n", [3, 40])
def test_all_other_rows_can_be_asked_for(n):
    data = cloud(n, 3)
    k = min(n - 1, 32)
    own = np.arange(n)
    distance, index = run(data, data, k=k, exclude=own, n_splits=2)
    assert_nearest(data, data, distance, index, k=k, exclude=own)


@runs
def test_more_duplicates_than_spare_rows_are_ordered():
    data = np.repeat(cloud(5, 3), 30, axis=0)
    distance, index = run(data[::30], data, k=4, n_splits=2)
    np.testing.assert_array_equal(distance, 0)
    np.testing.assert_array_equal(index, np.arange(4) + 30 * np.arange(5)[:, None])


@runs
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_that_mislead_do_not_change_the_answer(dtype):
    near = (1e3 + 1e-2 * cloud(60, 4, dtype=np.float64)).astype(dtype)
    query = (1e3 + 1e-2 * cloud(9, 4, 1, np.float64)).astype(dtype)
    data = np.concatenate([near, -near])
    distance, index = run(query, data, k=5)
    assert_nearest(query, data, distance, index, k=5)


@runs
@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e18, 1e-23])
def test_huge_and_tiny_numbers(scale):
    query = scale * cloud(6, 3, 1, np.float64)
    data = scale * cloud(80, 3, dtype=np.float64)
    distance, index = run(query, data, k=5)
    assert_nearest(query, data, distance, index, k=5)


@runs
def test_numbers_whose_square_overflows_are_not_nan():
    query, data = 1e30 * cloud(4, 3, 1), 1e30 * cloud(50, 3)
    query[0] = data[7]
    distance, index = run(query, data, k=3)
    expected = reference(query, data, k=3)
    assert distance[0, 0] == 0
    assert np.all(np.isinf(distance[expected[0] > 1e39]))
    np.testing.assert_array_equal(index, expected[1])


@runs
def test_strided_input():
    data = cloud(100, 12)[::2, ::3]
    query = np.asfortranarray(cloud(8, 4, 1))
    distance, index = run(query, data, k=3)
    assert_nearest(query, data, distance, index, k=3)


@pytest.mark.parametrize("m", [0, 1, 100, 2000, 10**6])
@pytest.mark.parametrize("n", [1, 10**4, 10**6, 10**8])
def test_plan_fills_the_device_unless_shares_get_short(m, n):
    launch = _knn_triton.plan(m, n, n_processors=132)
    tiles = max(1, -(-m // launch.block_m))
    assert launch.n_splits >= 1
    rows = n / launch.n_splits
    assert tiles * launch.n_splits >= 4 * 132 or rows < 32 * launch.block_n
    # twice as many would wait in vain
    assert launch.n_splits == 1 or tiles * (launch.n_splits - 1) < 4 * 132


def test_fused_search_is_for_cuda():
    query = torch.zeros(1000, 20)
    answer = knn.explain(query, torch.zeros(1000, 20), k=3)
    assert answer["triton"] == "device 'cpu' not in ['cuda']"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dispatch_on_a_gpu(dtype):
    query = torch.rand(500, 20, dtype=dtype, device="cuda")
    data = torch.rand(20_000, 20, dtype=dtype, device="cuda")
    assert knn.explain(query, data, k=10)["triton"] == "chosen"
    assert knn.explain(query, data, k=33)["triton"] == "k=33 is above 32"
    distance, index = knn(query, data, k=10)
    assert distance.is_cuda
    assert index.is_cuda
    host = query.cpu().numpy(), data.cpu().numpy()
    assert_nearest(*host, distance.cpu().numpy(), index.cpu().numpy(), k=10)
