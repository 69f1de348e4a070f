"""`wmbench lab` by hand, with toy-sized work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file

from wmbench.errors import ConfigError, UnknownNameError
from wmbench.lab.codec import lab_codec
from wmbench.lab.commands import lab
from wmbench.lab.judge import Judge
from wmbench.lab.measures import Figure, at_least, between
from wmbench.lab.report import BEGIN, END, as_lines, measure, write_cards
from wmbench.lab.sample import sample
from wmbench.lab.training import judge as judge_training
from wmbench.lab.training.corpus import Example


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(lab, [str(argument) for argument in arguments])


# --- looking ---------------------------------------------------------------------------------------------------


def test_check_prints_the_figures() -> None:
    result = call("check", "--documents", "2")
    assert "word types" in result.output
    assert result.exit_code == ("missed:" in result.output or "wrong:" in result.output)


def test_show_lists_topics_and_shows_documents() -> None:
    assert len(call("show").output.splitlines()) >= 60
    shown = call("show", "--topic", "car-loan", "--seed", "5", "--paraphrase", "compress")
    assert shown.exit_code == 0
    assert sample("car-loan", 5).text in shown.output
    assert "car-loan/" in shown.output
    assert "compress (" in shown.output
    asked = call("show", "--prompt", "How do I get a good car loan?")
    assert sample("How do I get a good car loan?", 0).text in asked.output


def test_show_suggests_near_names() -> None:
    unknown = call("show", "--topic", "car-lone").exception
    assert isinstance(unknown, UnknownNameError)
    assert "did you mean 'car-loan'" in str(unknown)
    assert call("show", "--topic", " car-loan ").output == call("show", "--topic", "car-loan").output
    unknown = call("show", "--prompt", "How do I get a car loan?").exception
    assert isinstance(unknown, ConfigError)
    assert "How do I get a good car loan?" in (unknown.why or "")
    assert len(unknown.why or "") < 300
    assert call("show", "--prompt", "x", "--topic", "y").exit_code == 2
    assert isinstance(call("show", "--topic", "").exception, UnknownNameError)


# --- the report ------------------------------------------------------------------------------------------------


def test_the_report_shows_targets_and_says_what_is_missing() -> None:
    result = call("report", "--section", "language", "--section", "attacks", "--section", "package", "--documents", "2")
    assert result.exit_code == 0
    assert "at least 400" in result.stdout
    assert "package data in all" in result.stdout
    assert "at most 12 MB" in result.stdout
    assert "not figures on LLaDA-8B" in result.stdout
    data = json.loads(call("report", "--section", "package", "--json").stdout)
    assert all(set(figure) >= {"section", "name", "value", "target", "met"} for figure in data["figures"])


def test_a_section_without_weights_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("wmbench.lab.judge.weights_folder", lambda: tmp_path)
    figures = measure(["judge", "package"], documents=2)
    assert [figure.value for figure in figures if figure.section == "judge"] == [None]
    assert "train-judge" in figures[0].note
    assert any(figure.section == "package" for figure in figures)


def test_figures_know_whether_they_meet_their_target() -> None:
    assert at_least("mini", "passed", 0.95, 0.95, "%").met is True
    assert between("mini", "entropy", 2.6, 0.7, 2.5, "bits").met is False
    lines = "\n".join(as_lines([at_least("mini", "passed", 0.5, 0.95, "%"), Figure("mini", "size", 3.25, "MB")]))
    assert "50.0%  MISSED (at least 95.0%)" in lines
    assert "3.25 MB" in lines
    assert "0 targets met, 1 missed, 0 not measured" in lines


def test_cards_keep_everything_outside_the_marked_section(tmp_path: Path) -> None:
    card = tmp_path / "mini.md"
    card.write_text(f"# Card\n\n{BEGIN}\nold\n{END}\n\nThe end.\n", encoding="utf-8")
    figures = [at_least("mini", "passed", 0.5, 0.95, "%"), Figure("judge", "all", None, note="no weights")]
    assert write_cards(figures, tmp_path) == [card]
    once = card.read_text("utf-8")
    assert once.startswith("# Card\n\n")
    assert once.endswith("\n\nThe end.\n")
    assert "| passed | 50.0% **missed** | at least 95.0% |" in once
    assert "old" not in once
    write_cards(figures, tmp_path)
    assert card.read_text("utf-8") == once
    card.write_text("# No marks\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no section for figures"):
        write_cards(figures, tmp_path)


def test_shipped_cards_have_their_section() -> None:
    from wmbench.lab.codec import weights_folder

    for name in ("mini.md", "mini-judge.md"):
        text = (weights_folder() / name).read_text("utf-8")
        assert text.count(BEGIN) == text.count(END) == 1


# --- training --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A judge after three steps, and its shipped file."""
    folder = tmp_path_factory.mktemp("judge")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge_training.JudgeTrainer.evaluate, "__defaults__", (2,))
        result = call("train-judge", "--folder", folder, "--steps", "3", "--threads", "1")
    assert result.exit_code == 0, result.output
    output = folder / "shipped" / "judge.safetensors"  # makes the folder
    exported = call("export-weights", folder, "--model", "judge", "--output", output)
    assert exported.exit_code == 0, exported.output
    output.replace(folder / "judge.safetensors")
    return folder


