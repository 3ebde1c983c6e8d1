"""Every implementation of k nearest neighbors against the reference.

Implementations differ in the order in which they add squares, so distances agree to a
few units of rounding and indices agree up to that; on a grid of small integers the
arithmetic is exact, and indices must agree where the contract orders ties.
"""

import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from skicml_accel import use_implementation
from skicml_accel.neighbors import knn

EXACT = ["numba", "blas", "sparse"]
ALL = [*EXACT, "torch"]


@pytest.fixture(scope="module", params=ALL)
def name(request):
    if request.param == "numba":
        pytest.importorskip("numba")
    return request.param


@pytest.fixture(scope="module", params=EXACT)
def exact_name(request):
    if request.param == "numba":
        pytest.importorskip("numba")
    return request.param


def run(name, query, data, *, exclude=None, **kwargs):
    """Call one implementation with arrays of the kind that it takes."""
    if name == "torch":
        query, data = torch.from_numpy(query.copy()), torch.from_numpy(data.copy())
        exclude = None if exclude is None else torch.from_numpy(exclude)
    elif name == "sparse":
        query, data = scipy.sparse.csr_array(query), scipy.sparse.csr_array(data)
    with use_implementation(name):
        distance, index = knn(query, data, exclude=exclude, **kwargs)
    return np.asarray(distance), np.asarray(index)


def reference(query, data, **kwargs):
    """Run the reference in double precision, whatever the input."""
    with use_implementation("reference"), np.errstate(over="ignore"):
        return knn(query.astype(np.float64), data.astype(np.float64), **kwargs)


def assert_nearest(query, data, distance, index, *, k, exclude=None):
    """Hold a result to the reference without relying on the order of near-ties."""
    expected, _ = reference(query, data, k=k, exclude=exclude)
    assert distance.dtype == query.dtype
    assert index.dtype == np.int64
    assert distance.shape == index.shape == expected.shape
    assert not np.any(np.isnan(distance))
    limits = np.finfo(query.dtype)
    tolerance = {"rtol": (query.shape[1] + 4) * limits.eps, "atol": limits.tiny}
    np.testing.assert_allclose(distance, expected, **tolerance)
    # the rows named are distinct, allowed, and as far away as is said
    assert all(np.unique(row).size == k for row in index)
    if exclude is not None:
        assert not np.any(index == exclude[:, None])
    difference = query[:, None].astype(np.float64) - data[index]
    with np.errstate(over="ignore"):
        actual = np.sum(difference**2, axis=2)
    np.testing.assert_allclose(distance, actual, **tolerance)


def laid_out(array, layout):
    """Return the same numbers in another memory layout."""
    if layout == "fortran":
        return np.asfortranarray(array)
    if layout == "reversed":
        return array[::-1, ::-1].copy()[::-1, ::-1]
    if layout == "strided":
        spread = np.full((2 * array.shape[0], 3 * array.shape[1]), np.nan, array.dtype)
        spread[::2, ::3] = array
        return spread[::2, ::3]
    if layout == "readonly":
        array = array.copy()
        array.flags.writeable = False
    if layout == "swapped":
        return array.astype(array.dtype.newbyteorder())
    return array


LAYOUTS = ["contiguous", "fortran", "reversed", "strided", "readonly"]


@st.composite
def searches(draw, elements):
    """Draw query, data, k and exclude; half of the queries are rows of the data."""
    d = draw(st.integers(1, 5))
    n = draw(st.integers(2, 60))
    m = draw(st.integers(0, 12))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    data = draw(hnp.arrays(dtype, (n, d), elements=elements))
    query = draw(hnp.arrays(dtype, (m, d), elements=elements))
    own = draw(hnp.arrays(np.int64, m, elements=st.integers(-1, n - 1)))
    query = np.where(own[:, None] >= 0, data[own], query)
    excludes = draw(st.booleans())
    k = draw(st.integers(1, n - excludes))
    return query, data, k, own if excludes else None


continuous = searches(st.floats(-1e3, 1e3, width=32))
grid = searches(st.integers(0, 2).map(float))


@given(search=continuous, layout=st.sampled_from(LAYOUTS), chunk=st.integers(1, 4000))
def test_knn_matches_reference(name, search, layout, chunk):
    query, data, k, exclude = search
    distance, index = run(
        name,
        laid_out(query, layout),
        laid_out(data, layout),
        k=k,
        exclude=exclude,
        chunk_bytes=chunk,
    )
    assert_nearest(query, data, distance, index, k=k, exclude=exclude)


@given(search=grid, chunk=st.integers(1, 4000))
def test_ties_are_ordered_by_index(exact_name, search, chunk):
    query, data, k, exclude = search
    distance, index = run(
        exact_name, query, data, k=k, exclude=exclude, chunk_bytes=chunk
    )
    expected = reference(query, data, k=k, exclude=exclude)
    np.testing.assert_array_equal(distance, expected[0])
    np.testing.assert_array_equal(index, expected[1])


