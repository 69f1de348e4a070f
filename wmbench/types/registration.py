"""What plugins register: names, and where to find what they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

KeyUse = Literal["secret", "fixed", "none"]
CostClass = Literal["local", "model", "api"]
Product = Literal["texts", "features", "scores"]
"""What a scheme makes, each from some of its settings."""
EVERYTHING: Final = "everything"
"""What an attack preserves that changes nothing."""


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
    detector: str | None = None
    """Import path of a factory like `factory`, of an object that has the detection hooks only, so that detection does
    not import what decoding needs, such as torch; None: `factory`."""

    def settings_behind(self, product: Product, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Of the scheme's settings those that a product depends on: runs in which they are equal share it."""
        if product == "features" and self.feature_settings is not None:
            return {name: value for name, value in settings.items() if name in self.feature_settings}
        elsewhere = self.detection_only if product == "texts" else self.decoding_only
        return {name: value for name, value in settings.items() if name not in elsewhere}


@dataclass(frozen=True, slots=True)
class AttackInfo(Registered):
    """A text attack. `factory(config)` returns an object with the hookimpl `attack`."""

    cost: CostClass = "local"
    """local: free. model: needs a model on this machine. api: needs a paid or remote endpoint."""
    preserves: str = ""
    """What the attack leaves intact, in a phrase: `meaning`, `the multiset of words`, ...; `everything` for a control
    that changes nothing."""
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
    source: str | None = None
    """Of null texts: import path of `source(argument) -> Path | None`, called before anything is loaded. It refuses an
    argument that cannot work, and returns the file that the texts are read from, which is then part of what they are;
    None: no file. Without it an argument that is the path of a file is that file."""


@dataclass(frozen=True, slots=True)
class EncoderInfo(Registered):
    """A sentence encoder. `factory(argument) -> Encoder`."""

    dimension: int | None = None