def test_judge_training_logs_and_resumes(trained: Path) -> None:
    entry = json.loads((trained / "log.jsonl").read_text("utf-8"))
    assert entry["step"] == 3
    assert 5 < entry["next-token"] < 9
    assert "going on at step 3" in call("train-judge", "--folder", trained, "--steps", "3").output
    begin = ("--start-from", trained / "average.safetensors", "--start-step")
    later = call("train-judge", "--folder", trained, *begin, "100", "--steps", "200").exception
    assert "step 3, before the start step 100" in str(later), "its rates would be below zero"


def test_exported_weights_are_half_as_large(trained: Path) -> None:
    full, half = load_file(trained / "average.safetensors"), load_file(trained / "judge.safetensors")
    assert full.keys() == half.keys()
    assert all(tensor.dtype == torch.float16 for tensor in half.values())
    assert (trained / "judge.safetensors").stat().st_mode & 0o777 == 0o644
    assert isinstance(call("export-weights", trained.parent, "--model", "mini").exception, ConfigError)


def test_a_run_begins_with_given_weights_and_blends_them_in(trained: Path, tmp_path: Path) -> None:
    given, begun = trained / "judge.safetensors", tmp_path / "run"
    alone = call("train-judge", "--folder", begun, "--start-from", given)
    assert alone.exit_code == 2
    result = call("train-judge", "--folder", begun, "--start-from", given, "--start-step", "3", "--steps", "3")
    assert "going on at step 3" in result.output
    assert "nothing was trained" in str(result.exception)
    assert "done" not in result.output
    blended = tmp_path / "blended.safetensors"
    options = ("--model", "judge", "--output", blended, "--blend", given, "--blend-share")
    assert call("export-weights", trained, *options, "1").exit_code == 0
    ends = (
        load_file(given),
        {name: tensor.half() for name, tensor in load_file(trained / "average.safetensors").items()},
    )
    assert all(torch.equal(tensor, ends[0][name]) for name, tensor in load_file(blended).items())
    assert call("export-weights", trained, *options, "0").exit_code == 0
    own = load_file(trained / "average.safetensors")
    assert all(torch.equal(tensor, own[name].half()) for name, tensor in load_file(blended).items())


def test_wrong_weights_are_named(trained: Path, tmp_path: Path) -> None:
    given, readme = trained / "judge.safetensors", tmp_path / "readme.md"
    readme.write_text("no weights")
    begin = ("--start-step", "1", "--start-from")
    other = call("train-backbone", "--folder", tmp_path / "a", *begin, given).exception
    assert "of another model" in str(other)
    assert "of another model" in str(call("train-backbone", "--folder", trained).exception)
    assert "cannot be read" in str(call("train-judge", "--folder", tmp_path / "b", *begin, readme).exception)
    assert "cannot be read" in str(call("export-weights", trained, "--model", "judge", "--blend", readme).exception)


def test_the_result_is_there_before_the_checkpoint_says_so(trained: Path, tmp_path: Path) -> None:
    assert not list(trained.glob("*.tmp"))
    trainer = judge_training.JudgeTrainer(tmp_path, lab_codec(), judge_training.JudgeRecipe(steps=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", stop_at("train.safetensors", Path.replace))
        with pytest.raises(KeyboardInterrupt):
            trainer.save()
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["average.safetensors"]


def stop_at(name: str, replace: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
    """As when the process is stopped just before this file gets its name."""

    def stopped(path: Path, target: Path) -> Path:
        if target.name == name:
            raise KeyboardInterrupt
        return replace(path, target)

    return stopped


def test_the_judge_reads_only_the_answer(trained: Path) -> None:
    judge = Judge(trained / "judge.safetensors")
    texts = [sample("car-loan", seed).text for seed in range(3)]
    values = judge.log_perplexity("How do I get a good car loan?", [*texts, "", "Save money."])
    assert values[3] != values[3]
    assert ((values[[0, 1, 2, 4]] > 4) & (values[[0, 1, 2, 4]] < 9)).all()
    alone = judge.log_perplexity(["How do I get a good car loan?"], texts[:1])
    assert alone[0] == pytest.approx(values[0], rel=1e-5)
    with pytest.raises(ConfigError, match="2 prompts for 1 texts"):
        judge.log_perplexity(["a", "b"], ["c"])


def test_the_judge_cannot_look_ahead(trained: Path) -> None:
    judge = Judge(trained / "judge.safetensors")
    text = sample("car-loan", 0).text
    ids = judge.codec.encode(text)
    head = judge.codec.decode(ids[:40])
    assert judge.codec.encode(head) == ids[:40]
    example = Example(judge.codec.encode_prompt("A question?"), ids)
    with torch.no_grad():
        losses = judge_training.token_losses(judge.model, judge_training.causal_batch([example], judge.pad_id))
    assert losses[:40].mean().item() == pytest.approx(judge.log_perplexity("A question?", [head])[0], rel=1e-4)
