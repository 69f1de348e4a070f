"""The one document behind every form of a report: each shows what is in it and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field

from wmbench.bench.textset import UNATTACKED
from wmbench.report.rates import Family, LengthBin, Part, Rate, Tpr, WrongKeys
from wmbench.types import Evidence

SCHEMA_VERSION: Final = 2
UNHARMED: Final = frozenset({UNATTACKED, "identity"})
"""What is no attack, or the control that changes nothing: not counted where attacks are summed up."""
Rule = Literal["threshold", "split", "interpolated"]
"""Where the threshold lies: docs/statistics.md."""
RULES: Final[tuple[Rule, ...]] = ("threshold", "split", "interpolated")
TARGETS: Final = ("0.005", "0.01", "0.05")
"""False-positive rates, named as in metrics.json."""


class Cell(Part):
    """One scheme under one attack."""

    attack: str
    strength: float | None = None
    curve: str | None = None
    """The attack and the setting that is its strength, such as `delete: ratio`: cells of one curve differ in nothing
    else. Null: it has no strength."""
    n: int = 0
    failed: int = 0
    auc: Rate | None = None
    detected: Rate | None = None
    """Share with p <= alpha."""
    tpr: dict[str, Tpr] = Field(default_factory=dict)
    """By false-positive rate."""
    paper: dict[str, float] = Field(default_factory=dict)
    """What the paper reports for the same scheme, model, prompts and attack: `auc`, or a false-positive rate -> TPR."""
    roc: list[tuple[float, float]] = Field(default_factory=list)
    """(FPR, TPR), ascending, up to an FPR of 0.1: the highest TPR at every attained FPR."""
    by_length: list[LengthBin] = Field(default_factory=list)

    def rate(self, target: str, rule: Rule = "threshold") -> Rate | None:
        """None: out of reach. Where no threshold can be placed, a line between two of them says nothing either."""
        tpr = self.tpr.get(target, Tpr())
        if rule == "interpolated":
            return tpr.interpolated_interval if tpr.threshold else None
        return tpr.threshold if rule == "threshold" else tpr.split


class Cost(Part):
    """What one generated token costs, with intervals over samples."""

    tokens: int
    """Generated tokens that the figures are averaged over."""
    forward_tokens: Rate | None = None
    """Positions sent through the model."""
    forward_rows: Rate | None = None
    """Canvases sent through the model."""
    head_rows: Rate | None = None
    """Positions sent through the LM head."""
    steps: Rate | None = None
    forward_tokens_ratio: Rate | None = None
    """To clean decoding."""
    forward_rows_ratio: Rate | None = None
    seconds: float | None = None
    """Of the machine that ran it, over all its invocations."""


class TokensToDetect(Part):
    """How long a text must be."""

    estimate: float | None = None
    """Median of the fewest tokens with p <= alpha; null: half of the texts are never detected."""
    low: float | None = None
    high: float | None = None
    censored: bool = False
    """The interval's upper end lies beyond the longest measured length, which `high` gives."""
    why: str = ""
    never: Rate | None = None
    """Share of texts that no measured length is enough for."""
    detected_after: dict[str, Rate] = Field(default_factory=dict)
    """Share with p <= alpha by number of tokens."""


class NullSet(Part):
    """The null texts that calibrated a run."""

    digest: str
    """Of everything that determines them: equal digests, equal texts."""
    identity: dict[str, Any]


class Piece(NamedTuple):
    """A span of a text; its contribution to the statistic (positive speaks for the watermark; null: the span has no
    part in it); and a label. In JSON a list of these three: there may be one for every token of every text."""

    text: str
    weight: float | None = None
    label: str = ""

    @classmethod
    def of(cls, text: str, evidence: Evidence | None) -> Piece:
        """Four digits of the weight are more than anybody sees."""
        return cls(text, float(f"{evidence.weight:.4g}"), evidence.label) if evidence else cls(text)


class Passage(Part):
    """One text: clean, marked, or marked and attacked."""

    kind: str
    """`clean`, `marked`, or the attack's name."""
    p: float | None = None
    score: float | None = None
    detected: bool | None = None
    view: str = ""
    error: str | None = None
    """Why there is no text."""
    pieces: list[Piece] = Field(default_factory=list)
    """The text in order; one piece without weight when there is no evidence to show."""


class Example(Part):
    """The texts of one prompt."""

    id: str
    prompt: str
    passages: list[Passage]


