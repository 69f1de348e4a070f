"""Set before the first product is computed."""

import os

# Some virtual machines advertise tile instructions (AMX) that the host traps: bfloat16 products then kill the process.
# What the tests compute does not depend on them.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
