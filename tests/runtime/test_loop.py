"""What the loop guarantees: sound commits only, EOS rules, position policies, forks, bounded re-masking."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from wmbench.errors import ConfigError, PluginError
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.engine import Engine
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Step
from wmbench.types import Commit, Generation, Sample

DECODING = Decoding(max_new_tokens=20, block_length=10)


@pytest.fixture(params=["full", "block"])
def backbone(request: pytest.FixtureRequest) -> TinyBackbone:
    return TinyBackbone(TinyConfig(attention=request.param))


def generate(
    backbone: TinyBackbone, decide: Callable[[Step], Commit] = Step.commit, decoding: Decoding = DECODING, n: int = 3
) -> list[Generation]:
    samples = [Sample(f"s{i}", "w8 w9 " * (i + 1)) for i in range(n)]
    done = {g.sample.id: g for g in decode(samples, make_engine(backbone, decoding), decoding, decide)}
    return [done[s.id] for s in samples]


def test_every_mask_is_filled_and_no_banned_id_appears(backbone: TinyBackbone) -> None:
    for generation in generate(backbone, decoding=Decoding(max_new_tokens=60, temperature=3.0), n=6):
        assert len(generation.token_ids) == 60
        assert not set(generation.token_ids) & set(backbone.banned_ids)


def test_a_scheme_may_take_gradients_of_its_logits(backbone: TinyBackbone) -> None:
    def ascend(step: Step) -> Commit:
        logits = step.logits()
        assert not torch.is_grad_enabled()
        with torch.enable_grad():
            wanted = logits.detach().requires_grad_()
            energy = wanted.softmax(-1)[:, ::2].sum()
            (slope,) = torch.autograd.grad(energy, wanted)
        return step.commit(logits + 50 * slope)

    def even(generations: list[Generation]) -> float:
        return float(np.mean([i % 2 == 0 for generation in generations for i in generation.token_ids]))

    assert even(generate(backbone, ascend)) > even(generate(backbone)) + 0.2


def test_rows_leave_and_join_as_they_finish(backbone: TinyBackbone) -> None:
    seen: list[set[str]] = []

    def watch(step: Step) -> Commit:
        seen.append({row.sample.id for row in step.rows})
        return step.commit()

    samples = [Sample(f"s{i}", "w5") for i in range(5)]
    decoding = Decoding(max_new_tokens=12, schedule="origin")  # rows take different numbers of steps
    done = list(decode(samples, Engine(backbone), decoding, watch, batch_size=2))
    assert len(done) == 5
    assert max(len(ids) for ids in seen) == 2
    assert any(not a <= b and a & b for a, b in pairwise(seen))  # one left, its neighbour stayed


def test_eos_rules(backbone: TinyBackbone) -> None:
    eos = next(iter(backbone.eos_ids))

    def force_eos(step: Step) -> Commit:
        commit = step.commit()
        return Commit(commit.rows, commit.columns, np.full_like(commit.tokens, eos))

    assert all(len(g.token_ids) == 20 for g in generate(backbone, force_eos))
    stopped = generate(backbone, force_eos, Decoding(max_new_tokens=20, positions="left_to_right", eos="stop"))
    assert all(g.token_ids == (eos,) for g in stopped)
    with pytest.raises(PluginError, match="unsound"):
        generate(backbone, force_eos, Decoding(max_new_tokens=20, eos="ban"))


def test_eos_last_places_eos_only_when_nothing_else_is_left(backbone: TinyBackbone) -> None:
    eos = next(iter(backbone.eos_ids))
    placed: list[tuple[int, ...]] = []

    def favour_eos(step: Step) -> Commit:
        logits = step.logits().clone()
        logits[::2, eos] = 50.0  # every other open cell is certain of EOS
        commit = step.commit(logits)
        placed.append(tuple(commit.tokens.tolist()))
        return commit

    decoding = Decoding(max_new_tokens=10, positions="low_confidence", eos_last=True, temperature=0.1)
    generate(backbone, favour_eos, decoding, n=1)
    assert placed[0][0] != eos


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (lambda s: None, "expected a"),
        (lambda s: Commit.of(), "nothing was decided"),
        (lambda s: Commit.of([(r, 0, 5) for r in range(len(s.rows))]), "not masked"),
        (lambda s: Commit.of([(7, 9, 5)]), "row index"),
        (lambda s: Commit.of([(r, s.rows[r].length - 1, 2) for r in range(len(s.rows))]), "banned"),
        (lambda s: Commit.of([(r, s.rows[r].length - 1, 10_000) for r in range(len(s.rows))]), "vocabulary"),
        (lambda s: Commit.of([(r, s.rows[r].length - 1, 5) for r in range(len(s.rows))] * 2), "twice"),
        (lambda s: Commit.of([(r, s.rows[r].length - 1, 5) for r in range(len(s.rows))], [(0, 0)]), "re-masked"),
    ],
)
def test_unsound_commits_are_refused(backbone: TinyBackbone, bad: Callable[[Step], Commit], reason: str) -> None:
    with pytest.raises(PluginError, match=reason):
        generate(backbone, bad)


def test_remasking_is_bounded(backbone: TinyBackbone) -> None:
    def never_satisfied(step: Step) -> Commit:
        commit = step.commit()
        return Commit(commit.rows, commit.columns, commit.tokens, commit.rows, commit.columns)

    with pytest.raises(PluginError, match="max_visits"):
        generate(backbone, never_satisfied, Decoding(max_new_tokens=1))


def test_canvas_cannot_be_written_by_a_scheme(backbone: TinyBackbone) -> None:
    def scribble(step: Step) -> Commit:
        step.rows[0].canvas[0] = 5
        return step.commit()

    with pytest.raises(ValueError, match="read-only"):
        generate(backbone, scribble)


def test_paired_forks_differ_in_their_first_commit_only(backbone: TinyBackbone) -> None:
    """Equal first commits and lanes give equal continuations; the commit is in them and takes the present step."""
    seen = []

    def decide(step: Step) -> Commit:
        if not seen:
            native = step.commit()
            other = Commit(native.rows, native.columns, np.where(native.tokens == 9, 10, 9))
            ends = [row.length for row in step.rows]
            rows = list(range(len(step.rows)))
            one, again, different = (step.fork(rows, 2, ends, first=first) for first in (native, native, other))
            seen.append((native, other, one, again, different))
        return step.commit()

    generations = list(decode([Sample("a", "w5"), Sample("b", "w6 w7")], Engine(backbone), DECODING, decide))
    native, other, one, again, different = seen[0]
    for r in range(2):
        for commit, forks in ((native, one), (native, again), (other, different)):
            mine = commit.rows == r
            for fork in forks[r]:
                assert (fork.canvas[commit.columns[mine]] == commit.tokens[mine]).all()
                assert set(commit.columns[mine]) <= set(fork.columns)
        assert all((a.canvas == b.canvas).all() for a, b in zip(one[r], again[r], strict=True))
        assert not (one[r][0].canvas == one[r][1].canvas).all()
    assert all(g.cost.steps == DECODING.max_new_tokens for g in generations), "a fork does not move its row"


def test_forks_are_independent_counted_and_reproducible(backbone: TinyBackbone) -> None:
    def best_of_four(step: Step) -> Commit:
        rows = list(range(len(step.rows)))
        until = [
            int(plan.scope[0]) - (int(plan.scope[0]) - row.start) % 10 + 10
            for row, plan in zip(step.rows, step.plans, strict=True)
        ]
        triples = []
        for r, continuations in enumerate(step.fork(rows, 4, until)):
            assert len({c.canvas.tobytes() for c in continuations}) > 1
            best = max(continuations, key=lambda c: int(c.tokens.sum()))
            triples += [(r, int(c), int(t)) for c, t in zip(best.columns, best.tokens, strict=True)]
        return Commit.of(triples)

    first, again = generate(backbone, best_of_four), generate(backbone, best_of_four)
    assert [g.token_ids for g in first] == [g.token_ids for g in again]
    assert all(g.cost.steps == 2 for g in first)
    # Per block one forward that all four share, then nine of each.
    assert all(g.cost.forward_rows == 2 * (1 + 4 * 9) for g in first)
    clean = generate(backbone)
    assert np.mean([sum(g.token_ids) for g in first]) > np.mean([sum(g.token_ids) for g in clean])


def test_threshold_commits_all_confident_cells_at_once() -> None:
    backbone = TinyBackbone(TinyConfig(attention="block", scale=8.0))
    fixed = Decoding(max_new_tokens=24, schedule="threshold", block_length=8, threshold=0.3)
    eager = generate(backbone, decoding=fixed)
    careful = generate(backbone, decoding=fixed.model_copy(update={"threshold": 1.0}))
    assert all(g.cost.steps == 24 for g in careful)
    assert all(g.cost.steps < 24 for g in eager)


@pytest.mark.parametrize("positions", ["random", "low_confidence", "margin", "entropy", "left_to_right"])
def test_position_policies(backbone: TinyBackbone, positions: str) -> None:
    order: list[int] = []

    def watch(step: Step) -> Commit:
        commit = step.commit()
        order.extend(commit.columns.tolist())
        return commit

    generate(backbone, watch, Decoding(max_new_tokens=15, positions=positions), n=1)  # type: ignore[arg-type]
    assert sorted(order) == list(range(2, 17))
    assert (order == sorted(order)) == (positions == "left_to_right")


def test_random_positions_need_one_head_row_per_token(backbone: TinyBackbone) -> None:
    assert all(g.cost.head_rows == 20 for g in generate(backbone))


def test_too_long_and_empty_prompts_are_refused() -> None:
    backbone = TinyBackbone(TinyConfig(max_length=30))
    with pytest.raises(ConfigError, match="positions"):
        generate(backbone, decoding=Decoding(max_new_tokens=29))


def test_the_prompt_may_contain_the_mask_token() -> None:
    backbone = TinyBackbone()
    backbone.codec.encode_prompt = lambda prompt: [5, backbone.mask_id, 6]  # type: ignore[method-assign]
    assert len(generate(backbone)[0].token_ids) == 20


@pytest.mark.parametrize("positions", ["random", "low_confidence", "left_to_right"])
@pytest.mark.parametrize("schedule", ["block", "origin", "threshold"])
def test_extra_cells_come_on_top_of_the_native_ones(backbone: TinyBackbone, positions: str, schedule: str) -> None:
    def one_more(step: Step) -> Commit:
        native = step.propose()
        wider = step.propose([1] * len(step.rows))
        before = set(zip(native.rows.tolist(), native.columns.tolist(), native.tokens.tolist(), strict=True))
        after = set(zip(wider.rows.tolist(), wider.columns.tolist(), wider.tokens.tolist(), strict=True))
        assert before <= after
        for r, row in enumerate(step.rows):
            free = len(row.masked) - int((native.rows == r).sum())
            assert int((wider.rows == r).sum()) == int((native.rows == r).sum()) + min(1, free)
        return wider

    decoding = Decoding(max_new_tokens=12, schedule=schedule, positions=positions, threshold=0.02)  # type: ignore[arg-type]
    assert all(len(g.token_ids) == 12 for g in generate(backbone, one_more, decoding))


@pytest.mark.parametrize("change", [lambda x: x.numpy(), lambda x: x.topk(5).indices], ids=["numpy", "ids"])
def test_only_logits_can_be_committed(backbone: TinyBackbone, change: Callable[[torch.Tensor], Any]) -> None:
    def decide(step: Step) -> Commit:
        return step.commit(change(step.logits()), confidence_logits=step.logits())

    with pytest.raises(PluginError, match="expected a torch tensor of floats, got"):
        generate(backbone, decide, n=1)


@pytest.mark.parametrize("extra", [[1], [-1, 0], [0, 0, 0]])
def test_impossible_numbers_of_extra_cells_are_refused(backbone: TinyBackbone, extra: list[int]) -> None:
    with pytest.raises(PluginError, match="impossible number of extra cells"):
        generate(backbone, lambda step: step.propose(extra), Decoding(schedule="origin"), n=2)


def test_forks_may_have_a_schedule_of_their_own(backbone: TinyBackbone) -> None:
    """Dream's time outside, blocks of four inside: every continuation fills one block and nothing else."""
    blocks = Decoding(max_new_tokens=12, block_length=4, steps=12)

    def block_by_block(step: Step) -> Commit:
        rows = list(range(len(step.rows)))
        until = [int(row.masked[0]) + 4 for row in step.rows]
        cells = []
        for r, (first, second) in enumerate(step.fork(rows, 2, until, decoding=blocks)):
            assert len(first.columns) == len(second.columns) == 4
            assert first.columns.max() < until[r]
            cells += [(r, int(c), int(t)) for c, t in zip(first.columns, first.tokens, strict=True)]
        return Commit.of(cells)

    done = generate(backbone, block_by_block, Decoding(max_new_tokens=12, schedule="origin", steps=5))
    assert all(g.cost.steps == 3 for g in done)
    assert all(g.cost.forward_rows == 3 * (1 + 2 * 3) for g in done)


