"""Compile every Triton kernel for a GPU that need not be there.

A process of its own, without Triton's interpreter. Prints a JSON list: for each
kernel, architecture and set of constants the shared memory, registers and stack.
"""

import itertools
import json
import re
import subprocess
import sys
import tempfile

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from skicml_accel.neighbors import _knn_triton
from skicml_accel.transport import _masked_gw_triton, _sinkhorn_triton

TYPES = {
    "query": "*fp32",
    "data": "*fp32",
    "norm": "*fp32",
    "hidden": "*i32",
    "out": "*i64",
    "n_padded": "i32",
    "d_padded": "i32",
    "tiles_per_split": "i32",
}
# addresses and padded sizes, as the launcher finds them
DIVISIBLE = range(7)


def compile_select(architecture, held, hides):
    launch = _knn_triton.Launch()
    constants = {
        "HIDES": hides,
        "HELD": held,
        "BLOCK_M": launch.block_m,
        "BLOCK_N": launch.block_n,
        "BLOCK_D": launch.block_d,
    }
    source = ASTSource(
        _knn_triton._select_kernel,
        {**TYPES, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={(place,): [["tt.divisibility", 16]] for place in DIVISIBLE},
    )
    target = GPUTarget("cuda", architecture, 32)
    kernel = triton.compile(
        source, target=target, options={"num_warps": launch.num_warps}
    )
    return {
        "kernel": "_select_kernel",
        "architecture": architecture,
        "held": held,
        "hides": hides,
        "shared": kernel.metadata.shared,
        "entry": ".entry _select_kernel" in kernel.asm["ptx"],
        **resources(kernel.asm["cubin"]),
    }


STREAM_TYPES = {
    **dict.fromkeys(("left", "right", "bias", "values", "out"), "*fp32"),
    "n": "i32",
    "m": "i32",
}


def compile_stream(architecture, depth, width, averages):
    constants = {
        "DEPTH": depth,
        "WIDTH": width,
        "AVERAGES": averages,
        "BLOCK_M": _sinkhorn_triton.tile(depth, averages),
        "BLOCK_N": _sinkhorn_triton.tile(depth, averages),
    }
    source = ASTSource(
        _sinkhorn_triton._stream_kernel,
        {**STREAM_TYPES, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={(place,): [["tt.divisibility", 16]] for place in range(5)},
    )
    target = GPUTarget("cuda", architecture, 32)
    kernel = triton.compile(
        source, target=target, options={"num_warps": _sinkhorn_triton.NUM_WARPS}
    )
    return {
        "kernel": "_stream_kernel",
        "architecture": architecture,
        "depth": depth,
        "width": width,
        "averages": averages,
        "shared": kernel.metadata.shared,
        "entry": ".entry _stream_kernel" in kernel.asm["ptx"],
        **resources(kernel.asm["cubin"]),
    }


def compile_mask(architecture, rule, dtype):
    arrays = ("residual", "cost", "price", "mask", "first", "second")
    constants = {"RULE": rule, "BLOCK": _masked_gw_triton.BLOCK}
    source = ASTSource(
        _masked_gw_triton._mask_kernel,
        {
            **dict.fromkeys(arrays, f"*{dtype}"),
            "size": "i64",
            **dict.fromkeys(constants, "constexpr"),
        },
        constexprs=constants,
        attrs={(place,): [["tt.divisibility", 16]] for place in range(6)},
    )
    kernel = triton.compile(source, target=GPUTarget("cuda", architecture, 32))
    return {
        "kernel": "_mask_kernel",
        "architecture": architecture,
        "rule": rule,
        "dtype": dtype,
        "shared": kernel.metadata.shared,
        "entry": ".entry _mask_kernel" in kernel.asm["ptx"],
        **resources(kernel.asm["cubin"]),
    }


def resources(cubin):
    """Read registers and stack bytes a thread with the tool that Triton brings."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    usage = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", text))
    return {name.lower(): int(value) for name, value in usage.items()}


def main():
    results = [
        compile_select(*case)
        for case in itertools.chain(
            itertools.product((80, 90), (4, 16, 64), (True,)), [(90, 16, False)]
        )
    ]
    results += [
        compile_stream(*case)
        for case in itertools.product((80, 90), (32, 64), (32, 64), (False, True))
    ]
    results += [
        compile_mask(*case)
        for case in itertools.product((80, 90), range(3), ("fp32", "fp64"))
    ]
    sys.stdout.write(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
