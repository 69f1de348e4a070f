"""The page, without a browser: one file, escaped, under a policy."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from tests.report.made_up import ATTACKS, BIDI, HOSTILE, SCHEMES
from wmbench.bench.measure import FEW_TEXTS
from wmbench.report import page as page_module
from wmbench.report import render
from wmbench.report.document import Document, Passage, Piece, TokensToDetect
from wmbench.report.evidence import shades, visible
from wmbench.report.notes import told_apart, warnings
from wmbench.report.page import JudgedText, _shown_texts, evidence_page, html_page
from wmbench.report.rates import KeyRate, LikeLengthRate, WrongKeys
from wmbench.types import Evidence

pytest.importorskip("altair", reason="charts need the extra `report`")
pytest.importorskip("vl_convert", reason="charts need the extra `report`")


class Elements(HTMLParser):
    """Start tags with their attributes, and the content of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self._inside: str | None = None
        self.feed(page)

    @property
    def policy(self) -> str:
        (found,) = [a["content"] for _, a in self.tags if a.get("http-equiv") == "Content-Security-Policy"]
        assert found is not None
        return found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.raw:
            self._inside = tag
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.raw[self._inside][-1] += data


@pytest.fixture(scope="module")
def html(document: Document) -> str:
    return html_page(document)


def digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def test_one_file_that_loads_nothing_under_a_strict_policy(html: str) -> None:
    found = Elements(html)
    assert [tag for tag, _ in found.tags].count("script") == 3  # data, chart library, the page's own
    loaded = [a.get("src") or a.get("href") for tag, a in found.tags if tag in ("script", "link", "img", "iframe")]
    assert [address for address in loaded if address and address != "data:,"] == []
    policy = found.policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for content in [*found.raw["script"][1:], *found.raw["style"]]:
        assert digest(content) in policy
    assert all(not name.startswith("on") and name != "style" for _, a in found.tags for name in a)


def test_hostile_text_stays_text(html: str) -> None:
    assert "<script>document" not in html
    assert "img" not in [tag for tag, _ in Elements(html).tags]
    assert HOSTILE not in html
    assert "\\u003cscript\\u003edocument.title" in html
    for character in BIDI:
        assert ord(character) < 128 or character not in html
    assert "U+202E" in html
    html.encode()  # no lone surrogate is left


def test_the_table_shows_every_cell_with_its_interval(html: str, document: Document) -> None:
    body = html[html.index("<tbody>") : html.index("</tbody>")]
    assert body.count("<tr ") == len(SCHEMES) * len(ATTACKS)
    rate = document.measured[0].cells[1].rate("0.01")
    assert rate is not None
    shown = f"<b>{100 * rate.estimate:.1f}</b> <small>[{100 * rate.low:.1f}, {100 * rate.high:.1f}]</small>"
    assert shown in body
    for scheme in SCHEMES:
        assert f'data-scheme="{scheme}"' in body


def test_false_positives_before_and_after_each_attack(html: str, document: Document) -> None:
    table = html[html.index('id="fpr"') : html.index('id="charts"')]
    assert table.count("<tr>") == 1 + len(SCHEMES)  # one attack on one family
    (before, after), *others = document.measured[0].attacked_families
    assert (before.family, before.attack, after.family, after.attack, others) == ("lab", None, "lab", "lab-rewrite", [])
    assert f"{before.n} → {after.n}" in table
    rates = [before.fpr["0.01"], after.fpr["0.01"]]
    shown = [
        f"<b>{100 * r.estimate:.2f}</b> <small>[{100 * r.low:.2f}, {100 * r.high:.2f}]</small>" for r in rates if r
    ]
    assert "<br>→ ".join(shown) in table
    spared = [run.model_copy(update={"families": run.families[:2]}) for run in document.runs]
    assert 'id="fpr"' not in html_page(document.model_copy(update={"runs": spared}))


