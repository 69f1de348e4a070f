"""Clean decoding on `mini`: tokens per second at batch 1 and 16, and what the prefix cache saves.

Against two loops without a cache: one that forwards the whole canvas at every step, as loops for models with full
attention do, and one that knows the model to be block-causal and stops at the end of the block in work.
"""

from __future__ import annotations

import time
from itertools import islice

from torch import Tensor

from wmbench.lab.datasets import clean_samples
from wmbench.lab.plugin import DECODING
from wmbench.runtime.backbone import Prefix, Windows
from wmbench.runtime.backbones.mini import MiniBackbone
from wmbench.runtime.engine import Engine
from wmbench.runtime.loop import decode
from wmbench.runtime.row import Row
from wmbench.runtime.settings import Decoding
from wmbench.types import IntArray


class Uncached(MiniBackbone):
    """The same model, but every forward starts at the first column."""

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        states, prefixes = super().hidden(windows)
        return states, [None for _ in prefixes]


class WholeCanvas(Engine):
    """Every forward reaches to the last column."""

    def span(self, row: Row, columns: IntArray) -> tuple[int, int]:
        return super().span(row, columns)[0], row.length


def tokens_per_second(backbone: MiniBackbone, engine_type: type[Engine], batch_size: int) -> tuple[float, int]:
    engine = engine_type(backbone)
    began = time.perf_counter()
    work = islice(clean_samples("mini"), batch_size)
    done = list(decode(work, engine, Decoding.model_validate(DECODING), batch_size=batch_size))
    return sum(len(g.token_ids) for g in done) / (time.perf_counter() - began), engine.counters.forward_tokens


def main() -> None:
    uncached = Uncached()
    loops = {
        "with the prefix cache": (MiniBackbone(), Engine),
        "without, whole canvas": (uncached, WholeCanvas),
        "without, to the end of the block": (uncached, Engine),
    }
    for batch_size, rounds in ((1, 5), (16, 2)):
        # In turns, so that a busy machine slows all alike; the best round of each counts.
        measured = [[tokens_per_second(*loop, batch_size) for loop in loops.values()] for _ in range(rounds)]
        speeds = [max(speed for speed, _ in rounds_of_one) for rounds_of_one in zip(*measured, strict=True)]
        print(f"batch {batch_size}")
        for name, speed, (_, positions) in zip(loops, speeds, measured[0], strict=True):
            print(f"  {name:33} {speed:7.1f} tokens/s", end="")
            saved, fewer = speeds[0] / speed, positions / measured[0][0][1]
            gain = f"; the cache is {saved:.1f} times faster, with {fewer:.1f} times fewer positions"
            print(gain if fewer > 1 else "")


if __name__ == "__main__":
    main()