@given(search=continuous)
def test_kernels_on_the_cpu_agree_to_the_bit(search):
    # the dispatcher may choose either, and results shall not tell which
    pytest.importorskip("numba")
    query, data, k, exclude = search
    distance, index = run("numba", query, data, k=k, exclude=exclude)
    expected = run("blas", query, data, k=k, exclude=exclude)
    np.testing.assert_array_equal(distance, expected[0])
    np.testing.assert_array_equal(index, expected[1])
    if query.dtype == np.float64:
        expected = reference(query, data, k=k, exclude=exclude)
        np.testing.assert_array_equal(distance, expected[0])
        np.testing.assert_array_equal(index, expected[1])


@given(search=grid)
def test_torch_distances_agree_under_ties(search):
    query, data, k, exclude = search
    distance, index = run("torch", query, data, k=k, exclude=exclude)
    assert_nearest(query, data, distance, index, k=k, exclude=exclude)


@given(search=continuous)
def test_reference_is_the_sorted_distance(search):
    query, data, k, exclude = search
    distance, index = reference(query, data, k=k, exclude=exclude)
    difference = query[:, None].astype(np.float64) - data
    squared = np.sum(difference**2, axis=2)
    if exclude is not None:
        squared[np.arange(len(query)), exclude] = np.where(
            exclude < 0, squared[np.arange(len(query)), exclude], np.inf
        )
    np.testing.assert_allclose(distance, np.sort(squared, axis=1)[:, :k], rtol=1e-14)
    np.testing.assert_allclose(
        distance, np.take_along_axis(squared, index, 1), rtol=1e-14
    )


@given(search=grid)
def test_array_api_arrays_take_the_reference(search):
    query, data, k, exclude = search
    expected = reference(query, data, k=k, exclude=exclude)
    query, data = map(array_api_strict.asarray, (query, data))
    if exclude is not None:
        exclude = array_api_strict.asarray(exclude)
    distance, index = knn(query, data, k=k, exclude=exclude)
    assert distance.dtype == query.dtype
    np.testing.assert_array_equal(np.asarray(distance), expected[0])
    np.testing.assert_array_equal(np.asarray(index), expected[1])


def cloud(n, d, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_knn_with_incomplete_blocks(name, n, dtype):
    data, query = cloud(n, 3, dtype=dtype), cloud(7, 3, 1, dtype)
    for k in sorted({1, min(n, 5), min(n, 200)}):
        distance, index = run(name, query, data, k=k)
        assert_nearest(query, data, distance, index, k=k)


@pytest.mark.parametrize("d", [1, 2, 15, 16, 17, 300])
def test_knn_in_few_and_many_columns(name, d):
    data, query = cloud(500, d), cloud(9, d, 1)
    distance, index = run(name, query, data, k=10)
    assert_nearest(query, data, distance, index, k=10)


@pytest.mark.parametrize("layout", [*LAYOUTS, "swapped"])
@pytest.mark.parametrize("cpu_name", ["numba", "blas"])
def test_knn_in_any_layout(cpu_name, layout):
    if cpu_name == "numba":
        pytest.importorskip("numba")
    data, query = cloud(300, 4), cloud(20, 4, 1)
    distance, index = run(
        cpu_name, laid_out(query, layout), laid_out(data, layout), k=4
    )
    assert distance.dtype == np.float64
    assert_nearest(query, data, distance, index, k=4)


@pytest.mark.parametrize("n_queries", [0, 1, 3, 4, 5])
def test_knn_with_few_queries(name, n_queries):
    data, query = cloud(40, 2), cloud(n_queries, 2, 1)
    distance, index = run(name, query, data, k=3)
    assert distance.shape == index.shape == (n_queries, 3)
    assert_nearest(query, data, distance, index, k=3)


def test_knn_of_one_row(name):
    distance, index = run(name, np.array([[3.0]]), np.array([[1.0]]), k=1)
    assert distance.item() == 4
    assert index.item() == 0


@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e25, 1e-25, 1e18, 1e-20])
def test_knn_of_huge_and_tiny_numbers(name, scale):
    # outside single precision, or where its squares overflow or vanish
    data, query = scale * cloud(400, 3), scale * cloud(11, 3, 1)
    distance, index = run(name, query, data, k=5)
    assert_nearest(query, data, distance, index, k=5)


def test_knn_of_tiny_numbers_is_not_certified_by_underflow(exact_name):
    # every single-precision score is zero, and the nearest row comes last
    data = 1e-23 * np.r_[np.full(3, 0.5), np.zeros(397), 0.9][:, None]
    query = np.array([[1e-23]])
    distance, index = run(exact_name, query, data, k=1)
    assert index.item() == 400
    np.testing.assert_allclose(distance.item(), 1e-48)


