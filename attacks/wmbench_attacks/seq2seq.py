"""Paraphrase models on this machine: Parrot, DIPPER (both T5) and Pegasus, from a local directory or the model hub."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from wmbench import hookimpl
from wmbench.types import AttackContext, Attacked, AttackInput
from wmbench_attacks.checkpoints import located, require_checkpoint
from wmbench_attacks.config import AttackConfig
from wmbench_attacks.rewriting import Piece, Said, in_place, pieces_of, put_together, to_say
from wmbench_attacks.sentences import require_splitter

if TYPE_CHECKING:
    from wmbench_attacks.seq2seq_model import Output, Seq2SeqModel

Dtype = Literal["float32", "bfloat16", "float16"]


class Seq2SeqConfig(AttackConfig):
    """The model and how it is run."""

    model: str = Field(min_length=1, description="Local directory, or id on the model hub; safetensors only.")
    tokenizer: str | None = Field(None, description="Directory or id of the tokenizer; null: the model's own.")
    max_input_tokens: int = Field(512, ge=1, description="Longest input; a text with a longer piece fails.")
    max_new_tokens: int = Field(512, ge=1, description="Longest output.")
    cut_off: Literal["fail", "keep"] = Field(
        "fail", description="An output that reaches max_new_tokens: the text fails, or it is kept and counted."
    )
    dtype: Dtype = Field("float32", description="Number format of the weights.")
    batch_size: int | None = Field(
        None, ge=1, exclude=True, description="Pieces side by side; null: 8 on a GPU, 1 elsewhere (bit-exact)."
    )

    def require(self) -> None:
        """Fails when the checkpoint or the sentence splitter is not there."""
        require_checkpoint(self.model)
        require_splitter()
        if self.tokenizer is not None:
            located(self.tokenizer)  # its directory need hold no config.json

    def load(self) -> Seq2SeqModel:
        from wmbench_attacks.seq2seq_model import load_model

        return load_model(self.model, self.tokenizer, self.dtype)


class ParrotConfig(Seq2SeqConfig):
    model: str = Field(
        "prithivida/parrot_paraphraser_on_T5",
        min_length=1,
        description="Local directory, or id on the model hub; safetensors only.",
    )
    prefix: str = Field("paraphrase: ", description="What the model expects before the sentence.")
    candidates: int = Field(
        10,
        ge=1,
        description="Beams, of which the one with the fewest word pairs of the sentence is taken: lexical change.",
    )


class PegasusConfig(Seq2SeqConfig):
    model: str = Field(
        "tuner007/pegasus_paraphrase",
        min_length=1,
        description="Local directory, or id on the model hub; safetensors only.",
    )
    max_new_tokens: int = Field(60, ge=1, description="Longest output.")
    beams: int = Field(10, ge=1, description="Beams; the likeliest is taken.")
    repetition_penalty: float = Field(1.03, gt=0, description="Above 1, words already said become less likely.")


class DipperConfig(Seq2SeqConfig):
    model: str = Field(
        "kalpeshk2011/dipper-paraphraser-xxl",
        min_length=1,
        description="Local directory, or id on the model hub; safetensors only.",
    )
    tokenizer: str | None = Field(
        "google/t5-v1_1-xxl", description="Directory or id of the tokenizer; null: the model's own."
    )
    lexical: int = Field(40, ge=0, le=100, multiple_of=20, description="Lexical diversity: how many words change.")
    order: int = Field(0, ge=0, le=100, multiple_of=20, description="Order diversity: how far words move.")
    window: int = Field(3, ge=1, description="Sentences paraphrased at once.")
    top_p: float = Field(0.75, gt=0, le=1, description="Nucleus of the token draws.")
    temperature: float = Field(1.0, gt=0, description="Temperature of the token draws.")
    attempts: int = Field(3, ge=1, description="Draws of a window until one is complete and not empty.")


class SentenceParaphraser:
    """Says every sentence again by beam search, so equal sentences become equal whatever stands around them."""

    def __init__(self, config: ParrotConfig | PegasusConfig) -> None:
        config.require()  # now, not after the first texts were generated
        self.config = config

    @hookimpl
    def attack(self, texts: Sequence[AttackInput]) -> list[Attacked]:
        documents = [pieces_of(item.text, "sentence") for item in texts]
        wanted = to_say(documents)
        if not wanted:
            return [put_together(pieces, [], {}) for pieces in documents]
        model = self.config.load()
        said = dict(zip(wanted, self._say(model, wanted), strict=True))
        found = [in_place(pieces, said) for pieces in documents]
        return [
            put_together(pieces, results, _details(model, results))
            for pieces, results in zip(documents, found, strict=True)
        ]

    def _say(self, model: Seq2SeqModel, sentences: Sequence[str]) -> list[Paraphrased]:
        config = self.config
        prefix = config.prefix if isinstance(config, ParrotConfig) else ""
        inputs = [model.encode(prefix + sentence, config.max_input_tokens) for sentence in sentences]
        possible = [ids for ids in inputs if ids is not None]
        if isinstance(config, ParrotConfig):
            options: dict[str, Any] = {"num_beams": config.candidates, "num_return_sequences": config.candidates}
        else:
            options = {"num_beams": config.beams, "repetition_penalty": config.repetition_penalty}
        outputs = iter(model.generate(possible, config.max_new_tokens, config.batch_size, **options))
        return [
            _too_long(config) if ids is None else _chosen(next(outputs), sentence, config.cut_off == "keep")
            for ids, sentence in zip(inputs, sentences, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Paraphrased(Said):
    is_cut_off: bool = False


def _chosen(candidates: Sequence[Output], sentence: str, keep_cut_off: bool) -> Paraphrased:
    """The candidate that is least like the sentence; whole ones come first, and among equals the likelier."""
    usable = [output for output in candidates if output.text and (output.is_whole or keep_cut_off)]
    if not usable:
        empty = all(not output.text for output in candidates)
        return Paraphrased(None, "the output is empty" if empty else "the output was cut off at max_new_tokens")
    best = min(usable, key=lambda output: (not output.is_whole, shared_pairs(output.text, sentence)))
    return Paraphrased(best.text, is_cut_off=not best.is_whole)


def shared_pairs(text: str, sentence: str) -> float:
    """Share of the sentence's neighbouring word pairs that are also in the text."""
    pairs, own = _pairs(text), _pairs(sentence)
    return len(pairs & own) / len(own) if own else float(text.casefold() == sentence.casefold())


