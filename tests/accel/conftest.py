"""Settings of the kernel tests that must precede the first import of a kernel.

With ``SKICML_TEST_TRITON=interpret`` and no GPU, Triton kernels run in Triton's
interpreter on the CPU.
"""

import os

# the default changes between versions of Triton; the tests shall not
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

if os.environ.get("SKICML_TEST_TRITON") == "interpret":
    import torch

    if not torch.cuda.is_available():
        # read when a kernel is decorated, hence before any of them is imported
        os.environ["TRITON_INTERPRET"] = "1"