def test_knn_of_numbers_whose_square_overflows_is_not_nan(exact_name):
    data, query = 1e200 * cloud(300, 3), 1e200 * cloud(5, 3, 1)
    query[0] = data[7]
    distance, index = run(exact_name, query, data, k=4)
    expected = reference(query, data, k=4)
    np.testing.assert_array_equal(distance, expected[0])
    np.testing.assert_array_equal(index, expected[1])
    assert distance[0, 0] == 0
    assert index[0, 0] == 7


@pytest.mark.parametrize("seed", range(5))
def test_one_far_row_does_not_hide_others(exact_name, seed):
    # the far row's score is not a number, but those of the others are fine
    data, query = 1e18 * cloud(4000, 4, seed), 1e18 * cloud(50, 4, seed + 99)
    data[1234] = 2e21
    data[1235:1264] *= 0.5
    distance, index = run(exact_name, query, data, k=3)
    assert_nearest(query, data, distance, index, k=3)


def test_scores_that_overflow_on_the_way_are_not_trusted(exact_name):
    # |x|^2 - 2 q x is small, but its partial sums exceed single precision
    query = np.array([[1.0, 3.0, 3.0]])
    nearest = np.array([[-1.0, 3.0, 3.0]])
    decoys = query + np.array([[0.0, -2.1, -1.0], [0.0, -1.0, -2.2], [0.0, -2.3, -1]])
    half = np.concatenate([nearest, decoys])
    data = 4.1e18 * np.concatenate([half, -half])  # of mean zero
    _, index = run(exact_name, 4.1e18 * query, data, k=1)
    assert index.item() == 0


