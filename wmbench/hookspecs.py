"""Every hook of wmbench: when it is called, with what, and what it returns.

Two layers. *Discovery hooks* are called once per process on every installed plugin; they must be cheap and must not
import torch. *Run hooks* are called on a run-scoped plugin manager that holds exactly one scheme (or one attack) plus
observers: plugins that wrap a hook (`@hookimpl(wrapper=True)`) to time, trace or check it. A hook implementation may
leave out arguments it does not need.

    from wmbench import hookimpl

    @hookimpl
    def register_schemes(): return [SchemeInfo(name="mine", ...)]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from wmbench.detection.calibration import Calibration
    from wmbench.keys import SecretKey
    from wmbench.runtime.step import Step
    from wmbench.types import (
        AttackContext,
        Attacked,
        AttackInfo,
        AttackInput,
        BackboneEntry,
        Commit,
        DatasetInfo,
        EncoderInfo,
        Features,
        Sample,
        SchemeInfo,
        TextContext,
        Verdict,
        Views,
    )

PROJECT = "wmbench"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class DiscoverySpecs:
    """Called once on every installed plugin, before anything else."""

    @hookspec
    def register_schemes(self) -> Sequence[SchemeInfo]:  # type: ignore[empty-body]
        """Watermark schemes this plugin brings."""

    @hookspec
    def register_attacks(self) -> Sequence[AttackInfo]:  # type: ignore[empty-body]
        """Text attacks this plugin brings."""

    @hookspec
    def register_backbones(self) -> Sequence[BackboneEntry]:  # type: ignore[empty-body]
        """Diffusion language models this plugin can load."""

    @hookspec
    def register_datasets(self) -> Sequence[DatasetInfo]:  # type: ignore[empty-body]
        """Prompt sets and null texts this plugin can supply."""

    @hookspec
    def register_encoders(self) -> Sequence[EncoderInfo]:  # type: ignore[empty-body]
        """Sentence encoders this plugin can load."""

    @hookspec
    def register_commands(self) -> Sequence[tuple[str, str, str]]:  # type: ignore[empty-body]
        """Commands to add to `wmbench`: (name, import path of a click command, one-line help)."""


class RunSpecs:
    """Called during a run on its one scheme or attack; the first result that is not None counts."""

    @hookspec(firstresult=True)
    def begin(self, sample: Sample) -> Any:
        """Called once per sample before its first step. Returns the scheme's own state for this sample (or None);
        the runtime keeps it and hands it back as `step.rows[i].state`. Scheme objects themselves stay immutable."""

    @hookspec(firstresult=True)
    def decode_step(self, step: Step) -> Commit:  # type: ignore[empty-body]
        """Called once per denoising step for a batch of rows. Returns which cells to fill and which to re-mask.
        `return step.commit()` is clean decoding."""

    @hookspec(firstresult=True)
    def features(self, texts: Sequence[str], context: TextContext) -> Features:  # type: ignore[empty-body]
        """Called on batches of texts to be scored. Returns key-free features, cached and shared by all keys.
        The host's default is the token ids of the retokenised text."""

    @hookspec(firstresult=True)
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:  # type: ignore[empty-body]
        """Called once per text set and key. A pure function of its arguments and the configuration: no generator,
        no encoder. Returns one row per text and one column per view; larger = more watermarked."""

    @hookspec(firstresult=True)
    def detect(self, views: Views, calibration: Calibration | None, context: TextContext) -> Sequence[Verdict]:  # type: ignore[empty-body]
        """Called with scores and the calibration they are judged by. Returns one verdict per text. The host's default
        is the add-one empirical p per view with Bonferroni over views; override it for an analytic law."""

    @hookspec(firstresult=True)
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> Sequence[Attacked]:  # type: ignore[empty-body]
        """Called on batches of texts to be attacked. Returns one result per text, in order; an item that failed says
        so. Randomness depends on (context.seed, item id) alone."""


DISCOVERY_HOOKS = tuple(name for name in vars(DiscoverySpecs) if name.startswith("register_"))
RUN_HOOKS = ("begin", "decode_step", "features", "score", "detect", "attack")
