"""The promised peak of memory against what NumPy allocates.

``tracemalloc`` sees the arrays that NumPy makes, which are all that grow with the
input; it does not see the block of data that each thread holds in compiled code.
"""

import tracemalloc

import numpy as np
import pytest

from skicml_accel import use_implementation
from skicml_accel.neighbors import knn, knn_estimate_bytes

pytest.importorskip("numba")


def peak_bytes(query, data, k):
    tracemalloc.start()
    try:
        knn(query, data, k=k)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True)
def compiled():
    """Compile before anything is measured."""
    with use_implementation("numba"):
        knn(np.zeros((2, 2)), np.ones((40, 2)), k=1)
        yield


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize(("m", "d", "k"), [(60_000, 4, 10), (6000, 300, 3)])
def test_compiled_search_stays_within_its_estimate(m, d, k, duplicates):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(300, d))
    query = rng.normal(size=(m, d))
    if duplicates:
        # more of them than spare rows, so that every query is searched twice
        data = np.repeat(data[:10], 30, axis=0)
        query = np.tile(data[:100], (m // 100, 1))
    peak = peak_bytes(query, data, k)
    estimate = knn_estimate_bytes(m, 300, d, k)
    assert peak <= 1.25 * estimate
    if duplicates:
        # an estimate far above the truth would promise nothing
        assert estimate <= 2 * peak


def test_estimate_does_not_grow_with_the_data():
    assert knn_estimate_bytes(100, 10**3, 5, 3) == knn_estimate_bytes(100, 10**9, 5, 3)
