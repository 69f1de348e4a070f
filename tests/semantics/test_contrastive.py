"""Training: the loss, the schedule and the batches of the paper, and the command around them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from wmbench.errors import ConfigError, IntegrityError
from wmbench.semantics.commands import train_encoder
from wmbench.semantics.contrastive import (
    ContrastiveRecipe,
    TextPair,
    batches,
    info_nce,
    learning_rate_factor,
    measure_retrieval,
    read_pairs,
    retrieval,
    split_pairs,
    train,
)
from wmbench.semantics.mini_encoder import MiniEncoder
from wmbench.semantics.trainable import MiniModule

ACTS = ["save money", "bake bread", "plant a tree", "water it often", "keep the soil warm", "near the house"]
PAIRS = [
    TextPair(f"{first} and {second}", f"{second} slowly {first} every month", number)
    for number, (first, second) in enumerate((a, b) for a in ACTS for b in ACTS if a != b)
]


def test_loss_by_hand() -> None:
    anchors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    positives = torch.tensor([[0.6, 0.8], [0.0, 1.0]])
    first = -math.log(math.exp(0.6 / 0.05) / (math.exp(0.6 / 0.05) + 1.0))
    second = -math.log(math.exp(1 / 0.05) / (math.exp(1 / 0.05) + math.exp(0.8 / 0.05)))
    assert info_nce(anchors, positives, 0.05).item() == pytest.approx((first + second) / 2, abs=1e-5)


def test_schedule_of_the_paper() -> None:
    steps = 186  # 7,993 pairs, batch 128, three epochs
    factors = [learning_rate_factor(step, steps, 0.05) for step in range(steps)]
    assert np.argmax(factors) in (8, 9)  # nine steps of warm-up
    assert factors[0] == pytest.approx(1 / 9)
    assert factors[-1] == pytest.approx(1 / 177)
    np.testing.assert_allclose(np.diff(factors[9:]), -1 / 177)


def test_batches_drop_the_last_and_keep_groups_together() -> None:
    pairs = [TextPair(str(number), "", number // 4) for number in range(50)]
    recipe = ContrastiveRecipe(batch_size=8, group_size=4)
    made = list(batches(pairs, recipe, 0))
    assert [len(batch) for batch in made] == [8] * 6
    assert len({pair.anchor for batch in made for pair in batch}) == 48
    whole = [len({pair.group for pair in batch}) for batch in made]
    assert np.mean(whole) < 4  # 8 pairs of 2 or 3 groups
    assert made == list(batches(pairs, recipe, 0))
    assert made != list(batches(pairs, recipe, 1))


def test_retrieval_counts_ties_as_misses() -> None:
    eye = np.eye(4, dtype=np.float32)
    assert retrieval(eye, eye) == 1.0
    assert retrieval(eye, np.ones((4, 4), np.float32)) == 0.0


def test_training_learns_and_repeats(tokenizer_file: Path) -> None:
    recipe = ContrastiveRecipe(batch_size=10, epochs=8, learning_rate=0.01, temperature=0.5)
    states = []
    for _ in range(2):
        model = MiniModule(tokenizer_file, width=16, hidden=16)
        losses = train(model, PAIRS, recipe, lambda progress: None)
        states.append(model.state_dict())
    assert losses[-1] < 0.9 * losses[0]
    assert measure_retrieval(model, PAIRS) <= 1.0
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name])


def test_split_keeps_groups_apart() -> None:
    pairs = [TextPair("a", "b", number // 5) for number in range(100)]
    training, held_out = split_pairs(pairs, 12)
    assert len(held_out) == 12
    assert not {pair.group for pair in training} & {pair.group for pair in held_out}


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_both_layouts_of_pairs_are_read(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"anchor": "a", "positive": "b", "group": 7}, {"text": "c", "paraphrase": "d"}]
    assert read_pairs(write(tmp_path / "p.jsonl", rows)) == [TextPair("a", "b", 7), TextPair("c", "d", 2)]


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    """Texts of the web contain other separators, and editors add a mark at the beginning."""
    path = tmp_path / "p.jsonl"
    path.write_text('{"text": "a\u2028b", "paraphrase": "c\x85d"}\r\n\n{"text": "e", "paraphrase": "f"}', "utf-8-sig")
    assert read_pairs(path) == [TextPair("a\u2028b", "c\x85d", 1), TextPair("e", "f", 3)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"text": "caf\xe9", "paraphrase": "b"}', "not JSON"),
        (b'{"text": "a"}', "no pair"),
        (b"[1]", "no pair"),
        (b'{"text": "a", "paraphrase": "b", "group": "one"}', "no whole number"),
        (b'{"text": "a", "paraphrase": " "}', "is empty"),
    ],
)
def test_bad_pairs_are_named_by_line(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"text": "a", "paraphrase": "b"}\n' + line + b"\n")
    with pytest.raises(ConfigError, match=message) as error:
        read_pairs(path)
    assert "line 2" in str(error.value)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(train_encoder, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_command_writes_an_encoder(tmp_path: Path, tokenizer_file: Path) -> None:
    pairs = write(tmp_path / "pairs.jsonl", [{"anchor": p.anchor, "positive": p.positive} for p in PAIRS])
    out = tmp_path / "made"
    output = run(pairs, "--out", out, "--tokenizer", tokenizer_file, "--epochs", 2, "--batch-size", 9)
    assert "before" in output
    assert "after" in output
    assert f"mini:{out}" in output
    assert {p.name for p in out.iterdir()} == {
        "model.safetensors",
        "tokenizer.json",
        "config.json",
        "training.json",
        "README.md",
    }
    assert MiniEncoder.from_directory(out).encode(["bake bread"]).shape == (1, 256)
    assert "retrieval" in (out / "README.md").read_text()
    with pytest.raises(ConfigError, match="in the way"):
        run(pairs, "--out", out, "--tokenizer", tokenizer_file)


def test_a_folder_that_cannot_be_written_is_told_before_the_training(tmp_path: Path, tokenizer_file: Path) -> None:
    pairs = write(tmp_path / "pairs.jsonl", [{"anchor": p.anchor, "positive": p.positive} for p in PAIRS])
    with pytest.raises(IntegrityError, match="cannot be written to"):
        run(pairs, "--out", pairs / "made", "--tokenizer", tokenizer_file, "--batch-size", 9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--encoder", "bert"], "cannot train"),
        (["--encoder", "hf:./nowhere"], "does not exist|need the package"),
        (["--temperature", "0"], "--temperature"),
        (["--learning-rate", "0"], "--learning-rate"),
        (["--seed", "-1"], "--seed"),
        (["--batch-size", "1000"], "do not fill one batch"),
        (["--batch-size", "9", "--learning-rate", "inf"], "the loss is no number at step 2"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, tokenizer_file: Path, arguments: list[str], message: str) -> None:
    pairs = write(tmp_path / "pairs.jsonl", [{"anchor": p.anchor, "positive": p.positive} for p in PAIRS])
    tokenizer = [] if "--encoder" in arguments else ["--tokenizer", tokenizer_file]
    with pytest.raises(ConfigError, match=message):
        run(pairs, "--out", tmp_path / "made", *arguments, *tokenizer)
    assert not (tmp_path / "made").exists()


def test_pairs_of_one_document_leave_none_to_train_on(tmp_path: Path, tokenizer_file: Path) -> None:
    rows: list[dict[str, object]] = [{"text": p.anchor, "paraphrase": p.positive, "group": 1} for p in PAIRS]
    with pytest.raises(ConfigError, match="of one group"):
        run(write(tmp_path / "pairs.jsonl", rows), "--out", tmp_path / "made", "--tokenizer", tokenizer_file)
