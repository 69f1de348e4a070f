"""From run folders to one document, and what it warns about."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.report.made_up import ATTACKS, PROMPTS, SCHEMES, write_runs
from wmbench.cli.options import config_from_options
from wmbench.config import load_config
from wmbench.errors import ConfigError, IntegrityError
from wmbench.report import render, write_report
from wmbench.report.command import command_line, commands
from wmbench.report.document import Document, json_schema
from wmbench.report.folders import find_runs
from wmbench.report.gather import gather
from wmbench.report.notes import notices, null_label
from wmbench.report.paper import by_cell, paper_figures

SCHEMA = Path(__file__).parents[2] / "docs" / "report.schema.json"


def test_every_run_and_cell_is_there(document: Document) -> None:
    assert [run.scheme for run in document.measured] == sorted(SCHEMES)
    assert document.attacks == list(ATTACKS)
    denmark = document.measured[0]
    unattacked, rewrite = denmark.cells[:2]
    assert unattacked.n == PROMPTS
    assert unattacked.tpr["0.01"].threshold is not None
    assert unattacked.tpr["0.01"].threshold.low < 1.0
    assert rewrite.auc is not None
    assert rewrite.roc[0][0] == 0.0
    assert rewrite.roc[-1][0] == 0.1
    assert rewrite.roc == sorted(rewrite.roc)
    # The curve is read where the table is: the highest TPR with FPR <= 1%.
    at_one_percent = max(tpr for fpr, tpr in rewrite.roc if fpr <= 0.01)
    assert rewrite.tpr["0.01"].threshold is not None
    assert at_one_percent == rewrite.tpr["0.01"].threshold.estimate
    assert [part.detected.n for part in rewrite.by_length] == [(12,)] * 5
    assert [part.tokens for part in rewrite.by_length] == sorted(part.tokens for part in rewrite.by_length)
    assert denmark.cost is not None
    assert denmark.cost.forward_tokens is not None
    assert denmark.cost.forward_tokens.estimate == 40 * 4000 / 60
    assert denmark.cost.seconds is None  # no timings, no seconds
    assert denmark.cost.forward_rows_ratio is not None
    assert denmark.cost.forward_rows_ratio.estimate == pytest.approx(40)
    assert denmark.tokens_to_detect is not None
    assert denmark.tokens_to_detect.estimate == 125
    assert [part.tokens for part in unattacked.by_length] == [50, 150, 300]  # cut texts, where there are some
    assert denmark.quality["delta_log_perplexity"].estimate == 0.0
    assert denmark.more == {"something_new": {"a newer": "field"}}
    assert [family.attack for family in denmark.families] == [None, None, "lab-rewrite"]


def test_the_control_lends_its_texts(document: Document) -> None:
    (control,) = [run for run in document.runs if run.is_control]
    assert (control.scheme, control.dataset, control.cells) == ("none", "finance", [])
    kinds = [passage.kind for passage in document.measured[0].examples[0].passages]
    assert kinds == ["clean", "marked", *list(ATTACKS)[1:]]


def test_a_null_set_has_a_name_even_where_its_sizes_are_not_known() -> None:
    known = {"set": "lab", "tokens": [150, 300], "calibration": 5200, "heldout": 1000}
    assert null_label(known) == "lab, 150-300 tokens, 5,200 texts + 1,000 held out"
    assert null_label({"set": "lab"}) == "lab, ?-? tokens, ? texts + ? held out"


def test_lab_figures_say_what_they_are_not(document: Document, tmp_path: Path) -> None:
    assert "not figures on LLaDA-8B" in document.notices[0]
    assert document.warnings == []
    write_runs(tmp_path, {"denmark": 3.0}, backbone="llada")
    assert gather([tmp_path]).notices == []


def test_the_model_with_full_attention_is_the_labs_too(document: Document) -> None:
    run = document.measured[0].model_copy(update={"backbone": "mini-full"})
    assert "embedded model mini-full" in notices([run])[0]


def test_approximate_options_and_public_keys_are_announced(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "denmark_mini_finance_0000000000"
    shutil.copytree(runs / run.name, run)
    written = json.loads((run / "run.json").read_text())
    written["scheme"] |= {"approximations": {"prefilter": 4}, "key_use": "fixed"}  # where the pipeline writes them
    (run / "run.json").write_text(json.dumps(written))
    found = gather([run], texts=0)
    assert found.measured[0].approximations == {"prefilter": 4}
    assert found.warnings == ["denmark is approximate (prefilter = 4)."]
    assert found.notices[1].startswith("No secret: denmark ran with published constants")


def test_different_null_sets_are_announced(runs: Path, tmp_path: Path) -> None:
    write_runs(tmp_path, {"other": 2.0}, calibration=2700)
    (warning,) = gather([runs, tmp_path], texts=0).warnings
    assert warning.startswith("Different null sets")
    assert "2,700" in warning
    assert "5,200" in warning


def test_several_runs_of_one_scheme_are_told_apart(runs: Path, tmp_path: Path) -> None:
    for name in ("0000000000", "aaaaaaaaaa"):
        shutil.copytree(runs / "denmark_mini_finance_0000000000", tmp_path / f"denmark_mini_finance_{name}")
    found = gather([tmp_path], texts=0)
    assert [run.scheme for run in found.measured] == ["denmark (1)", "denmark (2)"]
    (warning,) = found.warnings
    assert "denmark (2) is denmark_mini_finance_aaaaaaaaaa" in warning
    table = render(found, "tex")
    assert all(f"& {scheme} & " in table for scheme in found.schemes)


def test_other_levels_and_normalisers_are_announced(runs: Path, tmp_path: Path) -> None:
    for scheme, changed in (("denmark", {}), ("dgmark", {"alpha": 0.05, "normalise": True})):
        run = next(runs.glob(f"{scheme}_*"))
        shutil.copytree(run, tmp_path / run.name)
        metrics = json.loads((run / "metrics.json").read_text())
        (tmp_path / run.name / "metrics.json").write_text(json.dumps({**metrics, **changed}))
    warnings = gather([tmp_path], texts=0).warnings
    assert [warning.partition(" differ")[0].partition(": ")[2] for warning in warnings] == [
        "levels (alpha)",
        "normalisers",
    ]


def test_without_a_key_the_texts_are_plain_and_it_says_why(runs: Path) -> None:
    from wmbench.host import Host

    run = gather([runs], texts=1, host=Host.discover()).measured[0]
    assert "calibration" in run.no_evidence
    assert [len(passage.pieces) for passage in run.examples[0].passages] == [1] * (1 + len(ATTACKS))


def test_json_follows_the_published_schema(document: Document) -> None:
    jsonschema = pytest.importorskip(
        "jsonschema", reason="the schema is checked with jsonschema, which is not installed"
    )
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(render(document, "json")), schema)
    assert json.loads(SCHEMA.read_text()) == schema, "run `wmbench report --schema > docs/report.schema.json`"


def test_json_is_the_whole_document(document: Document) -> None:
    assert Document.model_validate(json.loads(render(document, "json"))) == document


def test_the_same_runs_give_the_same_bytes(runs: Path, tmp_path: Path) -> None:
    pages = [write_report(gather([runs], texts=2), tmp_path / name) for name in ("a", "b")]
    assert [path.read_bytes() for path in pages[0]] == [path.read_bytes() for path in pages[1]]


# --- folders -----------------------------------------------------------------------------------------------------


def test_runs_are_found_once_and_results_beside_them_are_skipped(runs: Path, tmp_path: Path) -> None:
    inside = sorted(runs.iterdir())
    beside = tmp_path / "reports"
    others = [tmp_path / "sweeps", tmp_path / "tunings"]
    for file in (beside / "all" / "report.json", others[0] / "one" / "sweep.json", others[1] / "one.json"):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    assert [folder.path for folder in find_runs([inside[0], runs, beside, *others])] == inside
    for nothing in (tmp_path / "absent", tmp_path):
        with pytest.raises(ConfigError):
            find_runs([nothing])
    with pytest.raises(ConfigError, match="no run"):
        find_runs([beside])


def test_an_unfinished_run_does_not_hide_the_others(runs: Path, tmp_path: Path) -> None:
    for run in runs.glob("d*_*"):
        shutil.copytree(run, tmp_path / run.name)
    unfinished = next(tmp_path.glob("dgmark_*"))
    (unfinished / "metrics.json").unlink()
    found = gather([tmp_path], texts=0)
    assert [run.scheme for run in found.measured] == ["denmark", "dlm-kgw"]
    assert found.warnings[0].startswith(f"{unfinished.name} is not finished")
    with pytest.raises(ConfigError, match="no results"):
        gather([unfinished, tmp_path])  # who names it wants it


@pytest.mark.parametrize(
    ("content", "error"),
    [("{", IntegrityError), ('{"cells": []}', IntegrityError), (None, ConfigError)],
)
def test_damaged_results_are_named(runs: Path, tmp_path: Path, content: str | None, error: type[Exception]) -> None:
    run = tmp_path / "denmark_mini_finance_0000000000"
    shutil.copytree(runs / run.name, run)
    (run / "metrics.json").unlink() if content is None else (run / "metrics.json").write_text(content)
    with pytest.raises(error):
        gather([run])


# --- the paper's figures -----------------------------------------------------------------------------------------


def test_paper_figures_are_found_by_cell() -> None:
    figures = {"0.005": 0.108, "0.01": 0.182, "0.05": 0.38, "auc": 0.8224}  # the paper's first table
    assert paper_figures("dlm-kgw", "llada-8b", "finance-qa", "llm-rewrite") == pytest.approx(figures)
    assert paper_figures("dlm-kgw", "mini", "finance", "lab-rewrite") == {}
    cell = {"scheme": "s", "backbone": "b", "dataset": "d", "attack": "a", "metric": "auc"}
    twice = [{**cell, "table": "main", "value": 0.9}, {**cell, "table": "ablation", "value": 0.5}]
    assert by_cell(twice) == {("s", "b", "d", "a"): {"auc": 0.9}}


def test_the_attack_s_name_finds_the_paper_s_figures_whatever_its_label(runs: Path, tmp_path: Path) -> None:
    """An attack that asks another endpoint has a hash in its label, and is still the paper's attack."""
    folder = tmp_path / "denmark_mini_finance_0000000000"
    shutil.copytree(runs / folder.name, folder)
    run, metrics = (json.loads((folder / name).read_text()) for name in ("run.json", "metrics.json"))
    metrics |= {"backbone": "llada-8b", "dataset": "finance-qa"}
    metrics["cells"][1]["attack"] = "llm-rewrite-0a1b2c"
    run["attacks"]["llm-rewrite-0a1b2c"] = {"name": "llm-rewrite", "curve": None, "strength": None}
    for name, content in (("run.json", run), ("metrics.json", metrics)):
        (folder / name).write_text(json.dumps(content))
    unattacked, rewritten, *others = gather([folder], texts=0).measured[0].cells
    assert rewritten.paper == paper_figures("denmark", "llada-8b", "finance-qa", "llm-rewrite") != {}
    assert unattacked.paper
    assert not any(cell.paper for cell in others)


