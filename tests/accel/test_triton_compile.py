"""Triton kernels compile for the GPUs that they are written for."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import skicml_accel

pytestmark = [pytest.mark.triton, pytest.mark.slow]
pytest.importorskip("triton")

SCRIPT = pathlib.Path(__file__).with_name("compile_triton.py")


def test_kernels_compile_without_spilling():
    root = pathlib.Path(skicml_accel.__file__).parents[1]
    # the interpreter, if this run uses it, replaces the compiler
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, SCRIPT],
        env={**environment, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert {result["architecture"] for result in results} == {80, 90}
    for result in results:
        assert result["entry"], result
        # two programs fit on a processor, and three in its shared memory
        assert result["reg"] <= 256, result
        assert result["shared"] <= 48 * 1024, result
        assert result["stack"] == result["local"] == 0, result
