"""The page in a real browser with the network off: no complaint, and everything a reader does works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Page, browser, chromium
from tests.report.made_up import ATTACKS, HOSTILE, SCHEMES, STRENGTHS
from wmbench.report.document import Document
from wmbench.report.html import has_chart_library
from wmbench.report.page import html_page

pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="no Chromium: apt-get install chromium"),
    pytest.mark.skipif(not has_chart_library(), reason="charts need the extra `report`"),
]
DRAWN = "document.documentElement.dataset.charts === 'drawn'"
SHOWN = "[...document.querySelectorAll('#results tbody tr')].filter(row => !row.hidden)"


@pytest.fixture(scope="module")
def page(document: Document, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    file: Path = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(html_page(document), encoding="utf-8")
    program = chromium()
    assert program is not None
    with browser(program) as found:
        found.open(file.as_uri())
        found.wait(DRAWN)
        yield found
        assert found.problems == []
        assert set(found.requests) == {file.as_uri()}


def choose(page: Page, selector: str, value: str) -> None:
    page.value(
        f"(() => {{ const field = document.querySelector({selector!r}); field.value = {value!r};"
        "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_charts_are_drawn_and_nothing_is_complained_about(page: Page) -> None:
    drawn = page.value(
        "[...document.querySelectorAll('[data-chart] svg')].map(svg => svg.querySelectorAll('path').length)"
    )
    assert len(drawn) == 7
    assert all(count > 5 for count in drawn)
    assert page.value("document.title").endswith("wmbench")  # the hostile text did not change it
    assert page.problems == []


def test_a_strength_curve_has_a_dot_for_every_scheme_and_strength(page: Page) -> None:
    chart = "document.querySelector('[data-chart=strength] svg')"
    dots = f"{chart}.querySelectorAll('.mark-symbol.role-mark path').length"
    assert page.value(dots) == len(SCHEMES) * len(STRENGTHS)
    assert page.value(f"{chart}.querySelectorAll('.mark-line path').length") == len(SCHEMES)


def test_the_robustness_chart_names_every_scheme_and_attack(page: Page) -> None:
    labels = "document.querySelectorAll('[data-chart=robustness] svg .role-axis-label text')"
    shown = page.value(f"[...{labels}].filter(label => label.getAttribute('opacity') !== '0').map(l => l.textContent)")
    assert sorted(shown) == sorted([*SCHEMES, *ATTACKS])


def test_sorting(page: Page) -> None:
    values = f"{SHOWN}.map(row => Number(row.querySelector('[data-key=\"0.01\"]').dataset.threshold))"
    page.value("document.querySelector('button[data-sort=\"0.01\"]').click()")
    best_first = page.value(values)
    assert best_first == sorted(best_first, reverse=True)
    header = "document.querySelector('button[data-sort=\"0.01\"]').closest('th').getAttribute('aria-sort')"
    assert page.value(header) == "descending"
    page.value("document.querySelector('button[data-sort=\"0.01\"]').click()")
    assert page.value(values) == best_first[::-1] or page.value(values) == sorted(best_first)
    choose(page, "#filters [name=sort]", "scheme")
    names = page.value(f"{SHOWN}.map(row => row.dataset.scheme)")
    assert names == sorted(names)


def test_filtering(page: Page) -> None:
    choose(page, "#filters [name=scheme]", "umr")
    assert page.value(f"{SHOWN}.map(row => row.dataset.scheme)") == ["umr"] * len(ATTACKS)
    choose(page, "#filters [name=search]", "EXPAND")
    assert page.value(f"{SHOWN}.map(row => row.dataset.attack)") == ["lab-expand"]
    assert page.value("document.querySelector('#count').value") == f"1 of {len(SCHEMES) * len(ATTACKS)} rows"
    choose(page, "#filters [name=search]", "")
    choose(page, "#filters [name=scheme]", "")
    assert page.value(f"{SHOWN}.length") == len(SCHEMES) * len(ATTACKS)


def test_threshold_rules_take_turns(page: Page) -> None:
    visible = (
        "['threshold', 'split', 'interpolated'].map(rule => "
        "getComputedStyle(document.querySelector('td .' + rule)).display !== 'none')"
    )
    assert page.value(visible) == [True, False, False]
    page.value("document.querySelector('#filters [value=split]').click()")
    assert page.value(visible) == [False, True, False]
    page.value("document.querySelector('#filters [value=interpolated]').click()")
    assert page.value(visible) == [False, False, True]
    page.value("document.querySelector('button[data-sort=\"0.005\"]').click()")
    sorted_by = f"{SHOWN}.map(row => Number(row.querySelector('[data-key=\"0.005\"]').dataset.interpolated))"
    assert page.value(sorted_by) == sorted(page.value(sorted_by), reverse=True)
    page.value("document.querySelector('#filters [value=threshold]').click()")


def test_drill_down_to_a_text_with_its_evidence(page: Page) -> None:
    page.value("document.querySelector('tr[data-scheme=umr][data-attack=lab-expand] [data-texts]').click()")
    titles = page.value("[...document.querySelectorAll('#passages h3')].map(title => title.textContent)")
    assert titles == ["Clean", "Marked", "Attacked: lab-expand"]
    assert page.value("document.querySelector('#prompt').textContent") == HOSTILE
    marked = "document.querySelectorAll('#passages .text')[1]"
    assert HOSTILE in page.value(f"{marked}.textContent")
    assert page.value(f"{marked}.querySelectorAll('script, img').length") == 0
    assert page.value(f"{marked}.querySelectorAll('mark').length") > 3
    strongest = f"getComputedStyle({marked}.querySelector('mark.shade-5, mark.shade--5')).backgroundColor"
    assert page.value(strongest).startswith("rgba(")
    choose(page, "#chooser [name=example]", "1")
    assert "U+202E" in page.value(f"{marked}.textContent")
    choose(page, "#chooser [name=run]", "0")
    assert "part 1" not in page.value("document.querySelector('#prompt').textContent")


def test_dark_and_narrow(page: Page) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.value(background)
    page.value("delete document.documentElement.dataset.charts; document.querySelector('#theme').click()")
    page.wait(DRAWN)
    assert page.value(background) != light
    page.send("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=True)
    choose(page, "#chooser [name=example]", "1")  # a word of 3,000 letters
    assert page.value("document.documentElement.scrollWidth") <= 390
    assert page.value("getComputedStyle(document.querySelector('#results tbody tr')).display") == "grid"
    assert page.value("(nav => nav.scrollWidth <= nav.clientWidth)(document.querySelector('nav'))")
