"""Clean decoding on `mini`: tokens per second at batch 1 and 16, and what the prefix cache saves."""

from __future__ import annotations

import statistics
import time
from itertools import islice

from torch import Tensor

from wmbench.lab.datasets import clean_samples
from wmbench.lab.plugin import DECODING
from wmbench.runtime.backbone import Prefix, Windows
from wmbench.runtime.backbones.mini import MiniBackbone
from wmbench.runtime.engine import Engine
from wmbench.runtime.loop import decode
from wmbench.runtime.settings import Decoding

REPEATS = 3


class Uncached(MiniBackbone):
    """The same model, but every forward starts at the first column."""

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        states, prefixes = super().hidden(windows)
        return states, [None for _ in prefixes]


def tokens_per_second(backbone: MiniBackbone, batch_size: int) -> tuple[float, int]:
    engine = Engine(backbone)
    began = time.perf_counter()
    work = islice(clean_samples("mini"), batch_size)
    done = list(decode(work, engine, Decoding.model_validate(DECODING), batch_size=batch_size))
    return sum(len(g.token_ids) for g in done) / (time.perf_counter() - began), engine.counters.forward_tokens


def main() -> None:
    with_cache, without = MiniBackbone(), Uncached()
    for batch_size in (1, 16):
        # In turns, so that a busy machine slows both alike; the median of three pairs.
        pairs = [[tokens_per_second(model, batch_size) for model in (with_cache, without)] for _ in range(REPEATS)]
        (_, fewer), (_, more) = pairs[0]
        ratio = statistics.median(fast / slow for (fast, _), (slow, _) in pairs)
        fast, slow = (statistics.median(pair[i][0] for pair in pairs) for i in (0, 1))
        print(
            f"batch {batch_size:2}: {fast:7.1f} tokens/s with the prefix cache, {slow:7.1f} without: "
            f"{ratio:.1f} times faster, {more / fewer:.1f} times fewer positions forwarded"
        )


if __name__ == "__main__":
    main()
