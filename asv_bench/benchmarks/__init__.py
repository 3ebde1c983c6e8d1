"""Benchmarks of skicml beside its peers.

One thread everywhere: ratios compare algorithms, not thread pools. The variables must be
set before the libraries that read them are loaded.
"""

import os

for _variable in (
    "SKICML_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
):
    os.environ[_variable] = "1"
