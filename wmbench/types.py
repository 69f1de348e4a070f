"""Frozen records that cross hook borders.

Nothing here imports torch: discovery and detection must work without it. Arrays are numpy; model-sized tensors
(logits, hidden states) live in `wmbench.runtime` and never cross a process border.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from wmbench.keys import SecretKey

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.floating[Any]]
AnyArray = npt.NDArray[Any]

KeyUse = Literal["secret", "fixed", "none"]
CostClass = Literal["local", "model", "api"]


# --- what plugins register -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Registered:
    """What every registered thing has. Factories are import paths, so that listing plugins imports no torch."""

    name: str
    """What the user types. A name that ends in ':' takes the rest as its argument, e.g. `jsonl:prompts.jsonl`."""
    summary: str
    """One line for `wmbench ls`."""
    factory: str
    """Import path `package.module:attribute` of the callable that builds the thing."""
    config: str | None = None
    """Import path of the pydantic model of its settings; None when it has no settings."""


@dataclass(frozen=True, slots=True)
class SchemeInfo(Registered):
    """A watermark. `factory(config, SchemeContext)` returns an object whose hookimpls are the run hooks."""

    alg_id: str = ""
    """Stable identity of what is computed, e.g. `org.wmbench.denmark.1`; part of every result."""
    key_use: KeyUse = "secret"
    """secret: depends on the user's key. fixed: a published constant. none: no key at all."""
    status: str = ""
    """A caveat shown wherever the scheme is named, e.g. `port, not verified against the authors' code`."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Published settings by backbone name (or `backbone/dataset`), applied below the user's own."""
    decoding_only: frozenset[str] = frozenset()
    """Settings that decide how texts are made and nothing else: all values share null features and calibrations."""
    detection_only: frozenset[str] = frozenset()
    """Settings that decide how texts are scored and nothing else: changing them decodes nothing again."""
    feature_settings: frozenset[str] | None = None
    """Settings that the hook `features` looks at; None: all but `decoding_only`."""
    feature_family: str = ""
    """Schemes that make the same features of these settings, by the same code of wmbench, name them alike and share
    them."""
    approximate: frozenset[str] = frozenset()
    """Settings that trade exactness for speed when they are on (not None, False or 0); run.json names them."""
    sweeps: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    """Named grids for `wmbench sweep`: by name the axes, each a setting (`decoding.x` for a decoding setting, several
    joined by commas for settings that move together) with its values."""


@dataclass(frozen=True, slots=True)
class AttackInfo(Registered):
    """A text attack. `factory(config)` returns an object with the hookimpl `attack`."""

    cost: CostClass = "local"
    """local: free. model: needs a model on this machine. api: needs a paid or remote endpoint."""
    preserves: str = ""
    """What the attack leaves intact, in a phrase: `meaning`, `the multiset of words`, ..."""
    strength: str | None = None
    """Name of the setting that is the attack's strength; `--attack name:0.3` sets it."""
    grid: tuple[float, ...] = ()
    """Strengths used for strength curves."""
    backbones: tuple[str, ...] = ()
    """Backbones whose texts the attack understands; with others it is left out of the default attacks. Empty: any."""


@dataclass(frozen=True, slots=True)
class BackboneEntry(Registered):
    """A diffusion language model. `factory(config)` returns a `wmbench.runtime.backbone.Backbone`."""

    codec: str | None = None
    """Import path of `factory(config) -> TextCodec`, so that detection needs no model; None: taken from the model."""
    decoding: Mapping[str, Any] = field(default_factory=dict)
    """This model's own decoding settings (schedule, block length, ...), applied below the user's own."""
    model_types: tuple[str, ...] = ()
    """`model_type`s of config.json that it loads: `--backbone <directory>` finds it by them and sets its `path`."""


@dataclass(frozen=True, slots=True)
class DatasetInfo(Registered):
    """Prompts (`factory(argument, limit) -> Sequence[Sample]`) or null texts (`-> Iterator[NullText]`)."""

    kind: Literal["prompts", "nulls"] = "prompts"


@dataclass(frozen=True, slots=True)
class EncoderInfo(Registered):
    """A sentence encoder. `factory(argument) -> Encoder`."""

    dimension: int | None = None


# --- services that plugins are handed --------------------------------------------------------------------------


class TextCodec(Protocol):
    """The tokenizer side of a backbone: all that detection needs."""

    @property
    def size(self) -> int:
        """Number of ids the tokenizer knows. The width of the logits may be larger."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids without text: mask, end of text, padding, turn markers."""

    @property
    def fingerprint(self) -> str:
        """Hash of vocabulary and rules: texts tokenised under another fingerprint are not comparable."""

    def encode(self, text: str) -> list[int]:
        """Ids of plain text, without special tokens."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]: ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special ids dropped."""

    def encode_prompt(self, prompt: str) -> list[int]:
        """Ids of a prompt in the model's own layout (chat template)."""


