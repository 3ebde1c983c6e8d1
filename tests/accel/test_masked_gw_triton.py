"""Masks on CUDA, in Triton's interpreter where there is no GPU.

Without a GPU, run it with ``SKICML_TEST_TRITON=interpret``.
"""

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.triton
pytest.importorskip("triton")

from skicml_accel import use_implementation
from skicml_accel.transport import _masked_gw_triton, mask_update
from skicml_accel.transport._masked_gw import PENALTIES

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
runs = pytest.mark.skipif(
    DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1",
    reason="no GPU; SKICML_TEST_TRITON=interpret runs it on the CPU",
)


@runs
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("penalty", PENALTIES)
@settings(max_examples=6)
@given(
    seed=st.integers(0, 10_000),
    n=st.sampled_from([0, 1, 3, 32, 45]),
    lam=st.sampled_from([1e-3, 0.7, 50.0]),
)
def test_masks_match_the_reference(penalty, dtype, seed, n, lam):
    generator = torch.Generator().manual_seed(seed)
    R = 2 * lam * torch.rand((n, n), generator=generator, dtype=dtype)
    C = torch.randn((n, n), generator=generator, dtype=dtype)
    found = _masked_gw_triton.mask_update(
        # any strides
        R.T.to(DEVICE),
        C.to(DEVICE),
        lam=lam,
        penalty=penalty,
    )
    with use_implementation("reference"):
        expected = mask_update(R.T, C, lam=lam, penalty=penalty)
    torch.testing.assert_close(found.cpu(), expected)
