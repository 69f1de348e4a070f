"""The page of a sweep: the points with their settings and intervals, charts drawn beforehand, no script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wmbench.bench.sweep_view import LEGEND, charts, table_of_points
from wmbench.report.html import render
from wmbench.report.notes import lab_notices
from wmbench.report.palette import PALETTE

_SOFT: Final = {"labelColor": "currentColor", "titleColor": "currentColor"}
"""The colour of the text around a chart, in the light and in the dark."""
_CONFIG: Final = {
    "background": "transparent",
    "axis": {**_SOFT, "domainColor": "#8888", "tickColor": "#8888", "gridColor": "#8884"},
    "legend": _SOFT,
    "header": _SOFT,
    "range": {"category": list(PALETTE)},
    "view": {"stroke": None},
}


def sweep_page(result: Mapping[str, Any], command: str) -> tuple[str, bool]:
    """The page, and whether it has charts: those need the extra `report`."""
    from markupsafe import Markup

    from wmbench import __version__

    drawn = [Markup(svg) for svg in _drawn(result)]
    headings, lines = table_of_points(result)
    page = render(
        "sweep.html.j2",
        [],
        title=f"{result['scheme']}: {result['sweep']}",
        lead=f"{len(result['points'])} points on {result['backbone']}.",
        notices=lab_notices([result["backbone"]]),
        headings=headings,
        lines=lines,
        legend=LEGEND,
        charts=drawn,
        command=command,
        version=__version__,
    )
    return page, bool(drawn)


def _drawn(result: Mapping[str, Any]) -> list[str]:
    try:
        from vl_convert import vegalite_to_svg
    except ModuleNotFoundError:
        return []
    return [vegalite_to_svg({**chart, "config": _CONFIG}) for chart in charts(result)]