def test_the_controls_name_what_they_are_compared_with(document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both AUCs of clean texts under wrong keys, or why one of them is missing."""
    monkeypatch.setattr(page_module, "has_chart_library", lambda: False)  # the charts are not looked at
    run = document.measured[0]
    everything = KeyRate(estimate=0.441, low=0.431, high=0.451)
    alike = LikeLengthRate(estimate=0.497, low=0.487, high=0.507, percent=5, texts=59, unmatched=1, nulls=(90, 110))
    none = LikeLengthRate(percent=5, texts=0, unmatched=60, nulls=(0, 0), why="too few are there")
    shown = {}
    for name, found in (("some", alike), ("none", none)):
        wrong = WrongKeys(n=25, samples_auc=everything, clean_auc=everything, clean_auc_like_length=found)
        runs = [run.model_copy(update={"wrong_keys": wrong})]
        shown[name] = document.model_copy(update={"runs": runs})
    page = re.sub(r"<[^>]+>", "", html_page(shown["some"]))
    assert "of clean texts 0.441 [0.431, 0.451] (0.497 [0.487, 0.507] against null texts of like length" in page
    assert "59 texts, 1 left out" in page
    assert "(like length: n/a, too few are there)" in html_page(shown["none"])
    assert "| 0.50 / 0.44 |" in render(shown["some"], "md")
    assert "| n/a / 0.44 |" in render(shown["none"], "md")
    assert "| n/a |" in render(document, "md")


def test_means_under_attack_are_over_what_all_runs_met(document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    from wmbench.report.charts import charts

    monkeypatch.setattr(page_module, "has_chart_library", lambda: False)  # the charts are asked for apart
    assert f"<h1>{len(SCHEMES)} watermarks under {len(ATTACKS) - 1} attacks on mini</h1>" in html_page(document)
    first, second, third, *others = document.measured
    met = {run.name: [c for c in run.cells if c.attack in ("unattacked", "crop", "lab-expand")] for run in others}
    met |= {first.name: first.cells, second.name: second.cells[:1], third.name: third.cells[:-1]}  # all but crop
    runs = [run.model_copy(update={"cells": met[run.name]}) for run in document.measured]
    mixed = document.model_copy(update={"runs": runs})
    (warning,) = warnings(runs)
    assert warning.startswith("mini · finance: the runs met different attacks. ")
    assert warning.endswith(f"what all met: lab-expand; {second.scheme} met no attack.")
    page = re.sub(r"<[^>]+>", " ", html_page(mixed))
    assert f"{len(SCHEMES)} watermarks under up to {len(ATTACKS) - 1} attacks" in page
    assert page.count("mean TPR at 1% FPR under lab-expand") == len(SCHEMES) - 1
    assert page.count("met no attack ") == 1
    only = next(cell.rate("0.01") for cell in first.cells if cell.attack == "lab-expand")
    assert only is not None
    quality = next(chart for chart in charts(mixed) if chart.name == "quality")
    assert quality.spec is not None
    (rows,) = quality.spec["datasets"].values()
    assert rows[0]["tpr"] == only.estimate
    alone = mixed.model_copy(update={"runs": [runs[2], runs[3].model_copy(update={"cells": others[0].cells[-1:]})]})
    assert alone.shared_attacks("mini · finance") == []
    assert re.sub(r"<[^>]+>", " ", html_page(alone)).count("TPR at 1% FPR, unattacked") == 2


def test_an_interval_that_was_cut_off_says_so(document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "has_chart_library", lambda: False)
    run = document.measured[0]
    assert "or more]" not in html_page(document)
    needed = TokensToDetect(estimate=200, low=150, high=300, censored=True)
    page = html_page(document.model_copy(update={"runs": [run.model_copy(update={"tokens_to_detect": needed})]}))
    assert "<b>200</b> <small>[150, 300 or more]</small>" in page
    assert "beyond the longest length" in page


def test_runs_of_one_scheme_are_one_watermark(document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "has_chart_library", lambda: False)
    run = document.measured[0]
    runs, _ = told_apart([run, run])
    assert f"The watermark {run.scheme} under" in html_page(document.model_copy(update={"runs": runs}))


def test_few_texts_are_named_below_the_table(document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "has_chart_library", lambda: False)
    run = document.measured[0]
    few = run.model_copy(update={"cells": [run.cells[0].model_copy(update={"n": 9})]})
    assert FEW_TEXTS not in html_page(document)
    assert FEW_TEXTS in html_page(document.model_copy(update={"runs": [few]}))


def test_which_texts_are_shown_is_said_in_words(document: Document) -> None:
    run = document.measured[0]  # three of sixty

    def shown(*kept: int) -> str:
        return _shown_texts([run.model_copy(update={"samples": {"kept": number}}) for number in kept])

    assert shown(3, 3) == "all prompts"
    assert shown(60, 60) == "the first 3 of 60 prompts"
    assert shown(60, 8) == "the first 3 prompts (of 8 to 60)"


def test_paper_and_out_of_reach_are_shown(document: Document) -> None:
    run = document.measured[0]
    cell = run.cells[0]
    blind = {**cell.tpr, "0.005": cell.tpr["0.005"].model_copy(update={"threshold": None, "split": None})}
    changed = cell.model_copy(update={"paper": {"0.01": 0.9967, "auc": 0.9996}, "tpr": blind})
    update = {"cells": [changed], "unresolved": {"0.005": {"why": "too few", "hint": "take more"}}}
    page = html_page(document.model_copy(update={"runs": [run.model_copy(update=update)]}))
    assert "paper 99.7" in page
    assert "paper 0.9996" in page
    assert ">n/a</span>" in page
    assert "too few; take more" in page


def test_warnings_and_notices_come_first(document: Document) -> None:
    page = html_page(document.model_copy(update={"warnings": ["Different null sets: <b>mind</b>"]}))
    top = page[: page.index('id="summary"')]
    assert "Different null sets: &lt;b&gt;mind&lt;/b&gt;" in top
    assert "not figures on LLaDA-8B" in top


def test_without_the_chart_library_the_page_says_so(document: Document, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "has_chart_library", lambda: False)
    page = html_page(document)
    assert "wmbench[report]" in page
    assert len(page) < 500_000
    assert page.count("<script") == 2


def test_judged_texts_need_no_script() -> None:
    pieces = [Piece(text=HOSTILE, weight=-2.0, label='"><i>'), Piece(text=BIDI), Piece(text="more", weight=4.0)]
    judged = JudgedText(
        "a<b>.txt", 0.004, True, 0.01, "empirical", "25", ["short"], Passage(kind="text", pieces=pieces)
    )
    page = evidence_page([judged], "denmark", "denmark, key 0123456789ab, calibrated on 9 texts of <i>mine</i>")
    assert "<script" not in page
    assert "script-src 'none'" in Elements(page).policy
    assert 'class="shade--2"' in page
    assert 'class="shade-5"' in page
    assert "&lt;script&gt;document.title" in page
    assert "watermark found in 1 of 1 text" in page
    assert "a&lt;b&gt;.txt" in page
    assert "calibrated on 9 texts of &lt;i&gt;mine&lt;/i&gt;" in page


def test_a_piece_is_a_short_list_in_json(document: Document) -> None:
    """There may be one for every token: names of fields and seventeen digits would be most of the file."""
    assert Piece.of("word", Evidence(0, 1, 1 / 3, "unit 2")) == ("word", 0.3333, "unit 2")
    assert Piece.of("word", None) == ("word", None, "")
    passage = Passage(kind="marked", pieces=[Piece("a", 1.5, "unit 0"), Piece("b")])
    assert passage.model_dump_json().endswith('"pieces":[["a",1.5,"unit 0"],["b",null,""]]}')
    assert Passage.model_validate_json(passage.model_dump_json()) == passage


def test_what_is_invisible_is_named() -> None:
    assert visible("a\n\tb\u202ec\x00\u200b\ud800") == "a\n\tb⟨U+202E⟩c⟨U+0000⟩⟨U+200B⟩⟨U+D800⟩"
    family = "\N{MAN}\u200d\N{WOMAN}"
    assert visible(family) == family
    assert shades([None, 2.0, -4.0, 0.0]) == [None, 2, -5, 0]
    assert shades([]) == []