def test_a_fork_begins_at_the_present_step(backbone: TinyBackbone) -> None:
    """Unless it is told what to commit there: its clock has not used the step that its row is in."""
    even = Decoding(max_new_tokens=8, block_length=8, steps=8)
    budgets: list[int] = []

    def note(step: Step) -> Commit:
        budgets.append(step.plans[0].budget)
        return step.commit()

    def fork_once(step: Step) -> Commit:
        if not budgets:
            for first in (None, step.commit()):
                step.fork([0], 1, [step.rows[0].length], first=first, decide=note)
        return step.commit()

    generate(backbone, fork_once, even, n=1)
    assert budgets == [1] * 8 + [1] * 7


def test_forks_of_what_is_filled_already_fill_nothing(backbone: TinyBackbone) -> None:
    """Whatever their decoding; and no continuations are none of every row."""
    finer = DECODING.model_copy(update={"block_length": 5})

    def decide(step: Step) -> Commit:
        rows, until = list(range(len(step.rows))), [int(row.masked[0]) for row in step.rows]
        for decoding in (None, finer):
            for fork in step.fork(rows, 2, until, decoding=decoding):
                assert [len(continuation.columns) for continuation in fork] == [0, 0]
        assert step.fork(rows, 0, [row.length for row in step.rows]) == [[] for _ in rows]
        return step.commit()

    assert [g.token_ids for g in generate(backbone, decide)] == [g.token_ids for g in generate(backbone)]


def test_numpy_has_one_thread_inside_of_a_step_only(backbone: TinyBackbone) -> None:
    def threads() -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    seen = []

    def decide(step: Step) -> Commit:
        seen.append(threads())
        return step.commit()

    with threadpool_limits(2, "blas"):
        generate(backbone, decide, n=1)
        after = threads()
    assert after
    assert 2 in after
    assert all(during == {1} for during in seen)
