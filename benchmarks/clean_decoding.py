"""Clean decoding: tokens per second at batch 1 and 16, and what the prefix cache saves on a block-causal model."""

from __future__ import annotations

import time

from wmbench.runtime.backbone import Backbone, Prefix, Windows
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.engine import Engine
from wmbench.runtime.loop import decode
from wmbench.runtime.settings import Decoding
from wmbench.types import Sample

DECODING = Decoding(max_new_tokens=300, block_length=25)


class Uncached(TinyBackbone):
    """The same model, but every forward starts at the first column."""

    def hidden(self, windows: Windows) -> tuple[object, list[Prefix | None]]:  # type: ignore[override]
        states, prefixes = super().hidden(windows)
        return states, [None for _ in prefixes]


def tokens_per_second(backbone: Backbone, batch_size: int, samples: int) -> tuple[float, int]:
    engine = Engine(backbone)
    began = time.perf_counter()
    work = [Sample(f"s{i}", "w5 w6 w7 w8") for i in range(samples)]
    done = list(decode(work, engine, DECODING, batch_size=batch_size))
    return sum(len(g.token_ids) for g in done) / (time.perf_counter() - began), engine.counters.forward_tokens


def main() -> None:
    config = TinyConfig(attention="block", attention_block=25, width=256, layers=4, heads=4, vocab_size=4096)
    for batch_size in (1, 16):
        cached, fewer = tokens_per_second(TinyBackbone(config), batch_size, batch_size)
        uncached, more = tokens_per_second(Uncached(config), batch_size, batch_size)
        print(
            f"batch {batch_size:2}: {cached:7.1f} tokens/s with the prefix cache, {uncached:7.1f} without: "
            f"{cached / uncached:.1f} times faster, {more / fewer:.1f} times fewer positions forwarded"
        )


if __name__ == "__main__":
    main()
