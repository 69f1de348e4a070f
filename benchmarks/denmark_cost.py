"""What does DenMark cost at the paper's settings (K = 16, m = 25, R = 3)? `python -m benchmarks.denmark_cost`

- rows forwarded per output token, against a plain loop and the authors' organisation, and that the tokens are those of
  a decoder that forwards every rollout by itself;
- time against clean decoding in the same run, at batch 1 and 16, with what counted operations predict;
- detection of 1,000 texts, and what a second key costs once texts are embedded.

About ten minutes on two idle cores. `--profile` shows where the time goes. A quick look at one case:
`python -m benchmarks.denmark_cost --backbones mini --presets paper --batches 1 --tokens 25 --repeats 1 --texts 50`.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from dataclasses import dataclass

import torch
from wmbench_denmark.candidates import active_units, draw_candidates
from wmbench_denmark.config import PRESETS, DenMarkConfig
from wmbench_denmark.rollouts import deduplicate, rollout_count
from wmbench_denmark.scheme import DenMark

from tests.denmark.reference import PlainRow, Settings
from wmbench.detection import Calibration
from wmbench.lab.codec import lab_codec
from wmbench.lab.datasets import null_text
from wmbench.runtime.backbones.mini import MiniBackbone
from wmbench.runtime.backbones.mini_settings import FullMiniConfig, MiniConfig
from wmbench.runtime.engine import Counters
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Decide, Step
from wmbench.semantics.plugin import lab_encoder
from wmbench.testing import toy_key
from wmbench.types import Commit, Sample, SchemeContext, TextContext

BACKBONES = {"mini": MiniConfig(), "mini-full": FullMiniConfig()}
GOALS = {("paper", 1): 4.0, ("paper", 16): 11.0, ("fast", 1): 2.0, ("fast", 16): 4.0}
"""Time against clean decoding, by preset and batch size."""
OF_PREDICTION, OF_FIRST_KEY = 1.3, 0.02
"""Goals: time against what counted operations predict; the second key's time against the first one's."""
PROMPT = "How can I save enough money for a first house while prices are rising?"
KEY = toy_key("benchmark")
ENCODER = lab_encoder()


# --- decoding ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    seconds: float
    processor_seconds: float
    """On a busy machine seconds measure the neighbours, too."""
    tokens: int
    counters: Counters


def run(backbone: MiniBackbone, decoding: Decoding, samples: int, batch: int, decide: Decide) -> Measured:
    engine = make_engine(backbone, decoding)
    work = [Sample(f"s{i}", PROMPT) for i in range(samples)]
    began, busy = time.perf_counter(), time.process_time()
    tokens = sum(len(done.token_ids) for done in decode(work, engine, decoding, decide, batch_size=batch))
    return Measured(time.perf_counter() - began, time.process_time() - busy, tokens, engine.counters)


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


def count_rows(backbone: MiniBackbone, decoding: Decoding, scheme: DenMark, config: DenMarkConfig) -> None:
    authors = AuthorsOrganisation(scheme, config)
    counted = run(backbone, decoding, 2, 2, authors.decide)
    steps = -(-config.unit_size // config.positions_per_candidate) / config.unit_size
    print(
        f"  rows forwarded per token {counted.counters.forward_rows / counted.tokens:.2f}; "
        f"a plain loop {(config.candidates + 1) * steps:.2f}, the authors' organisation "
        f"{authors.rows / counted.tokens:.1f}"
    )


def compare_tokens(backbone: MiniBackbone, scheme: DenMark, config: DenMarkConfig) -> None:
    """One unit, decoded by the plain decoder of the tests, too."""
    decoding = Decoding(max_new_tokens=config.unit_size, block_length=config.unit_size)
    sample = Sample("s0", PROMPT)
    done = next(iter(decode([sample], make_engine(backbone, decoding), decoding, scheme.decode_step)))
    settings = Settings(
        config.unit_size, config.candidates, config.channels, config.positions_per_candidate, config.rollouts
    )
    ids = backbone.codec.encode_prompt(PROMPT)
    plain = PlainRow(backbone, ids, sample.id, KEY, settings, config.unit_size, encoder=ENCODER)
    plain.decode_unit_by_unit()
    same = list(done.token_ids) == plain.canvas[plain.start :].tolist()
    print(
        f"  one unit: {'the same tokens as' if same else 'TOKENS DIFFER FROM'} a decoder that forwards every rollout "
        f"({done.cost.forward_rows} rows here, {plain.forwards} there)"
    )


def operations(backbone: MiniBackbone, counters: Counters, tokens: int) -> float:
    """Floating-point operations of trunk and head."""
    shape, prompt = backbone.model.shape, len(backbone.codec.encode_prompt(PROMPT))
    block = backbone.attention.block_length
    # Keys that a position looks at: all, or on average those up to the end of its block.
    keys = prompt + (tokens if block is None else (tokens + block) / 2)
    per_position = 2 * shape.layers * (4 * shape.width**2 + 3 * shape.width * shape.mlp_width + 2 * shape.width * keys)
    return counters.forward_tokens * per_position + counters.head_rows * 2 * shape.width * shape.vocab_size


def time_against_clean(
    backbone: MiniBackbone, decoding: Decoding, scheme: DenMark, preset: str, batch: int, repeats: int
) -> None:
    samples = max(2, batch)
    rounds = [
        [run(backbone, decoding, samples, batch, decide) for decide in (Step.commit, scheme.decode_step)]
        for _ in range(repeats)
    ]
    clean, marked = (min((pair[i] for pair in rounds), key=lambda found: found.seconds) for i in (0, 1))
    ratio, busy = marked.seconds / clean.seconds, marked.processor_seconds / clean.processor_seconds
    counted = [operations(backbone, found.counters, decoding.max_new_tokens) for found in (marked, clean)]
    predicted = counted[0] / counted[1]
    print(
        f"  batch {batch:2}: {1000 * clean.seconds / clean.tokens:.1f} ms per clean token, "
        f"{1000 * marked.seconds / marked.tokens:.1f} ms marked: {ratio:.2f} times clean "
        f"(goal {GOALS.get((preset, batch), 'none')}; processor time {busy:.2f} times); counted operations "
        f"{predicted:.2f} times, so {ratio / predicted:.2f} of the prediction (goal {OF_PREDICTION})",
        flush=True,
    )


# --- detection ---------------------------------------------------------------------------------------------------


def time_detection(count: int, length: int = 300) -> None:
    """Texts -> embeddings of all units of 26 sizes -> scores -> calibration; then another key, from the embeddings."""
    codec = lab_codec()
    long = (" ".join(null_text(2 * i + j).text for j in range(2)) for i in range(count))
    texts = [codec.decode(codec.encode(text)[:length]) for text in long]
    scheme = DenMark(DenMarkConfig(), SchemeContext(codec, load_encoder=lambda name: ENCODER))
    began = time.perf_counter()
    features = scheme.features(texts)
    embedded = time.perf_counter() - began

    def calibrated(name: str) -> float:
        began = time.perf_counter()
        views = scheme.score(features, toy_key(name), TextContext())
        Calibration(views.scores, views.names).scan(views.scores)
        return time.perf_counter() - began

    first = embedded + calibrated("first")
    second = min(calibrated(f"other {i}") for i in range(3))
    print(
        f"detection: {count:,} texts of {length} tokens, {len(DenMarkConfig().sizes)} sizes, {len(features.values):,} "
        f"units: {first:.2f} s; a second key {second:.3f} s, {second / first:.1%} of the first "
        f"(goal {OF_FIRST_KEY:.0%})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbones", nargs="+", choices=BACKBONES, default=list(BACKBONES))
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=list(PRESETS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--tokens", type=int, default=75, help="tokens per answer (the paper: 300)")
    parser.add_argument("--repeats", type=int, default=2, help="the best counts")
    parser.add_argument("--texts", type=int, default=1000, help="texts of the detection")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    time_detection(arguments.texts)
    decoding = Decoding(max_new_tokens=arguments.tokens, block_length=25)
    for name in arguments.backbones:
        backbone = MiniBackbone(BACKBONES[name])
        for preset in arguments.presets:
            print(f"{name}, {preset}:", flush=True)
            config = DenMarkConfig(preset=preset)
            scheme = DenMark(config, SchemeContext(backbone.codec, KEY, lambda name: ENCODER))
            count_rows(backbone, decoding, scheme, config)
            compare_tokens(backbone, scheme, config)
            for batch in arguments.batches:
                time_against_clean(backbone, decoding, scheme, preset, batch, arguments.repeats)
                if arguments.profile:
                    profile = cProfile.Profile()
                    profile.runcall(run, backbone, decoding, max(2, batch), batch, scheme.decode_step)
                    pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {torch.get_num_threads()} thread(s)")


if __name__ == "__main__":
    main()
