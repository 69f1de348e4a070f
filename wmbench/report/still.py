"""A page without a script, for results that need none: a table, charts drawn beforehand, the command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

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
    "mark": {"color": PALETTE[0]},
    "range": {"category": list(PALETTE)},
    "view": {"stroke": None},
}


def still_page(
    *,
    title: str,
    lead: str,
    backbone: str,
    charts: Iterable[Mapping[str, Any]],
    headings: Sequence[str] = (),
    lines: Sequence[Sequence[str]] = (),
    legend: str = "",
    command: str = "",
) -> tuple[str, bool]:
    """The page, and whether it has charts: those need the extra `report`. What is not given is left out."""
    from markupsafe import Markup

    from wmbench import __version__

    drawn = [Markup(svg) for svg in _drawn(charts)]
    page = render(
        "still.html.j2",
        [],
        title=title,
        lead=lead,
        notices=lab_notices([backbone]),
        headings=headings,
        lines=lines,
        legend=legend,
        charts=drawn,
        command=command,
        version=__version__,
    )
    return page, bool(drawn)


def _drawn(charts: Iterable[Mapping[str, Any]]) -> list[str]:
    try:
        from vl_convert import vegalite_to_svg
    except ModuleNotFoundError:
        return []
    return [vegalite_to_svg({**chart, "config": _CONFIG}) for chart in charts]
