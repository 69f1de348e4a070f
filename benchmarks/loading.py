"""Memory while a sharded checkpoint of 1 GB is loaded: peak of a fresh process above its size after the imports."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from wmbench.testing.checkpoints import make_checkpoint

SHAPE = {"d_model": 1024, "n_heads": 16, "n_kv_heads": 16, "mlp_hidden_size": 4096, "n_layers": 15}
SHARDS = 5

LOAD = """
import resource, sys
import torch, transformers
from transformers import LlamaForCausalLM
from wmbench.runtime.backbones.hf.backbone import load_backbone
from wmbench.runtime.backbones.hf.settings import Llada8bSettings

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
load_backbone(Llada8bSettings(path=sys.argv[1], device="cpu"))
print(peak() - before)
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