def _pairs(text: str) -> set[tuple[str, str]]:
    words = text.casefold().split()
    return set(pairwise(words))


# --- DIPPER ------------------------------------------------------------------------------------------------------


@dataclass
class _Document:
    """A text on its way: windows are said again from the first to the last, each after what was said before."""

    item: AttackInput
    pieces: list[Piece]
    said: list[Paraphrased] = field(default_factory=list)

    @cached_property
    def spoken(self) -> list[str]:
        return [piece.text for piece in self.pieces if piece.has_words]

    @property
    def current(self) -> str | None:
        """The next window; None when all are done or one has failed."""
        if self.said and self.said[-1].text is None:
            return None
        return self.spoken[len(self.said)] if len(self.said) < len(self.spoken) else None


class Dipper:
    """Says windows of a few sentences again, with control over how many words change and how far they move."""

    def __init__(self, config: DipperConfig) -> None:
        config.require()
        self.config = config

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        documents = [_Document(item, windows(pieces_of(item.text, "sentence"), self.config.window)) for item in texts]
        if not any(document.current for document in documents):
            return [put_together(document.pieces, [], {}) for document in documents]
        model = self.config.load()
        while waiting := [document for document in documents if document.current]:
            for document, result in zip(waiting, self._next(model, waiting, context.seed), strict=True):
                document.said.append(result)
        return [self._finished(document, model) for document in documents]

    def _finished(self, document: _Document, model: Seq2SeqModel) -> Attacked:
        rest = [Paraphrased(None, "not reached")] * (len(document.spoken) - len(document.said))
        return put_together(document.pieces, [*document.said, *rest], _details(model, document.said))

    def _next(self, model: Seq2SeqModel, documents: Sequence[_Document], seed: int) -> list[Paraphrased]:
        """Every document's current window; those without a usable output are drawn again."""
        config = self.config
        inputs = [self._input(model, document) for document in documents]
        found = [_too_long(config) if ids is None else Paraphrased(None) for ids in inputs]
        open_places = [place for place, ids in enumerate(inputs) if ids is not None]
        for attempt in range(config.attempts):
            uniforms = [self._uniforms(documents[place], attempt, seed) for place in open_places]
            rows = [ids for place in open_places if (ids := inputs[place]) is not None]
            sampling = (uniforms, config.temperature, config.top_p)
            outputs = model.generate(rows, config.max_new_tokens, config.batch_size, sampling=sampling)
            for place, candidates in zip(open_places, outputs, strict=True):
                keep = config.cut_off == "keep" and attempt == config.attempts - 1
                found[place] = _chosen(candidates, documents[place].current or "", keep)
            open_places = [place for place in open_places if found[place].text is None]
            if not open_places:
                break
        return found

    def _input(self, model: Seq2SeqModel, document: _Document) -> list[int] | None:
        """The window behind as much of what was said before as fits; None when not even the window does.

        The model counts similarity where the settings count diversity.
        """
        config = self.config
        codes = f"lexical = {100 - config.lexical}, order = {100 - config.order}"
        before = [result.text or "" for result in document.said]
        for first in range(len(before) + 1):
            parts = [codes, *before[first:], f"<sent> {document.current} </sent>"]
            if (ids := model.encode(" ".join(parts), config.max_input_tokens)) is not None:
                return ids
        return None

    def _uniforms(self, document: _Document, attempt: int, seed: int) -> npt.NDArray[np.float64]:
        """One per token: a pure function of seed, id, window and attempt."""
        place = f"{seed}\x1f{document.item.id}\x1f{len(document.said)}\x1f{attempt}"
        digest = hashlib.sha256(place.encode("utf-8", "surrogatepass")).digest()
        return np.random.default_rng(int.from_bytes(digest, "little")).random(self.config.max_new_tokens)


def windows(pieces: Sequence[Piece], size: int) -> list[Piece]:
    """So many neighbouring sentences as one piece; never across a line break."""
    found: list[Piece] = []
    held: list[Piece] = []
    for piece in pieces:
        held.append(piece)
        if sum(part.has_words for part in held) == size or "\n" in piece.after or piece is pieces[-1]:
            whole = "".join(part.before + part.text + part.after for part in held)
            text = whole.strip()
            start = whole.index(text)
            found.append(Piece(whole[:start], text, whole[start + len(text) :]))
            held = []
    return found


def _too_long(config: Seq2SeqConfig) -> Paraphrased:
    return Paraphrased(None, f"longer than {config.max_input_tokens} tokens, the model's longest input")


def _details(model: Seq2SeqModel, results: Sequence[Paraphrased]) -> dict[str, Any]:
    return {"checkpoint": model.fingerprint, "cut_off": sum(result.is_cut_off for result in results)}