# --- the command -------------------------------------------------------------------------------------------------


def test_runs_of_one_command_name_the_plugin_files_of_all() -> None:
    asked = load_config(options={"schemes": ["mine", "none"], "attacks": []})
    arguments = {"passed": asked.passed, "defaulted": asked.defaulted}
    own = {"python": "3.12", "plugin mine": "my schemes/mine.py inline", "plugin runtime": "wmbench 0.1.0"}
    other = {"passed": {"samples": 8}}
    mine, control, unrelated = commands(
        [{"arguments": arguments, "versions": own}, {"arguments": arguments}, {"arguments": other}]
    )
    assert mine == "wmbench run --scheme mine --scheme none --no-attacks --plugin 'my schemes/mine.py'"
    assert control == mine
    assert "--plugin" not in unrelated


@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("quick", {"schemes": ["denmark", {"name": "dlm_kgw", "params": {"delta": 3.0}}], "samples": 8, "alpha": 0.05}),
        ("quick", {"schemes": [{"name": "denmark", "params": {"candidates": 8, "units": "all"}}], "attacks": []}),
        (
            "quick",
            {"schemes": ["all"], "backbones": [{"name": "tiny", "params": {"layers": 1}}], "decoding": {"eos": "ban"}},
        ),
        ("quick", {"schemes": ["none"], "attacks": ["identity"], "filters": {"min_tokens": 4}, "keys": 3, "seed": 5}),
        ("lab-mid", {"samples": 10, "lengths": [50, 100], "top_up": True, "normalise": True, "nulls": ["lab"]}),
        ("paper", {"schemes": ["denmark"], "prf": "hmac", "backbones": ["llada-8b"]}),
        ("quick", {"schemes": ["none"], "datasets": ["toy"], "retries": 2, "attacked_nulls": 5, "judge": "mini-judge"}),
        ("quick", {"schemes": ["none"], "attacks": [{"name": "delete:0.2|swap", "params": {"swap.ratio": 0.3}}]}),
        ("quick", {"schemes": ["none"], "attacks": [{"name": "llm-rewrite", "params": {"model": "4.1"}}]}),
        (
            "quick",
            {"schemes": ["none"], "backbones": [{"name": "tiny", "params": {"layers": 1}}, {"name": "mini"}]},
        ),
    ],
)
def test_the_command_makes_the_same_configuration(preset: str, options: dict[str, Any]) -> None:
    from wmbench.cli.run import run

    asked = load_config(preset, options=options)
    words = shlex.split(command_line({"passed": asked.passed, "defaulted": asked.defaulted}))
    assert words[:2] == ["wmbench", "run"]
    parsed = run.make_context("run", words[2:], help_option_names=["-h", "--help"]).params
    again = config_from_options(**{n: v for n, v in parsed.items() if n not in ("trace", "dry_run", "as_json")})
    assert (again.passed, again.defaulted) == (asked.passed, asked.defaulted)
