"""The paper's matrix: its reported figures, its presets, its data."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from wmbench.bench.plan import resolve_runs
from wmbench.bench.published import c4_nulls, finance_qa
from wmbench.bench.split import fitted
from wmbench.cli import main
from wmbench.config import load_config
from wmbench.errors import ConfigError
from wmbench.host import Host
from wmbench.lab.codec import lab_codec
from wmbench.presets import PRESETS
from wmbench.report.paper import paper_figures
from wmbench.types import NullText

TABLES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "wmbench" / "report" / "paper_tables.json").read_text()
)
RATES = ("tpr@0.5%", "tpr@1%", "tpr@5%", "auc")


def table(name: str) -> list[dict[str, Any]]:
    return [record for record in TABLES if record["table"] == name]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("main-1", 2 * 5 * 5 * 3 * 4),  # backbones, conditions, schemes, data sets, metrics
        ("main-2", 2 * 5 * 5 * 3 * 4),
        ("back-translation", 2 * 2 * 5 * 2 * 4),
        ("document-length", 4 * 2 * 5 * 3 * 4),
        ("non-uniform", 3 * 5 * 4),
        ("quality", (4 * 3 + 1) * 6 * 4),  # with clean texts, and the average
        ("run-time", 6),
        ("downstream", 2 * 6 * 5),
        ("block-baselines", 2 * 3 * 4 * 5),
        ("encoder", 2 * 4 * 2 * 2 * 4),
        ("budget", 4 * 5 * 2 * 4),
        ("positions", 2 * 3 * 4),
    ],
)
def test_every_cell_of_the_papers_tables_is_there_once(name: str, cells: int) -> None:
    records = table(name)
    keys = Counter(
        (r["scheme"], r["backbone"], r["dataset"], r["attack"], r["metric"], json.dumps(r.get("setting")))
        for r in records
    )
    assert len(records) == len(keys) == cells
    assert {"table", "scheme", "backbone", "dataset", "attack", "metric", "value"} <= set(records[0])


def test_the_tables_have_the_averages_that_the_paper_states() -> None:
    """Over the 48 attacked combinations of the main tables: 63.55, 71.89, 87.45 and 0.9693."""
    attacked = [r for r in (*table("main-1"), *table("main-2")) if r["attack"] != "unattacked"]
    own = [r for r in attacked if r["scheme"] == "denmark"]
    means = {m: sum(r["value"] for r in own if r["metric"] == m) / 48 for m in RATES}
    assert means == pytest.approx(dict(zip(RATES, (63.55, 71.89, 87.45, 0.9693), strict=True)), abs=0.006)
    for record in own:  # the highest value in all 48 combinations, for each of the four metrics
        same = ("backbone", "dataset", "attack", "metric")
        rivals = [r["value"] for r in attacked if all(r[k] == record[k] for k in same) and r is not record]
        assert len(rivals) == 4
        assert record["value"] > max(rivals)
    untuned = [r for r in table("encoder") if r["setting"]["encoder"] == "untuned"]
    means = {m: sum(r["value"] for r in untuned if r["metric"] == m) / 16 for m in RATES}
    # The paper's sentence says 30.31 for the first; its table gives 30.42.
    assert means == pytest.approx(dict(zip(RATES, (30.42, 37.00, 57.75, 0.8765), strict=True)), abs=0.006)


def test_reports_find_the_papers_figures() -> None:
    found = paper_figures("denmark", "llada-8b", "finance-qa", "llm-rewrite")
    assert found == pytest.approx({"0.005": 0.6355, "0.01": 0.7492, "0.05": 0.903, "auc": 0.9784})
    assert paper_figures("dlm-kgw", "dream-7b", "longform-qa", "unattacked")["auc"] == 1.0
    assert paper_figures("denmark", "mini", "finance", "lab-rewrite") == {}


def test_a_first_look_has_four_attacks_that_suit_the_backbone() -> None:
    host = Host.discover()
    suited = {"tiny": ["delete", "swap", "crop", "identity"]}
    if "mini" in host.backbones:
        suited["mini"] = ["lab-rewrite", "lab-compress", "lab-expand", "lab-document"]
    for backbone, expected in suited.items():
        (plan,) = resolve_runs(load_config(options={"schemes": ["none"], "backbone": backbone}), host)
        assert [attack.label for attack in plan.attacks] == expected


def test_presets_are_valid_and_what_the_user_says_wins() -> None:
    for name in PRESETS:
        config = load_config(name, options={"schemes": ["none"], "samples": 3})
        assert (config.samples, [scheme.name for scheme in config.schemes]) == (3, ["none"])
    full = load_config("lab-full")
    assert (full.samples, len(full.datasets), full.calibration_texts, full.heldout_texts) == (300, 3, 30_000, 10_000)
    one = load_config("paper", options={"backbone": "tiny"})
    assert [backbone.name for backbone in one.backbones] == ["tiny"]


def test_the_paper_preset_runs_schemes_as_published_unless_told_otherwise() -> None:
    host = Host.discover()
    small = {"backbone": "tiny", "datasets": ["toy"], "attacks": []}

    def key_uses(preset: str, **options: Any) -> dict[str, str]:
        plans = resolve_runs(load_config(preset, options={**small, **options}), host)
        return {plan.scheme.info.name: plan.key_use for plan in plans}

    assert set(key_uses("paper").values()) == {"fixed", "none"}
    assert key_uses("paper", schemes=["denmark"]) == {"denmark": "fixed"}  # naming a scheme changes no setting of it
    assert key_uses("paper", schemes=["denmark", "none"], prf="hmac") == {"denmark": "secret", "none": "none"}
    own = [{"name": "denmark", "params": {"prf": "hmac"}}, "dlm_kgw"]
    assert key_uses("paper", schemes=own) == {"denmark": "secret", "dlm_kgw": "fixed"}
    assert key_uses("lab-mid", schemes=["denmark"]) == {"denmark": "secret"}


def test_the_paper_preset_has_every_cell_of_the_main_tables() -> None:
    config = load_config("paper")
    cells = {
        (scheme.name, backbone.name, dataset, attack)
        for scheme in config.schemes
        if scheme.name != "none"
        for backbone in config.backbones
        for dataset in config.datasets
        for attack in ("unattacked", *(attack.name for attack in config.attacks))
    }
    reported = {(r["scheme"], r["backbone"], r["dataset"], r["attack"]) for r in (*table("main-1"), *table("main-2"))}
    assert cells == reported
    assert len(cells) == 300


def test_a_dry_run_of_the_matrix_lists_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    matrix = ["--backbone", "tiny", "--backbone", "tiny-block", "--attack", "identity", "--nulls", "lab"]
    assert main(["run", "--preset", "paper", *matrix, "-S", "denmark.encoder=mini", "--dry-run", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert len(cells) == 2 * 3 * 5 * 2
    assert len({tuple(cell.values()) for cell in cells}) == len(cells)


def test_a_dry_run_of_the_papers_own_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    host, paper = Host.discover(), PRESETS["paper"]
    if not {*paper["backbones"]} <= {*host.backbones} or not {*paper["attacks"]} <= {*host.attacks}:
        pytest.skip("needs the plugins of the real backbones and of the LLM attacks")
    assert main(["run", "--preset", "paper", "--dry-run"]) == 0
    *cells, summary = capsys.readouterr().out.splitlines()
    assert len(cells) == 300
    assert summary.startswith("72 runs, 300 cells")


def test_several_backbones_make_runs_of_their_own() -> None:
    options = {"schemes": ["none"], "backbones": ["tiny", "tiny-block"], "datasets": ["toy"], "attacks": ["identity"]}
    plans = resolve_runs(load_config(options=options), Host.discover())
    assert [plan.backbone.label for plan in plans] == ["tiny", "tiny-block"]
    with pytest.raises(ConfigError, match="both given"):
        load_config(options={**options, "backbone": "tiny"})


def test_prompts_come_from_the_data_folder_and_repeat_when_more_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMBENCH_DATA", str(tmp_path))
    lines = [{"context": "On  money.", "input": "Why\nsave?"}, {"prompt": "What is a bond?"}, {"input": ""}]
    with gzip.open(tmp_path / "finance_qa.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    samples = finance_qa("", 3)
    assert [(s.id, s.prompt) for s in samples] == [
        ("finance_qa-0000", "On money. Why save?"),
        ("finance_qa-0001", "What is a bond?"),
        ("finance_qa-0000#2", "On money. Why save?"),
    ]
    assert len(finance_qa("", None)) == 2
    (tmp_path / "finance_qa.jsonl").write_text("[1]\n")
    with pytest.raises(ConfigError, match="not one JSON object"):
        finance_qa("", 1)


def test_c4_gives_one_text_per_document(tmp_path: Path) -> None:
    file = tmp_path / "c4.jsonl"
    rows = [{"text": "first", "doc": "a"}, {"text": "second", "doc": "a"}, {"text": "third", "url": "http://b"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [(null.text, null.document, null.family) for null in c4_nulls(str(file), None)] == [
        ("first", "a", "human"),
        ("third", "http://b", "human"),
    ]


def test_crops_have_exactly_their_length_and_lie_anywhere() -> None:
    codec = lab_codec()
    words = "Saving a little money every month is the first step toward a calm retirement, and it helps. "
    text = " ".join(f"{words}Step {i} matters." for i in range(60))
    ids = codec.encode(text)
    starts, lengths = set(), set()
    for number in range(60):
        found = fitted(NullText(f"n{number}", text, "human"), ids, codec, (150, 300))
        if found is not None:
            crop, tokens = found
            assert len(codec.encode(crop.text)) == tokens
            assert crop.text in text
            starts.add(text.index(crop.text) // 500)
            lengths.add(tokens // 30)
    assert len(starts) > 5
    assert lengths == {5, 6, 7, 8, 9} or lengths == {5, 6, 7, 8, 9, 10}
    assert fitted(NullText("n", "short", "human"), ids[:100], codec, (150, 300)) is None
