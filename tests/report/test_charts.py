"""What is in the specifications of the charts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.report.made_up import SCHEMES, STRENGTHS
from wmbench.report.document import Document
from wmbench.report.rates import Rate

pytest.importorskip("altair", reason="charts need the extra `report`")


def charts_of(document: Document) -> dict[str, Any]:
    from wmbench.report.charts import charts

    return {chart.name: chart for chart in charts(document)}


def test_strength_curves(document: Document) -> None:
    from wmbench.report.charts import charts

    chart = next(chart for chart in charts(document) if chart.name == "strength")
    assert chart.spec is not None
    (rows,) = chart.spec["datasets"].values()
    found = {(row["scheme"], row["curve"], row["strength"]) for row in rows}
    assert found == {(scheme, "delete: ratio", s) for scheme in SCHEMES for s in STRENGTHS.values()}  # crop has but one
    cell = document.measured[0].cell("delete-0.5")
    row = next(r for r in rows if (r["scheme"], r["strength"], r["metric"]) == ("denmark", 0.5, "TPR at 5% FPR"))
    assert cell is not None
    assert row["estimate"] == cell.tpr["0.05"].threshold.estimate  # type: ignore[union-attr]
    flat = [run.model_copy(update={"cells": [c for c in run.cells if c.curve is None]}) for run in document.runs]
    left = next(c for c in charts(document.model_copy(update={"runs": flat})) if c.name == "strength")
    assert left.spec is None
    assert "delete:grid" in left.caption


def test_who_has_no_point_is_named_and_left_out_of_the_legend(document: Document) -> None:
    first, *others = document.runs
    blind = document.model_copy(
        update={"runs": [first.model_copy(update={"quality": {}, "no_quality": "why"}), *others]}
    )
    chart = charts_of(blind)["quality"]
    assert f"Not shown: {first.scheme} (no log-perplexity against clean texts: why)." in chart.caption
    assert first.scheme not in chart.spec["layer"][0]["encoding"]["color"]["legend"]["values"]


def test_lines_that_coincide_lie_in_each_other(document: Document) -> None:
    width = charts_of(document)["roc"].spec["encoding"]["strokeWidth"]["scale"]
    assert width["type"] == "ordinal"  # any other scale draws between the ends of the range
    assert width["domain"] == document.schemes[: len(SCHEMES)]
    assert width["range"] == sorted(set(width["range"]), reverse=True)


def test_a_wide_interval_does_not_stretch_the_axis(document: Document) -> None:
    wide = Rate(estimate=0.0, low=0.0, high=0.7, n=(3,))
    run = document.measured[0]
    family = run.families[1].model_copy(update={"fpr": dict.fromkeys(("0.005", "0.01", "0.05"), wide)})
    changed = run.model_copy(update={"families": [run.families[0], family]})
    chart = charts_of(document.model_copy(update={"runs": [changed]}))["fpr"]
    assert "goes on beyond the axis" in chart.caption
    (rows,) = chart.spec["datasets"].values()
    cut = [row for row in rows if row["family"] == family.family]
    assert [(row["level"], row["high"]) for row in cut] == [("0.5%", 0.7), ("1%", 0.7), ("5%", 0.7)]
    assert [row["end"] for row in cut][1] < 0.1


def test_false_positives_begin_at_a_level_that_is_within_reach(document: Document) -> None:
    run = document.measured[0]

    def offered(*levels: str) -> tuple[list[str], str]:
        families = [
            family.model_copy(update={"fpr": {level: family.fpr[level] for level in levels}}) for family in run.families
        ]
        few = document.model_copy(update={"runs": [run.model_copy(update={"families": families})]})
        parameters = {one["name"]: one for one in charts_of(few)["fpr"].spec["params"]}
        return parameters["level"]["bind"]["options"], parameters["level"]["value"]

    assert offered("0.005", "0.01", "0.05") == (["0.5%", "1%", "5%"], "1%")
    assert offered("0.05") == (["5%"], "5%")
