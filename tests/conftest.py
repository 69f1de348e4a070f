"""Set before the first product is computed."""

import os

# Some virtual machines advertise tile instructions (AMX) that the host traps: bfloat16 products then kill the process.
# What the tests compute does not depend on them.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# One thread for every process of the suite, children included: workers must not fight for the cores, and rounding
# depends on the number of threads. Tests about threads set their own number.
os.environ.setdefault("OMP_NUM_THREADS", "1")
