"""Memory while a checkpoint of 1 GB in shards is loaded: growth of a fresh process from its imports to its peak."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from wmbench.testing.checkpoints import make_checkpoint

SHAPE = {"d_model": 1024, "n_heads": 16, "n_kv_heads": 16, "mlp_hidden_size": 4096, "n_layers": 15}
SHARDS = 5

LOAD = """
import re, sys
from pathlib import Path
import torch, transformers
from transformers import LlamaForCausalLM
from wmbench.runtime.backbones.hf.backbone import load_backbone
from wmbench.runtime.backbones.hf.settings import Llada8bSettings

def memory(field):  # of this process alone; getrusage would include what its parent held when it was forked
    return 1024 * int(re.search(field + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

before = memory("VmRSS")
backbone = load_backbone(Llada8bSettings(path=sys.argv[1], device="cpu"))
print(memory("VmHWM") - before)
"""


def peak_ratio(folder: Path) -> tuple[int, float]:
    """Bytes of the checkpoint, and the growth of a fresh process that loads it, in those bytes."""
    directory = make_checkpoint("llada", folder / "large", shards=SHARDS, overrides=SHAPE)
    size = sum(path.stat().st_size for path in directory.glob("*.safetensors"))
    done = subprocess.run([sys.executable, "-c", LOAD, str(directory)], capture_output=True, text=True, check=True)
    return size, int(done.stdout) / size


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        size, ratio = peak_ratio(Path(folder))
        print(f"{size / 1e9:.2f} GB in {SHARDS} shards: peak memory {ratio:.2f} times the size")


if __name__ == "__main__":
    main()
