"""The contract of a scheme. Subclass it, name what your plugin registers, and run pytest:

    class TestMine(SchemeContract):
        info = my_package.register_schemes()[0]
        settings = {"strength": 2.0}

The tests of generation are here, those of detection in `scoring.py`. Every test takes a backbone and runs on each of
`attentions`; the toy backbones have 61 words and random weights, so a scheme has much entropy to hide in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from wmbench.errors import WmbenchError
from wmbench.host import load_attribute
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.settings import Decoding
from wmbench.testing.harness import SHORT, run_scheme, undocumented_settings
from wmbench.testing.scoring import ScoringContract
from wmbench.testing.toys import backbone_named, toy_key
from wmbench.types import Generation


class SchemeContract(ScoringContract):
    """What every scheme must keep. Class attributes describe the scheme; the limits may be set, with a reason."""

    attentions: ClassVar[tuple[str, ...]] = ("full", "block")
    """Backbones to test on: `full` and `block` attention."""
    decodings: ClassVar[Mapping[str, Decoding]] = {
        "random positions": SHORT,
        "confident positions": SHORT.model_copy(update={"positions": "low_confidence", "tokens_per_step": 4}),
        "Bernoulli time": SHORT.model_copy(update={"schedule": "origin", "tokens_per_step": None, "steps": 6}),
    }
    """Decoding settings under which batches must not matter."""

    plugin_files: ClassVar[tuple[str, ...]] = ()
    """Files, as given with --plugin, that another process has to load before it can build the scheme."""

    @pytest.fixture(params=["full", "block"])
    def backbone(self, request: pytest.FixtureRequest) -> Any:
        if request.param not in self.attentions:
            pytest.skip(f"not for {request.param} attention")
        return request.getfixturevalue(f"tiny_{request.param}_backbone")

    # --- registration ------------------------------------------------------------------------------------------

    def test_is_described(self) -> None:
        assert self.info.alg_id, "alg_id names what is computed; every result carries it"
        assert self.info.summary, "the summary is the line in `wmbench ls`"
        assert "\n" not in self.info.summary, "the summary is one line in `wmbench ls`"
        if self.info.config is not None:
            config = load_attribute(self.info.config)
            assert issubclass(config, BaseModel), "the configuration is a pydantic model"
            assert undocumented_settings(config) == [], "every setting has a description"
            assert self._named_settings() <= set(config.model_fields), "a setting that is named does not exist"
        assert not self.info.decoding_only & self.info.detection_only, "a setting cannot be both"
        features = self.info.feature_settings or frozenset()
        assert not self.info.decoding_only & features, "features do not depend on a setting of decoding only"
        assert not self.info.feature_family or features, "a family of features names the settings they depend on"

    def _named_settings(self) -> frozenset[str]:
        """Settings of the scheme that its description speaks of."""
        axes = {name for sweep in self.info.sweeps.values() for axis in sweep for name in axis.split(",")}
        swept = frozenset(name for name in axes if not name.startswith("decoding."))
        features = self.info.feature_settings or frozenset()
        return self.info.decoding_only | self.info.detection_only | features | self.info.approximate | swept

    # --- generation --------------------------------------------------------------------------------------------

    def test_is_deterministic(self, backbone: Backbone) -> None:
        """The same scheme object, used twice: it must neither draw from a global generator nor change."""
        scheme = self.make(backbone)
        first = run_scheme(scheme, backbone, self.samples(4))
        assert first == run_scheme(scheme, backbone, self.samples(4))

    def test_depends_on_the_seed(self, backbone: Backbone) -> None:
        """Randomness comes from the step's uniforms. (Not checked at temperature 0, where nothing is random.)"""
        scheme = self.make(backbone)
        one, other = (run_scheme(scheme, backbone, self.samples(4), seed=seed) for seed in (0, 1))
        assert _tokens(one) != _tokens(other), "another run seed gave the same texts"

    def test_batch_size_does_not_matter(self, backbone: Backbone) -> None:
        """Tokens, and the forwards a sample pays for, at batch size 1, 3 and 8."""
        for name, decoding in self.decodings.items():
            runs = [
                run_scheme(self.make(backbone, decoding=decoding), backbone, self.samples(8), decoding, batch_size=size)
                for size in (1, 3, 8)
            ]
            assert _tokens(runs[0]) == _tokens(runs[1]) == _tokens(runs[2]), name
            assert _costs(runs[0]) == _costs(runs[1]) == _costs(runs[2]), name

    def test_restart_does_not_matter(self) -> None:
        """The last samples of an interrupted run, in another process with another hash seed: the same tokens."""
        name = self.attentions[0]
        backbone, samples = backbone_named(name), self.samples(5)
        before = run_scheme(self.make(backbone), backbone, samples)
        task = {
            "info": {"factory": self.info.factory, "config": self.info.config},
            "settings": dict(self.settings),
            "plugins": list(self.plugin_files),
            "backbone": name,
            "key": "contract" if self.key_use == "secret" else None,
            "samples": [asdict(sample) for sample in samples[3:]],
        }
        paths = os.pathsep.join(path or "." for path in sys.path)
        result = subprocess.run(
            [sys.executable, "-P", "-m", "wmbench.testing.restart"],  # -P: files that lie around here do not count
            input=json.dumps(task),
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "12345"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout) == [list(ids) for ids in _tokens(before[3:])]

    def test_fills_every_mask_with_allowed_ids(self, backbone: Backbone) -> None:
        for eos in ("continue", "ban"):
            decoding = SHORT.model_copy(update={"eos": eos})
            banned = {*backbone.banned_ids, *(backbone.eos_ids if eos == "ban" else ())}
            for generation in run_scheme(self.make(backbone, decoding=decoding), backbone, self.samples(6), decoding):
                assert len(generation.token_ids) == decoding.max_new_tokens
                assert not banned & set(generation.token_ids), "a banned id (the mask is one) was emitted"

    def test_stops_at_the_end_of_text(self, backbone: Backbone) -> None:
        decoding = SHORT.model_copy(update={"eos": "stop", "max_new_tokens": 40})
        for generation in run_scheme(self.make(backbone, decoding=decoding), backbone, self.samples(8), decoding):
            ids = generation.token_ids
            assert not backbone.eos_ids & set(ids[:-1]), "text goes on behind its end"
            assert len(ids) == decoding.max_new_tokens or ids[-1] in backbone.eos_ids

    # --- the key, when marking ---------------------------------------------------------------------------------

    def test_key_decides_the_tokens(self, backbone: Backbone) -> None:
        """Secret: another key writes another text. Otherwise the key changes nothing."""
        one, other = (
            run_scheme(self.make(backbone, toy_key(label)), backbone, self.samples(6)) for label in ("one", "other")
        )
        if self.key_use == "secret":
            assert _tokens(one) != _tokens(other), "another key gave the same texts: is the key used?"
        else:
            assert _tokens(one) == _tokens(other), f"key_use is {self.key_use!r}, yet the key changes the text"

    def test_never_unmarked_in_silence(self, backbone: Backbone) -> None:
        """A scheme that needs a key and has none refuses, where the scheme is built or at its first step."""
        if self.key_use != "secret":
            pytest.skip("needs no key")
        with pytest.raises(WmbenchError):
            run_scheme(self.make(backbone, key=None), backbone, self.samples(1))

    def test_marks_change_the_text(self, backbone: Backbone) -> None:
        if self.key_use == "none":
            pytest.skip("leaves no mark")
        clean = self.clean_generations(backbone, 6)
        assert _tokens(clean) != _tokens(run_scheme(self.make(backbone), backbone, self.samples(6)))


def _tokens(generations: list[Generation]) -> list[tuple[int, ...]]:
    return [generation.token_ids for generation in generations]


def _costs(generations: list[Generation]) -> list[Any]:
    return [generation.cost for generation in generations]