class RunReport(Part):
    """One scheme on one backbone and one set of prompts."""

    name: str
    """The run's folder, without the path."""
    scheme: str
    """With a number behind it where a report has several runs of one scheme."""
    base_scheme: str = ""
    """The same without the number."""
    alg_id: str = ""
    caveat: str = ""
    """What the scheme's author wants said wherever it is named."""
    backbone: str
    dataset: str
    key_id: str | None = None
    key_use: str = "secret"
    """`secret`, `fixed` (a published constant: anybody can find and forge the mark) or `none` (no mark)."""
    alpha: float | None = None
    is_control: bool = False
    """Unmarked texts: no detector and no rates, only texts and cost."""
    samples: dict[str, Any] = Field(default_factory=dict)
    """`total`, `kept`, `dropped` by reason."""
    calibration: dict[str, Any] = Field(default_factory=dict)
    nulls: NullSet | None = None
    unresolved: dict[str, dict[str, str]] = Field(default_factory=dict)
    tied: dict[str, dict[str, str]] = Field(default_factory=dict)
    """False-positive rates that the calibration cannot decide: why, and what to do."""
    cells: list[Cell] = Field(default_factory=list)
    families: list[Family] = Field(default_factory=list)
    clean_auc: Rate | None = None
    wrong_keys: WrongKeys = WrongKeys()
    cost: Cost | None = None
    quality: dict[str, Rate] = Field(default_factory=dict)
    """By name; `delta_log_perplexity` is against the clean texts."""
    judge: str | None = None
    """The model that judged quality."""
    no_quality: str = ""
    """Why a quality figure is missing."""
    tokens_to_detect: TokensToDetect | None = None
    more: dict[str, Any] = Field(default_factory=dict)
    """Whatever else metrics.json says."""
    command: str
    """The run's arguments as a command line; the key's source is left out."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Of scheme, decoding, backbone and filters, defaults included."""
    approximations: dict[str, Any] = Field(default_factory=dict)
    """Approximate options that are on, which no published figure has."""
    versions: dict[str, str] = Field(default_factory=dict)
    platform: dict[str, str] = Field(default_factory=dict)
    fingerprints: dict[str, str] = Field(default_factory=dict)
    examples: list[Example] = Field(default_factory=list)
    no_evidence: str = ""
    """Why the texts show no evidence; empty when they do."""

    @property
    def group(self) -> str:
        """Rates compare within a group."""
        return f"{self.backbone} · {self.dataset}"

    @property
    def attacked_families(self) -> list[tuple[Family, Family]]:
        """Families of null texts before and after each attack."""
        before = {family.family: family for family in self.families if family.attack is None}
        return [(before[after.family], after) for after in self.families if after.attack and after.family in before]

    @property
    def met(self) -> list[str]:
        """Attacks whose texts were judged; what is no attack is not among them."""
        return [cell.attack for cell in self.cells if cell.n and cell.attack not in UNHARMED]

    def cell(self, attack: str) -> Cell | None:
        return next((cell for cell in self.cells if cell.attack == attack), None)


class Document(Part):
    """A report on one or more runs."""

    schema_version: int = SCHEMA_VERSION
    wmbench: str
    """The version that wrote the report."""
    notices: list[str] = Field(default_factory=list)
    """What a reader must know before reading any figure."""
    warnings: list[str] = Field(default_factory=list)
    """What makes rows of this report incomparable."""
    runs: list[RunReport]

    @property
    def measured(self) -> list[RunReport]:
        return [run for run in self.runs if not run.is_control]

    @property
    def schemes(self) -> list[str]:
        """In order of appearance, controls last."""
        return list(dict.fromkeys(run.scheme for run in [*self.measured, *self.runs]))

    @property
    def attacks(self) -> list[str]:
        return list(dict.fromkeys(cell.attack for run in self.measured for cell in run.cells))

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(run.group for run in self.measured))

    def shared_attacks(self, group: str) -> list[str]:
        """What means under attack are over."""
        return shared_attacks([run for run in self.measured if run.group == group])


def shared_attacks(runs: Iterable[RunReport]) -> list[str]:
    """Attacks that all of the runs met, apart from runs that met none at all: means over others do not compare."""
    met = [run.met for run in runs if run.met]
    return [attack for attack in met[0] if all(attack in other for other in met)] if met else []


def json_schema() -> dict[str, Any]:
    """Of report.json."""
    schema = Document.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "wmbench report"}
