"""The LLM attacks: cut a text into pieces, have each rewritten, put the text together again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from wmbench import hookimpl
from wmbench.types import AttackContext, Attacked, AttackInput
from wmbench_attacks.llm import prompts
from wmbench_attacks.llm.budget import Ledger
from wmbench_attacks.llm.cache import AnswerCache
from wmbench_attacks.llm.config import ExpandConfig, LengthConfig, LlmConfig, TranslateConfig
from wmbench_attacks.llm.endpoint import Endpoint, require_client
from wmbench_attacks.llm.prompts import Band, Prompt
from wmbench_attacks.llm.rewriter import Rewriter, Rewritten, Step, Unusable
from wmbench_attacks.rewriting import Unit, in_place, is_unicode, pieces_of, put_together, to_say
from wmbench_attacks.sentences import require_splitter


class LlmAttack:
    """Rewrites every sentence by itself, or the document as a whole."""

    def __init__(self, name: str, config: LlmConfig, unit: Unit, steps: Sequence[Step]) -> None:
        require_client(config)  # now, not after the first texts were generated
        if unit == "sentence":
            require_splitter()
        self.name = name
        self.config = config
        self.unit = unit
        self.steps = tuple(steps)

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        documents = [pieces_of(item.text, self.unit) for item in texts]
        wanted = to_say(documents)
        said = self._rewrite_all(wanted, context.seed) if wanted else {}
        found = [in_place(pieces, said) for pieces in documents]
        return [
            put_together(pieces, results, self._details(results))
            for pieces, results in zip(documents, found, strict=True)
        ]

    def _rewrite_all(self, pieces: Iterable[str], seed: int) -> dict[str, Rewritten]:
        config, stop = self.config, threading.Event()
        with AnswerCache(config.cache_file) as cache:
            ledger = Ledger(cache, config)
            with (
                Endpoint(config, ledger, stop, lambda: cache.has_answer_of(config.source)) as endpoint,
                ThreadPoolExecutor(config.workers) as pool,
            ):
                rewriter = Rewriter(self.name, config, seed, cache, endpoint)
                futures = {piece: pool.submit(rewriter.rewrite, piece, self.steps) for piece in pieces}
                try:
                    wait(futures.values(), return_when=FIRST_EXCEPTION)
                finally:
                    # After an error or an interrupt: calls under way are finished and kept, no other is begun.
                    stop.set()
                    pool.shutdown(cancel_futures=True)
                for future in futures.values():
                    if not future.cancelled():
                        future.result()  # raises what ended the work
                return {piece: future.result() for piece, future in futures.items()}

    def _details(self, results: Sequence[Rewritten]) -> dict[str, Any]:
        """What it took, for the record; the same whether the answers were paid for now or earlier."""
        return {
            "model": self.config.model,
            "prompts": list(dict.fromkeys(step.prompt.id for step in self.steps)),
            "answers": sum(result.answers for result in results),
            "tokens_in": sum(result.tokens_in for result in results),
            "tokens_out": sum(result.tokens_out for result in results),
            "off_length": sum(result.is_off_length for result in results),
        }


# --- the attacks -------------------------------------------------------------------------------------------------


def rewrite_sentences(config: LlmConfig) -> LlmAttack:
    return LlmAttack("llm-rewrite", config, "sentence", [Step(prompts.REWRITE_SENTENCE, _one_line)])


def compress_sentences(config: LengthConfig) -> LlmAttack:
    return LlmAttack("llm-compress", config, "sentence", [_to_length(prompts.COMPRESS_SENTENCE, config, _one_line)])


def expand_sentences(config: LlmConfig) -> LlmAttack:
    return LlmAttack("llm-expand", config, "sentence", [Step(prompts.EXPAND_SENTENCE, _one_line, growth=4.0)])


def translate_sentences(config: TranslateConfig) -> LlmAttack:
    return LlmAttack("llm-translate", config, "sentence", _round_trip(config))


def rewrite_document(config: LlmConfig) -> LlmAttack:
    return LlmAttack("llm-document-rewrite", config, "document", [Step(prompts.REWRITE_DOCUMENT)])


def compress_document(config: LengthConfig) -> LlmAttack:
    return LlmAttack("llm-document-compress", config, "document", [_to_length(prompts.COMPRESS_DOCUMENT, config)])


def expand_document(config: ExpandConfig) -> LlmAttack:
    return LlmAttack("llm-document-expand", config, "document", [_to_length(prompts.EXPAND_DOCUMENT, config)])


def translate_document(config: TranslateConfig) -> LlmAttack:
    return LlmAttack("llm-document-translate", config, "document", _round_trip(config))


def _to_length(prompt: Prompt, config: LengthConfig, read: Callable[[str], str] = str.strip) -> Step:
    def band(text: str) -> Band:
        return Band.of(len(text.split()), config.shortest, config.longest)

    return Step(prompt, read, band, config.off_length == "closest", growth=1.5 * max(1.0, config.longest))


def _round_trip(config: TranslateConfig) -> list[Step]:
    there = {"source": config.language, "target": config.pivot}
    if config.trip == "one call":
        return [Step(prompts.ROUND_TRIP, _the_way_back, growth=6.0, languages=there)]
    back = {"source": config.pivot, "target": config.language}
    # A translation may have far more bytes, or far fewer, than the text.
    return [Step(prompts.TRANSLATE, growth=4.0, languages=pair) for pair in (there, back)]


def _one_line(answer: str) -> str:
    """A sentence stays in its line."""
    return " ".join(answer.split())


def _the_way_back(answer: str) -> str:
    """The second translation in a JSON object, which models like to fence."""
    inside = answer.removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        found = json.loads(inside)["back"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unusable('the answer is no JSON object with a field "back"') from None
    if not isinstance(found, str) or not found.strip() or not is_unicode(found):
        raise Unusable('the field "back" holds no text')
    return found.strip()