@pytest.mark.parametrize("offset", [1e8, -1e8])
def test_knn_far_from_the_origin(name, offset):
    data, query = cloud(500, 5) + offset, cloud(20, 5, 1) + offset
    distance, index = run(name, query, data, k=6)
    assert_nearest(query, data, distance, index, k=6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_that_mislead_do_not_change_the_answer(exact_name, dtype):
    # two clusters: centering does not help, and inside each of them distances are far
    # below the rounding error of a single-precision score
    near = (1e3 + 1e-2 * cloud(300, 4)).astype(dtype)
    data = np.concatenate([near, -near])
    query = (1e3 + 1e-2 * cloud(40, 4, 1)).astype(dtype)
    distance, index = run(exact_name, query, data, k=5)
    assert_nearest(query, data, distance, index, k=5)


def test_nearly_equidistant_rows_are_told_apart(exact_name):
    # rows on a sphere around the query whose radii differ by 1e-10
    rng = np.random.default_rng(0)
    direction = rng.normal(size=(500, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    rank = rng.permutation(500)
    data = 10 + (1 + 1e-10 * rank[:, None]) * direction
    query = np.full((1, 3), 10.0)
    _, index = run(exact_name, query, data, k=8)
    np.testing.assert_array_equal(rank[index[0]], np.arange(8))


def test_more_duplicates_than_spare_rows(exact_name):
    data = np.repeat(cloud(20, 3), 30, axis=0)
    query = data[::30]
    distance, index = run(exact_name, query, data, k=10)
    expected = np.arange(10) + 30 * np.arange(20)[:, None]
    np.testing.assert_array_equal(distance, 0)
    np.testing.assert_array_equal(index, expected)


def test_excluded_duplicate_leaves_its_twin(name):
    data = np.array([[0.0], [0.0], [5.0]])
    distance, index = run(name, data, data, k=1, exclude=np.arange(3))
    np.testing.assert_array_equal(distance[:, 0], [0, 0, 25])
    np.testing.assert_array_equal(index[:2, 0], [1, 0])


def test_all_other_rows_can_be_asked_for(name):
    data = cloud(100, 3)
    own = np.arange(100)
    distance, index = run(name, data, data, k=99, exclude=own)
    assert_nearest(data, data, distance, index, k=99, exclude=own)


def test_excluding_nothing_changes_nothing(name):
    data, query = cloud(200, 3), cloud(10, 3, 1)
    actual = run(name, query, data, k=7, exclude=np.full(10, -1))
    expected = run(name, query, data, k=7)
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_array_equal(actual[1], expected[1])


def test_many_neighbors(name):
    k = 200
    data, query = cloud(1000, 3), cloud(10, 3, 1)
    distance, index = run(name, query, data, k=k)
    assert_nearest(query, data, distance, index, k=k)


@pytest.mark.parametrize("chunk_bytes", [1, 10_000, 300_000])
def test_chunk_size_does_not_change_the_result(name, chunk_bytes):
    data, query = cloud(700, 6), cloud(50, 6, 1)
    if name == "sparse":
        chunk_bytes += 4000  # it splits the data as well, down to single rows
    distance, index = run(name, query, data, k=9, chunk_bytes=chunk_bytes)
    expected = run(name, query, data, k=9)
    np.testing.assert_allclose(distance, expected[0], rtol=1e-14)
    np.testing.assert_array_equal(index, expected[1])


def test_number_of_threads_does_not_change_the_result(monkeypatch):
    pytest.importorskip("numba")
    data, query = cloud(300, 6), cloud(1000, 6, 1)
    results = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("SKICML_NUM_THREADS", threads)
        results.append(run("numba", query, data, k=5))
    for distance, index in results[1:]:
        np.testing.assert_array_equal(distance, results[0][0])
        np.testing.assert_array_equal(index, results[0][1])


def test_order_of_the_data_does_not_matter(name):
    data, query = cloud(500, 4), cloud(20, 4, 1)
    order = np.random.default_rng(0).permutation(500)
    distance, index = run(name, query, data[order], k=5)
    expected = run(name, query, data, k=5)
    np.testing.assert_allclose(distance, expected[0], rtol=1e-14)
    np.testing.assert_array_equal(order[index], expected[1])


@pytest.mark.parametrize("cpu_name", ["numba", "blas"])
def test_torch_tensors_on_the_cpu_share_the_kernels(cpu_name):
    if cpu_name == "numba":
        pytest.importorskip("numba")
    data, query = cloud(300, 4, dtype=np.float32), cloud(9, 4, 1, np.float32)
    own = np.arange(9)
    with use_implementation(cpu_name):
        distance, index = knn(
            torch.from_numpy(query),
            torch.from_numpy(data),
            k=3,
            exclude=torch.from_numpy(own),
        )
    assert distance.dtype == torch.float32
    assert index.dtype == torch.int64
    expected = run(cpu_name, query, data, k=3, exclude=own)
    np.testing.assert_array_equal(distance, expected[0])
    np.testing.assert_array_equal(index, expected[1])


def test_torch_carries_gradients():
    query = torch.from_numpy(cloud(4, 3)).requires_grad_()
    data = torch.from_numpy(cloud(12, 3, 1)).requires_grad_()
    own = torch.tensor([-1, 3, 4, -1])
    assert knn.explain(query, data, k=3)["torch"] == "chosen"
    torch.autograd.gradcheck(lambda q, x: knn(q, x, k=3, exclude=own)[0], (query, data))


def test_forced_kernel_refuses_gradients():
    query = torch.zeros(4, 3, requires_grad=True)
    with (
        use_implementation("blas"),
        pytest.raises(RuntimeError, match="'blas' was requested but gradients"),
    ):
        knn(query, torch.zeros(5, 3), k=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_sparse_rows_in_several_pieces(dtype, make):
    rng = np.random.default_rng(0)
    data = make(scipy.sparse.random(500, 40, 0.05, rng=rng, dtype=dtype))
    own = np.arange(0, 500, 25)
    query = data[own]
    distance, _ = knn(query, data, k=6, exclude=own, chunk_bytes=40_000)
    expected = reference(query.toarray(), data.toarray(), k=6, exclude=own)
    assert distance.dtype == dtype
    np.testing.assert_allclose(distance, expected[0], rtol=1e-6)
    with use_implementation("reference"):
        dense = knn(query, data, k=6, exclude=own)
    np.testing.assert_allclose(distance, dense[0], rtol=1e-5)


def test_sparse_data_smaller_than_k_in_each_piece():
    data, query = cloud(30, 8), cloud(4, 8, 1)
    own = np.array([0, 7, 29, -1])
    # a piece holds two rows
    distance, index = run("sparse", query, data, k=11, exclude=own, chunk_bytes=512)
    assert_nearest(query, data, distance, index, k=11, exclude=own)


def test_impossible_k_is_an_error(name):
    data = cloud(5, 2)
    with pytest.raises(ValueError, match=r"between 1 and the 5 rows .* got 6"):
        run(name, data, data, k=6)
    with pytest.raises(ValueError, match=r"between 1 and the 4 rows .* got 5"):
        run(name, data, data, k=5, exclude=np.arange(5))
    with pytest.raises(ValueError, match="got 0"):
        run(name, data, data, k=0)


@pytest.mark.parametrize("shapes", [((2, 3), (4, 2)), ((3,), (4, 3)), ((2, 0), (4, 0))])
def test_arrays_that_do_not_fit_are_an_error(shapes):
    query, data = map(np.zeros, shapes)
    with pytest.raises(ValueError, match="matrices with equally many columns"):
        knn(query, data, k=1)
