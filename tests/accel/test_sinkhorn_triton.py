"""The streamed passes for CUDA, in Triton's interpreter where there is no GPU.

Without a GPU, run it with ``SKICML_TEST_TRITON=interpret``.
"""

import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

pytestmark = pytest.mark.triton
pytest.importorskip("triton")

from skicml_accel.transport import _sinkhorn_triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
runs = pytest.mark.skipif(
    DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1",
    reason="no GPU; SKICML_TEST_TRITON=interpret runs it on the CPU",
)


def problem(seed, n, m, d, size, zeros):
    rng = np.random.default_rng(seed)
    left, right = size * rng.normal(size=(n, d)), size * rng.normal(size=(m, d))
    p, q = rng.normal(size=n), rng.normal(size=m)
    a, b = rng.random(n) + 0.01, rng.random(m) + 0.01
    if zeros:
        # more than a tile of columns without weight, at the beginning
        a[: n // 2] = 0
        b[: max(0, m - 3)] = 0
    arrays = left, right, p, q, a / a.sum(), b / b.sum()
    return [torch.from_numpy(x.astype(np.float32)).to(DEVICE) for x in arrays]


@runs
@pytest.mark.parametrize("jacobi", [False, True])
@settings(max_examples=8)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 150),
    m=st.integers(1, 150),
    d=st.sampled_from([1, 5, 21]),
    size=st.sampled_from([0.3, 6.0, 40.0]),
    zeros=st.booleans(),
)
def test_pass_matches_the_whole_matrix(jacobi, seed, n, m, d, size, zeros):
    arrays = problem(seed, n, m, d, size, zeros)
    rows, log_c = _sinkhorn_triton.sinkhorn_pass(*arrays, jacobi=jacobi)
    left, right, p, q, a, b = (x.cpu().numpy().astype(np.float64) for x in arrays)
    z = left @ right.T + q
    expected = -logsumexp(z, b=b[None], axis=1)
    known = p if jacobi else expected
    columns = logsumexp(z + known[:, None], b=a[:, None], axis=0)
    tolerance = 30 * (d + 4) * np.finfo(np.float32).eps * max(1, np.abs(z).max())
    np.testing.assert_allclose(rows.cpu(), expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(log_c.cpu(), columns, rtol=0, atol=2 * tolerance)


@runs
@settings(max_examples=8)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(0, 90),
    m=st.integers(1, 150),
    k=st.sampled_from([1, 7, 40]),
    size=st.sampled_from([0.3, 30.0]),
    zeros=st.booleans(),
)
def test_contract_matches_the_whole_matrix(seed, n, m, k, size, zeros):
    left, right, _, q, _, b = problem(seed, max(n, 1), m, 3, size, zeros)
    left, bias = left[:n], q + torch.log(b)
    values = np.random.default_rng(seed).normal(size=(m, k)).astype(np.float32)
    found = _sinkhorn_triton.plan_contract(
        left, right, bias, torch.from_numpy(values).to(DEVICE)
    )
    z = (left.double() @ right.double().T + bias).cpu().numpy()
    weight = np.exp(z - logsumexp(z, axis=1, keepdims=True))
    largest = float((left @ right.T).abs().max()) if n else 0.0
    tolerance = 400 * np.finfo(np.float32).eps * max(1, largest)
    assert found.shape == (n, k)
    np.testing.assert_allclose(found.cpu(), weight @ values, rtol=0, atol=tolerance)


@runs
def test_any_strides():
    arrays = problem(1, 40, 50, 4, 1.0, False)
    strided = [
        arrays[0].T.contiguous().T,
        arrays[1].flip(0).contiguous().flip(0),
        *(x.repeat_interleave(2)[::2] for x in arrays[2:]),
    ]
    for x, y in zip(
        _sinkhorn_triton.sinkhorn_pass(*arrays),
        _sinkhorn_triton.sinkhorn_pass(*strided),
        strict=True,
    ):
        torch.testing.assert_close(x, y)
