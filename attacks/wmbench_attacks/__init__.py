"""The built-in attacks, one module per family."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.types import AttackInfo

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
LLM = "wmbench_attacks.llm"
NONUNIFORM = "wmbench_attacks.nonuniform"
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
        AttackInfo(
            name="delete",
            summary="removes words at random",
            factory="wmbench_attacks.words:Delete",
            config="wmbench_attacks.words:DeleteConfig",
            preserves="the order of the other words",
            strength="ratio",
            grid=RATIOS,
        ),
        AttackInfo(
            name="swap",
            summary="swaps neighbouring words",
            factory="wmbench_attacks.words:Swap",
            config="wmbench_attacks.words:SwapConfig",
            preserves="the multiset of words",
            strength="ratio",
            grid=RATIOS,
        ),
        AttackInfo(
            name="substitute",
            summary="replaces words by what a masked language model finds likely in their place",
            factory="wmbench_attacks.substitute:Substitute",
            config="wmbench_attacks.substitute:SubstituteConfig",
            cost="model",
            preserves="sentence structure, number of words",
            strength="ratio",
            grid=RATIOS,
        ),
        AttackInfo(
            name="remask",
            summary="masks tokens again and lets a clean backbone refill them",
            factory="wmbench_attacks.remask:Remask",
            config="wmbench_attacks.remask:RemaskConfig",
            cost="model",
            preserves="the other tokens, number of tokens",
            strength="ratio",
            grid=RATIOS,
        ),
        _nonuniform(
            "alternating", "compresses and expands sentences in turn, by any two rewriters", factory="Alternating"
        ),
        _nonuniform("halves", "compresses the first half of the sentences and expands the second", factory="Halves"),
        _nonuniform(
            "runs",
            "compresses and expands runs of sentences of random length",
            factory="RandomRuns",
            config="RandomRunsConfig",
        ),
        _nonuniform(
            "regions",
            "compresses three regions to 50-60, 60-70 and 70-80% of their words, in random order",
            factory="Regions",
            config="RegionsConfig",
        ),
        AttackInfo(
            name="copy-paste",
            summary="puts passages of the text into unmarked text of the same length",
            factory="wmbench_attacks.excerpt:CopyPaste",
            config="wmbench_attacks.excerpt:CopyPasteConfig",
            preserves="the passages themselves",
            strength="share",
            grid=(0.1, 0.25, 0.5, 0.75),
        ),
        AttackInfo(
            name="crop",
            summary="cuts off the beginning",
            factory="wmbench_attacks.excerpt:Crop",
            config="wmbench_attacks.excerpt:CropConfig",
            preserves="the rest, word by word",
            strength="share",
            grid=(0.1, 0.25, 0.5, 0.75),
        ),
        AttackInfo(
            name="homoglyph",
            summary="exchanges letters for look-alikes of other alphabets; `--normalise` undoes it",
            factory="wmbench_attacks.noise:Homoglyph",
            config="wmbench_attacks.noise:HomoglyphConfig",
            preserves="what the reader sees",
            strength="ratio",
            grid=(0.02, 0.05, 0.1, 0.3),
        ),
        AttackInfo(
            name="whitespace",
            summary="odd and invisible spaces between and inside words; `--normalise` undoes it",
            factory="wmbench_attacks.noise:Whitespace",
            config="wmbench_attacks.noise:WhitespaceConfig",
            preserves="what the reader sees",
            strength="ratio",
            grid=(0.02, 0.05, 0.1, 0.3),
        ),
        *_llm_attacks(),
        AttackInfo(
            name="parrot",
            summary="a T5 paraphraser, sentence by sentence; keeps the beam least like the original",
            factory=f"{SEQ2SEQ}:SentenceParaphraser",
            config=f"{SEQ2SEQ}:ParrotConfig",
            cost="model",
            preserves="meaning",
            strength="candidates",
            grid=(1, 4, 7, 10),
        ),
        AttackInfo(
            name="dipper",
            summary="a T5 paraphraser with lexical and order diversity, three sentences at a time",
            factory=f"{SEQ2SEQ}:Dipper",
            config=f"{SEQ2SEQ}:DipperConfig",
            cost="model",
            preserves="meaning",
            strength="lexical",
            grid=(20, 40, 60, 80),
        ),
        AttackInfo(
            name="pegasus",
            summary="a Pegasus paraphraser, sentence by sentence, by beam search",
            factory=f"{SEQ2SEQ}:SentenceParaphraser",
            config=f"{SEQ2SEQ}:PegasusConfig",
            cost="model",
            preserves="meaning",
        ),
        AttackInfo(
            name="round-trip",
            summary="translates every sentence into another language and back, by an engine on this machine",
            factory="wmbench_attacks.translate:RoundTrip",
            config="wmbench_attacks.translate:RoundTripConfig",
            cost="model",
            preserves="most of the meaning",
        ),
    ]


def _nonuniform(name: str, summary: str, factory: str, config: str = "NonUniformConfig") -> AttackInfo:
    """The rewriters it uses by default know the lab's language only."""
    return AttackInfo(
        f"nonuniform-{name}",
        summary,
        factory=f"{NONUNIFORM}:{factory}",
        config=f"{NONUNIFORM}:{config}",
        cost="model",
        preserves="meaning, as far as its rewriters do",
        backbones=("mini", "mini-full"),
    )


def _llm_attacks() -> list[AttackInfo]:
    described = (
        ("rewrite", "rewrite_sentences", "LlmConfig", "an LLM rewords every sentence"),
        ("compress", "compress_sentences", "LengthConfig", "an LLM shortens every sentence to 60-70% of its words"),
        ("expand", "expand_sentences", "LlmConfig", "an LLM makes every sentence more explicit"),
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
