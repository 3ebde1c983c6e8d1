"""Settings of the whole suite: hypothesis, devices that are missing, plots."""

import functools
import os

import pytest
from hypothesis import settings

# before anything imports pyplot: no window shall open
os.environ["MPLBACKEND"] = "agg"

settings.register_profile("dev", max_examples=20, deadline=None)
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("deep", max_examples=1000, deadline=None)
settings.load_profile(
    os.environ.get("SKICML_HYPOTHESIS", "ci" if os.environ.get("CI") else "dev")
)


@functools.cache
def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


@functools.cache
def _has_cupy() -> bool:
    try:
        import cupy
    except ImportError:
        return False
    return cupy.cuda.is_available()


def pytest_collection_modifyitems(items):
    """Skip what needs a GPU where there is none.

    scikit-learn's array API checks name library and device in their parameters only.
    Those for CuPy would fail, not skip, where CuPy is installed without a GPU.
    """
    for item in items:
        case = item.callspec.id if hasattr(item, "callspec") else ""
        if item.get_closest_marker("gpu") and not _has_cuda():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        elif "cupy" in case and not _has_cupy():
            item.add_marker(pytest.mark.skip(reason="needs CuPy and a CUDA device"))
        elif "cuda" in case and not _has_cuda():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
