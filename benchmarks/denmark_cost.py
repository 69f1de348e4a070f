"""What does DenMark cost? `python -m benchmarks.denmark_cost`: rows forwarded per output token against a plain loop and
the authors' organisation, and time against clean decoding in the same run, with what counted operations predict.

Without the weights of `mini` a random model of the same shape is timed; its candidates differ more often, so it pays
for more rows. `--profile` shows where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from dataclasses import dataclass
from typing import Any

import torch
from wmbench_denmark.candidates import active_units, draw_candidates
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.rollouts import deduplicate, rollout_count
from wmbench_denmark.scheme import DenMark

from wmbench.bench.build import Builder
from wmbench.errors import ConfigError
from wmbench.host import Host
from wmbench.lab.codec import END, MASK, lab_codec
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.mini import NEIGHBOURS, MiniBackbone, MiniConfig
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.backbones.transformer import MaskedDiffusionTransformer, TransformerShape
from wmbench.runtime.engine import Counters
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Decide, Step
from wmbench.testing import toy_key
from wmbench.types import Commit, Sample, SchemeContext

GOALS = {("paper", 1): 4.0, ("paper", 16): 11.0, ("fast", 1): 2.0, ("fast", 16): 4.0}
"""Time against clean decoding, by preset and batch size."""
PROMPT = "How can I save enough money for a first house while prices are rising?"


class RandomMini(TinyBackbone):
    """`mini` without its weights: the same shape and tokenizer."""

    def __init__(self, attention: str) -> None:
        codec = lab_codec()
        config = {"attention": attention, "attention_block": 25, "scale": 3.0}
        super().__init__(TinyConfig(**config, vocab_size=codec.size, tokenizer_size=codec.size))
        torch.manual_seed(0)
        model = MaskedDiffusionTransformer(TransformerShape(codec.size, neighbours=NEIGHBOURS, normed_heads=True))
        torch.nn.init.normal_(model.embedding.weight, std=model.shape.width**-0.5)
        self.model = model.eval().requires_grad_(False)
        self.codec = codec
        self.mask_id, self.eos_ids = codec.id_of(MASK), frozenset({codec.id_of(END)})
        self.banned_ids = sorted(codec.special_ids - self.eos_ids)


def load(name: str) -> Any:
    attention = "block" if name == "mini" else "full"
    try:
        return MiniBackbone(MiniConfig(attention=attention))  # type: ignore[arg-type]
    except ConfigError as error:
        print(f"{name}: {error.message}; a random model of its shape is timed")
        return RandomMini(attention)


@dataclass
class Measured:
    seconds: float
    tokens: int
    counters: Counters

    @property
    def per_token(self) -> float:
        return self.seconds / self.tokens


def run(backbone: Backbone, decoding: Decoding, samples: int, batch: int, decide: Decide | None = None) -> Measured:
    """Processor time: on a busy machine wall time measures the neighbours."""
    engine = make_engine(backbone, decoding)
    work = [Sample(f"s{i}", PROMPT) for i in range(samples)]
    began = time.process_time()
    done = list(decode(work, engine, decoding, decide or Step.commit, batch_size=batch))
    return Measured(time.process_time() - began, sum(len(g.token_ids) for g in done), engine.counters)


def operations(shape: TransformerShape, counters: Counters, keys: float) -> float:
    """Floating-point operations of trunk and head; `keys` is the mean number of keys that a position looks at."""
    width, mlp = shape.width, shape.mlp_width
    per_position = shape.layers * 2 * (4 * width * width + 3 * width * mlp + 2 * width * keys)
    return counters.forward_tokens * per_position + counters.head_rows * 2 * width * shape.vocab_size


class AuthorsOrganisation:
    """Counts what the authors' code would forward for the same choices: every step its base and a row for every
    rollout of every distinct candidate, and once more per unit to find it finished."""

    def __init__(self, scheme: DenMark, config: DenMarkConfig) -> None:
        self.scheme, self.config = scheme, config
        self.rows = 0

    def decide(self, step: Step) -> Commit:
        for c in draw_candidates(step, active_units(step, self.config), self.config):
            unit, config = c.unit, self.config
            distinct, _ = deduplicate(c.filled(step.rows[unit.row].canvas))
            is_last = len(unit.masked) == unit.count
            rollouts = rollout_count(len(unit.masked), unit.length, config.rollouts, config.rollout_schedule)
            self.rows += 1 + len(distinct) * (1 if is_last else rollouts) + is_last
        return self.scheme.decode_step(step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbones", nargs="+", default=["mini", "mini-full"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--tokens", type=int, default=100, help="tokens per answer (the paper: 300)")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    builder = Builder(Host.discover())
    builder.encoder("mini")
    decoding = Decoding(max_new_tokens=arguments.tokens, block_length=25)
    for name in arguments.backbones:
        backbone = load(name)
        shape: TransformerShape = backbone.model.shape
        prompt = len(backbone.codec.encode_prompt(PROMPT))
        whole = prompt + arguments.tokens
        keys = float(whole) if name == "mini-full" else prompt + arguments.tokens / 2 + 25  # mean over the blocks
        for preset in ("paper", "fast"):
            config = DenMarkConfig(preset=preset)
            scheme = DenMark(config, SchemeContext(backbone.codec, toy_key("benchmark"), builder.encoder))
            count = AuthorsOrganisation(scheme, config)
            counted = run(backbone, decoding, 2, 2, count.decide)
            rows, authors = counted.counters.forward_rows / counted.tokens, count.rows / counted.tokens
            steps = -(-config.unit_size // config.positions_per_candidate) / config.unit_size
            naive = (config.candidates + 1) * steps  # the base and every candidate, at every step
            print(
                f"{name}, {preset}: {rows:.2f} rows forwarded per token; a plain loop {naive:.2f}, "
                f"the authors' organisation {authors:.1f}"
            )
            for batch in arguments.batches:
                best: dict[str, Measured] = {}
                for _ in range(arguments.repeats):
                    for what, decide in (("clean", None), ("marked", scheme.decode_step)):
                        found = run(backbone, decoding, batch, batch, decide)
                        if what not in best or found.seconds < best[what].seconds:
                            best[what] = found
                clean, marked = best["clean"], best["marked"]
                ratio = marked.per_token / clean.per_token
                predicted = operations(shape, marked.counters, keys) / operations(shape, clean.counters, keys)
                print(
                    f"  batch {batch:2}: {1000 * clean.per_token:.1f} ms per clean token, "
                    f"{1000 * marked.per_token:.1f} ms marked: {ratio:.2f} times (goal {GOALS.get((preset, batch))}); "
                    f"counted operations {predicted:.2f} times, so {ratio / predicted:.2f} of the prediction (goal 1.3)"
                )
                if arguments.profile:
                    profile = cProfile.Profile(time.process_time)
                    profile.runcall(run, backbone, decoding, batch, batch, scheme.decode_step)
                    pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    print(
        f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {torch.get_num_threads()} thread(s); "
        "times are processor time"
    )


if __name__ == "__main__":
    main()
