"""The page of a sweep: the points with their settings and intervals, and charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmbench.bench.sweep_view import LEGEND, charts, table_of_points
from wmbench.report.still import still_page


def sweep_page(result: Mapping[str, Any], command: str) -> tuple[str, bool]:
    """The page, and whether it has charts: those need the extra `report`."""
    headings, lines = table_of_points(result)
    return still_page(
        title=f"{result['scheme']}: {result['sweep']}",
        lead=f"{len(result['points'])} points on {result['backbone']}.",
        backbone=result["backbone"],
        charts=charts(result),
        headings=headings,
        lines=lines,
        legend=LEGEND,
        command=command,
    )
