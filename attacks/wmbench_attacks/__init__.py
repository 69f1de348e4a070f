"""The built-in attacks, one module per family."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.types import AttackInfo

LLM = "wmbench_attacks.llm"
SEQ2SEQ = "wmbench_attacks.seq2seq"


@hookimpl
def register_attacks() -> list[AttackInfo]:
    return [
        AttackInfo(
            name="identity",
            summary="leaves the text as it is: the control of every comparison",
            factory="wmbench_attacks.identity:Identity",
            preserves="everything",
        ),
        *_llm_attacks(),
        AttackInfo(
            name="parrot",
            summary="a T5 paraphraser says every sentence again: of several beams the one least like it",
            factory=f"{SEQ2SEQ}:SentenceParaphraser",
            config=f"{SEQ2SEQ}:ParrotConfig",
            cost="model",
            preserves="meaning",
            strength="candidates",
            grid=(1, 4, 7, 10),
        ),
        AttackInfo(
            name="dipper",
            summary="a T5 paraphraser with lexical and order diversity says three sentences at a time again",
            factory=f"{SEQ2SEQ}:Dipper",
            config=f"{SEQ2SEQ}:DipperConfig",
            cost="model",
            preserves="meaning",
            strength="lexical",
            grid=(20, 40, 60, 80),
        ),
        AttackInfo(
            name="pegasus",
            summary="a Pegasus paraphraser says every sentence again by beam search",
            factory=f"{SEQ2SEQ}:SentenceParaphraser",
            config=f"{SEQ2SEQ}:PegasusConfig",
            cost="model",
            preserves="meaning",
        ),
        AttackInfo(
            name="round-trip",
            summary="every sentence into another language and back, by an engine on this machine",
            factory="wmbench_attacks.translate:RoundTrip",
            config="wmbench_attacks.translate:RoundTripConfig",
            cost="model",
            preserves="most of the meaning",
        ),
    ]


def _llm_attacks() -> list[AttackInfo]:
    described = (
        ("rewrite", "rewrite_sentences", "LlmConfig", "an LLM says every sentence in other words"),
        ("compress", "compress_sentences", "LengthConfig", "an LLM shortens every sentence to 60-70% of its words"),
        ("expand", "expand_sentences", "LlmConfig", "an LLM says every sentence more explicitly"),
        ("translate", "translate_sentences", "TranslateConfig", "an LLM translates every sentence and back"),
        ("document-rewrite", "rewrite_document", "LlmConfig", "an LLM paraphrases the text as a whole"),
        ("document-compress", "compress_document", "LengthConfig", "an LLM shortens the text to 60-70% of its words"),
        ("document-expand", "expand_document", "ExpandConfig", "an LLM expands the text to 130-150% of its words"),
        ("document-translate", "translate_document", "TranslateConfig", "an LLM translates the text and back"),
    )
    return [
        AttackInfo(
            f"llm-{name}",
            summary,
            factory=f"{LLM}.attack:{factory}",
            config=f"{LLM}.config:{config}",
            cost="api",
            preserves="meaning",
        )
        for name, factory, config, summary in described
    ]