class Encoder(Protocol):
    """Maps texts to unit vectors."""

    @property
    def dimension(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """[n, dimension], L2-normalised; a row does not depend on its neighbours beyond rounding."""


@dataclass(frozen=True, slots=True)
class SchemeContext:
    """What a scheme is built with. For detection `key` may be None: `score` receives the key."""

    codec: TextCodec
    key: SecretKey | None = None
    load_encoder: Callable[[str], Encoder] | None = None
    """Encoder by registered name; loaded once per process."""
    block_length: int | None = None
    """The decoding block of the run, for schemes whose default unit is the block."""
    max_new_tokens: int = 300


@dataclass(frozen=True, slots=True)
class TextContext:
    """Handed to `features`, `score` and `detect`."""

    alpha: float = 0.01
    evidence: bool = False
    """Ask for per-span evidence; off for bulk scoring."""


AttackFunction = Callable[[Sequence["AttackInput"], "AttackContext"], Sequence["Attacked"]]
"""What an attack does to texts: the hook `attack` as a function."""


@dataclass(frozen=True, slots=True)
class AttackContext:
    """Handed to `attack`."""

    seed: int
    codec: TextCodec
    load_encoder: Callable[[str], Encoder] | None = None
    load_backbone: Callable[[str], Any] | None = None
    """A `Backbone` by registered name, for attackers that use a model; the empty name is the run's own."""
    load_nulls: Callable[[str, int], Iterable[NullText]] | None = None
    """The first so many texts of a registered null set, for attackers that mix in unmarked text."""
    load_attack: Callable[[str, Mapping[str, Any]], AttackFunction] | None = None
    """Another attack by name (as on the command line) and settings, for attackers that build on it."""


# --- generation ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """One prompt to be answered once."""

    id: str
    """Unique in a run; with the run seed it fixes all randomness of the sample."""
    prompt: str
    dataset: str = ""
    index: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Commit:
    """What a denoising step decides: a flat, ragged list of cells to fill, and cells to give back.

    `rows` index the step's rows; `columns` are absolute canvas columns (prompt included).
    """

    rows: IntArray
    columns: IntArray
    tokens: IntArray
    remask_rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    remask_columns: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, cells: Sequence[tuple[int, int, int]] = (), remask: Sequence[tuple[int, int]] = ()) -> Commit:
        """From plain (row, column, token) triples and (row, column) pairs."""
        filled = np.array(cells, dtype=np.int64).reshape(-1, 3)
        given_back = np.array(remask, dtype=np.int64).reshape(-1, 2)
        return cls(filled[:, 0], filled[:, 1], filled[:, 2], given_back[:, 0], given_back[:, 1])


@dataclass(frozen=True, slots=True)
class Cost:
    """What a sample has cost so far. Additive over samples, independent of how they were batched."""

    forward_rows: int = 0
    """Canvases sent through the trunk."""
    forward_tokens: int = 0
    """Positions sent through the trunk, padding not counted."""
    head_rows: int = 0
    """Positions sent through the LM head."""
    steps: int = 0
    """Denoising steps."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished sample."""

    sample: Sample
    text: str
    token_ids: tuple[int, ...]
    """Generated ids, prompt excluded. Never used by detection, which retokenises `text`."""
    cost: Cost


# --- detection -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Features:
    """Key-free features of n texts, packed: rows offsets[i]:offsets[i+1] of `values` belong to text i."""

    offsets: IntArray
    values: AnyArray
    lengths: IntArray
    """Tokens of each text after retokenisation."""

    def __len__(self) -> int:
        return len(self.lengths)

    def of(self, i: int) -> AnyArray:
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    @classmethod
    def pack(cls, parts: Sequence[AnyArray], lengths: Sequence[int]) -> Features:
        offsets = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        values = np.concatenate(parts) if len(parts) else np.empty(0, dtype=np.int64)
        return cls(offsets, values, np.asarray(lengths, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One span of a text and what it contributes to the decision."""

    start: int
    """First token of the span (retokenised text)."""
    end: int
    """One past its last token."""
    weight: float
    """Contribution to the statistic; positive speaks for the watermark."""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Views:
    """Raw statistics of n texts, one column per view (DenMark: one per unit size). Larger = more watermarked."""

    names: tuple[str, ...]
    scores: npt.NDArray[np.float64]
    """[n, views]"""
    evidence: tuple[Mapping[str, tuple[Evidence, ...]], ...] | None = None
    """Per text: evidence by view name, when the context asked for it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one text."""

    p_value: float
    """In (0, 1]; valid under the null the calibration stands for."""
    score: float
    """Ranking score; larger = more watermarked, for every scheme."""
    detected: bool
    """p_value <= alpha."""
    alpha: float
    view: str
    """The view that decided."""
    method: str
    """How p was obtained, e.g. `empirical add-one, Bonferroni over 26 views`."""
    evidence: tuple[Evidence, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


# --- attacks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttackInput:
    """One text to be attacked; randomness depends on (seed, id) alone."""

    id: str
    text: str
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Attacked:
    """One attacked text. A failed item has text None and says why; it is never replaced by the original."""

    text: str | None
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NullText:
    """One unwatermarked text for calibration."""

    id: str
    text: str
    family: str
    """human, lab, clean:<backbone>, ..."""
    document: str = ""
    """Texts cut from one document share it; calibration and held-out sets are split by document."""
    domain: str = ""
