"""Re-masking happens, terminates, adds few steps, and repairs misses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wmbench_umr.bitmap import KeyedBitmap
from wmbench_umr.config import UmrConfig
from wmbench_umr.decode import Umr
from wmbench_umr.detect import recovered_bits
from wmbench_umr.regret import Candidate, Regret, judge

from wmbench.detection import Calibration
from wmbench.errors import CalibrationError, ConfigError
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.tiny import ToyCodec
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.row import Row
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Step
from wmbench.testing import toy_key, toy_samples, toy_texts
from wmbench.testing.harness import hooks_of
from wmbench.types import Commit, Generation, SchemeContext, TextContext

KEY = toy_key("umr")
WEAK = 0.5
"""A strength at which many tokens miss: at the default of 10 the toy model finds a hit almost everywhere."""
ONE_BY_ONE = Decoding(max_new_tokens=48, block_length=16, positions="low_confidence", temperature=1.0)
DECODINGS = {
    "one by one": ONE_BY_ONE,
    "random positions": ONE_BY_ONE.model_copy(update={"positions": "random"}),
    "two per step": ONE_BY_ONE.model_copy(update={"steps": 24}),
    "Bernoulli time": ONE_BY_ONE.model_copy(update={"schedule": "origin", "steps": 24, "block_length": None}),
    "quota": ONE_BY_ONE.model_copy(update={"schedule": "quota", "steps": 24, "block_length": None}),
    "threshold": ONE_BY_ONE.model_copy(update={"schedule": "threshold", "threshold": 0.2}),
    "no second visit": ONE_BY_ONE.model_copy(update={"max_visits": 1}),
}


class Trace:
    """Runs the scheme and keeps what it decided."""

    def __init__(self, backbone: Backbone, decoding: Decoding, samples: int = 3, **settings: Any) -> None:
        self.scheme = Umr(UmrConfig(**settings), SchemeContext(backbone.codec, KEY))
        self.rows: dict[str, Row] = {}
        self.commits: list[Commit] = []

        def decide(step: Step) -> Commit:
            self.rows |= {row.sample.id: row for row in step.rows}
            self.commits.append(self.scheme.decode_step(step))
            return self.commits[-1]

        engine = make_engine(backbone, decoding)
        self.generations: list[Generation] = list(
            decode(toy_samples(samples), engine, decoding, decide, self.scheme.begin)
        )

    @property
    def remasked(self) -> int:
        return sum(len(commit.remask_columns) for commit in self.commits)


@pytest.mark.parametrize("name", DECODINGS)
def test_terminates_with_bounded_visits(tiny_block_backbone: Backbone, name: str) -> None:
    trace = Trace(tiny_block_backbone, DECODINGS[name], delta=WEAK)
    assert len(trace.generations) == 3
    for row in trace.rows.values():
        assert len(row.masked) == 0
        assert row.visits[row.start :].max() <= min(2, DECODINGS[name].max_visits)
        assert set(np.flatnonzero(row.visits == 2)) == set(row.state.cw_history)
        assert row.state.roll_back_times == len(row.state.cw_history)
    assert (trace.remasked > 0) == (name != "no second visit")


def test_at_most_one_extra_step_per_block(tiny_full_backbone: Backbone) -> None:
    """The slot of a re-masked token is made up for in its own step; only a full block goes into an extra iteration."""
    trace = Trace(tiny_full_backbone, ONE_BY_ONE, samples=6, delta=WEAK)
    blocks = 3
    steps = [generation.cost.steps for generation in trace.generations]
    assert min(steps) >= 48
    assert max(steps) <= 48 + blocks
    assert trace.remasked > 6


def test_second_chances_are_taken(tiny_full_backbone: Backbone) -> None:
    trace = Trace(tiny_full_backbone, ONE_BY_ONE, samples=6, delta=WEAK)
    tries = sum(row.state.roll_back_times for row in trace.rows.values())
    greened = sum(row.state.re_green_count for row in trace.rows.values())
    assert tries == trace.remasked
    assert greened > 0.25 * tries  # chance, with two pairs to hit; a token that missed hits neither or one


def test_regret_raises_the_score(tiny_full_backbone: Backbone) -> None:
    def mean_z(**settings: Any) -> float:
        trace = Trace(tiny_full_backbone, DECODINGS["random positions"], samples=8, **settings)
        return float(z_scores(trace.scheme, tiny_full_backbone, [g.text for g in trace.generations]).mean())

    with_regret, without, unmarked = mean_z(delta=WEAK), mean_z(delta=WEAK, regret=False), mean_z(delta=0, regret=False)
    assert with_regret > without + 1 > unmarked + 2
    assert abs(unmarked) < 1


def z_scores(scheme: Umr, backbone: Backbone, texts: list[str]) -> np.ndarray:
    hooks = hooks_of(scheme, codec=backbone.codec)
    return hooks.score(hooks.features(texts, TextContext()), KEY, TextContext()).scores[:, 0]


@pytest.mark.parametrize("message", ["1001", "01"])
def test_message_is_recovered(tiny_full_backbone: Backbone, message: str) -> None:
    decoding = ONE_BY_ONE.model_copy(update={"max_new_tokens": 150})
    trace = Trace(tiny_full_backbone, decoding, samples=2, message=message)
    hooks, context = hooks_of(trace.scheme, codec=tiny_full_backbone.codec), TextContext(evidence=True)
    texts = [g.text for g in trace.generations]
    views = hooks.score(hooks.features([*texts, "w5", ""], context), KEY, context)
    nulls = z_scores(trace.scheme, tiny_full_backbone, toy_texts([150] * 200))
    verdicts = hooks.detect(views, Calibration(nulls[:, None], views.names), context)
    for verdict in verdicts[:2]:
        assert verdict.details["message"] == message
        assert verdict.details["p_normal"] < 1e-6
        assert verdict.detected
        assert verdict.score > nulls.max()
        assert sum(e.weight for e in verdict.evidence) == pytest.approx(verdict.score)
    assert [v.details["message"] for v in verdicts[2:]] == ["?" * len(message)] * 2
    assert not verdicts[2].detected


def test_empirical_verdicts_need_a_calibration(tiny_full_backbone: Backbone) -> None:
    def verdict(calibration: Calibration | None = None, **settings: Any) -> Any:
        scheme = Umr(UmrConfig(**settings), SchemeContext(tiny_full_backbone.codec))
        hooks = hooks_of(scheme, codec=tiny_full_backbone.codec)
        views = hooks.score(hooks.features(["w3 w4 w5"], TextContext()), KEY, TextContext())
        return hooks.detect(views, calibration, TextContext())[0]

    with pytest.raises(ConfigError, match="calibration"):
        verdict()
    with pytest.raises(CalibrationError, match="different views"):
        verdict(Calibration(np.zeros((200, 1)), ("another scheme's",)))
    assert verdict(p_value="normal").method == "normal law of z"


@pytest.mark.parametrize("prf", ["hmac", "official"])
def test_a_text_without_a_pair_is_no_evidence(prf: Any) -> None:
    codec = ToyCodec(61)
    scheme = Umr(UmrConfig(prf=prf, message="1", p_value="normal"), SchemeContext(codec))
    bitmap = scheme.bitmap(KEY)
    hits = bitmap.hits(np.arange(3, 61)[:, None], np.arange(3, 61))
    a, b, c = next((a, b, c) for a in range(58) for b in range(58) for c in range(58) if hits[a, b] and not hits[b, c])
    hooks = hooks_of(scheme, codec=codec)
    texts = ["", "w5", f"w{a + 3} w{b + 3} w{c + 3}"]  # the last one has a z of 0 by chance
    verdicts = hooks.detect(hooks.score(hooks.features(texts, TextContext()), KEY, TextContext()), None, TextContext())
    assert [verdict.score for verdict in verdicts] == [0.0, 0.0, 0.0]
    assert [verdict.p_value for verdict in verdicts] == [1.0, 1.0, 0.5]
    assert [verdict.details["p_normal"] for verdict in verdicts] == [1.0, 1.0, 0.5]


def test_empty_votes_and_ties() -> None:
    assert recovered_bits(np.array([[0, 0], [2, 2], [3, 1], [0, 1]])) == [-1, -2, 0, 1]


def test_ties_are_told_from_missing_votes() -> None:
    """Message bit 0 gets one vote for a 1 and one for a 0; nobody votes for bit 1."""
    codec = ToyCodec(61)
    scheme = Umr(UmrConfig(message="11", p_value="normal"), SchemeContext(codec))
    bitmap = scheme.bitmap(KEY)
    first = int(np.flatnonzero(bitmap.bit_index[3:] == 0)[0]) + 3
    hits = bitmap.hits(np.array(first), np.arange(61))
    other = next(v for v in range(3, 61) if hits[v] != hits[first])
    hooks, context = hooks_of(scheme, codec=codec), TextContext(evidence=True)
    views = hooks.score(hooks.features([f"w{first} w{first} w{other}"], context), KEY, context)
    (verdict,) = hooks.detect(views, None, context)
    assert verdict.details["message"] == "-?"
    assert verdict.details["votes"] == ["-: 1 of 2 votes for 1", "?: 0 of 0 votes for 1"]


# --- the state machine -----------------------------------------------------------------------------------------


def commit_to(state: Regret, standing: dict[int, Candidate], committed: list[int], full: bool = False) -> Any:
    return state.after(standing, [], np.array(committed), full)


def test_only_earlier_candidates_use_the_slot() -> None:
    miss = Candidate(waiting=False, misses=1)
    state, column = commit_to(Regret(), {7: miss}, [7])
    assert column is None  # queued by this very step
    assert state.due
    state, column = commit_to(state, {7: miss, 9: Candidate(False, 2)}, [9])
    assert column == 7  # 9 misses more, but it has just come
    assert set(state.cw_map) == {9}
    assert state.cw_history == {7}


def test_neighbours_wait_for_what_was_masked_again() -> None:
    miss = Candidate(waiting=False, misses=1)
    state, column = commit_to(Regret(cw_map={7: miss, 8: miss}), {7: miss, 8: miss}, [])
    assert column == 7
    assert state.cw_map == {8: Candidate(waiting=True, misses=1)}
    assert not state.due


def test_a_second_miss_is_kept() -> None:
    state = Regret(cw_history=frozenset({7}))
    state, column = commit_to(state, {7: Candidate(False, 2)}, [7])
    assert column is None
    assert not state.due
    assert state.re_green_count == 0


def test_neighbours_can_repair_a_candidate() -> None:
    state, _ = Regret().after({7: Candidate(True, 0)}, [7], np.array([7]), False)
    assert 7 in state.cw_map
    assert not state.due  # it waits
    state, column = commit_to(state, {7: Candidate(False, 0), 8: Candidate(False, 0)}, [8])
    assert column is None
    assert not state.cw_map


def test_the_extra_iteration_masks_nothing() -> None:
    state = Regret(cw_map={3: Candidate(False, 1), 5: Candidate(False, 1)})
    standing = {3: Candidate(False, 1), 5: Candidate(False, 1), 9: Candidate(True, 0)}
    state, column = commit_to(state, standing, [9], full=True)
    assert column == 3
    assert state.closing
    assert not state.due
    state, column = commit_to(state, {3: Candidate(False, 0), 5: Candidate(False, 1)}, [3], full=True)
    assert column is None
    assert state == Regret(cw_history=frozenset({3}), roll_back_times=1, re_green_count=1)


@pytest.mark.parametrize("strategy", ["bidirectional", "normal"])
def test_no_pair_is_looked_up_twice(
    tiny_full_backbone: Backbone, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """A query of the bitmap is most of what a step costs on a small model; modulation asks for matrices, regret for
    pairs that modulation has not seen. What is remembered is what the bitmap says."""
    asked: list[tuple[int, int]] = []
    look_up = KeyedBitmap.hits

    def hits(self: KeyedBitmap, previous: np.ndarray, current: np.ndarray) -> np.ndarray:
        if previous.ndim == 1:
            asked.extend(zip(previous.tolist(), current.tolist(), strict=True))
        return look_up(self, previous, current)

    monkeypatch.setattr(KeyedBitmap, "hits", hits)
    trace = Trace(tiny_full_backbone, DECODINGS["two per step"], samples=1, delta=WEAK, strategy=strategy)
    (row,) = trace.rows.values()
    assert len(asked) == len(set(asked)) < len(row.state.known)
    assert (strategy == "bidirectional") == (not asked)
    previous, current = np.array(list(row.state.known)).T
    assert look_up(trace.scheme._bitmap, previous, current).tolist() == list(row.state.known.values())


def test_judge_reads_both_pairs() -> None:
    bitmap = KeyedBitmap(KEY, 50, 0.5, "1")
    canvas = np.array([10, 11, 12, 13, 2, 0])

    def hit(a: int, b: int) -> int:
        return int(bitmap.hits(np.array(a), np.array(b)))

    (standing,) = judge([canvas], [np.arange(6) != 4], [[1, 2, 3, 5]], [{}], bitmap, np.arange(50) == 0)
    assert standing[1] == Candidate(False, 2 - hit(10, 11) - hit(11, 12))
    assert standing[2] == Candidate(False, 2 - hit(11, 12) - hit(12, 13))
    assert standing[3] == Candidate(True, 1 - hit(12, 13))  # its right neighbour is masked
    assert standing[5] == Candidate(True, 0)
