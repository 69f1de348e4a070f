"""The runtime's own plugin: tiny random backbones, and prompts that need no download."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wmbench import hookimpl
from wmbench.types import BackboneEntry, DatasetInfo

if TYPE_CHECKING:
    from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig

_TINY_CONFIG = "wmbench.runtime.backbones.tiny:TinyConfig"
_SHORT = {"max_new_tokens": 32, "block_length": 8}
_HF = "wmbench.runtime.backbones.hf"
_MASKED_LMS = ("albert", "bert", "camembert", "distilbert", "electra", "modernbert", "roberta", "xlm-roberta")
# How the DenMark paper decodes without a watermark; docs/real-models.md has the settings of the authors' own loops.
_ANSWER = {"max_new_tokens": 300, "temperature": 0.5}
_LLADA = {**_ANSWER, "schedule": "block", "block_length": 25, "positions": "random"}
_DREAM = {**_ANSWER, "schedule": "origin", "steps": 300, "eps": 1e-3}


@hookimpl
def register_backbones() -> list[BackboneEntry]:
    return [
        BackboneEntry(
            "tiny",
            "random transformer with full attention, for tests and dry runs: it writes nonsense",
            "wmbench.runtime.backbones.tiny:TinyBackbone",
            _TINY_CONFIG,
            decoding=_SHORT,
        ),
        BackboneEntry(
            "tiny-block",
            "random transformer with block-causal attention and a prefix cache, for tests",
            "wmbench.runtime.plugin:tiny_block",
            _TINY_CONFIG,
            decoding=_SHORT,
        ),
        _published("dream-7b", "Dream-v0-Instruct-7B, full attention", "DreamSettings", _DREAM, "Dream"),
        _published("llada-1.5", "LLaDA-1.5 (8B), full attention", "Llada15Settings", _LLADA),
        _published("llada-8b", "LLaDA-8B-Instruct, full attention", "Llada8bSettings", _LLADA, "llada"),
        _published(
            "llada2.0-mini",
            "LLaDA2.0-mini (16B, 1.4B active), block-causal with a prefix cache",
            "Llada2Settings",
            _LLADA,
            "llada2_moe",
        ),
        _published(
            "masked-lm:",
            "a local masked language model: masked-lm:<directory> (BERT, RoBERTa, DistilBERT, ModernBERT)",
            "MaskedLmSettings",
            {"block_length": 25},
            *_MASKED_LMS,
        ),
    ]


def _published(name: str, summary: str, settings: str, decoding: Mapping[str, Any], *model_types: str) -> BackboneEntry:
    return BackboneEntry(
        name,
        summary,
        f"{_HF}.backbone:load_backbone",
        f"{_HF}.settings:{settings}",
        codec=f"{_HF}.codec:codec_of",
        decoding=decoding,
        model_types=model_types,
    )


def tiny_block(config: TinyConfig) -> TinyBackbone:
    from wmbench.runtime.backbones.tiny import TinyBackbone

    return TinyBackbone(config.model_copy(update={"attention": "block"}))


@hookimpl
def register_commands() -> list[tuple[str, str, str]]:
    return [
        (
            "analyse fpr",
            "wmbench.cli.fpr:fpr",
            "false positives on passages of your own, such as human text, over keys",
        ),
        ("analyse null", "wmbench.cli.null_law:null", "check analytic p-values on texts without a mark, and say why"),
        ("analyse side-by-side", "wmbench.cli.side_by_side:side_by_side", "what several runs answered"),
    ]


@hookimpl
def register_datasets() -> list[DatasetInfo]:
    return [
        DatasetInfo("toy", "20 word-salad prompts for the tiny backbones", "wmbench.bench.prompts:toy_prompts"),
        DatasetInfo("text:", "one prompt: text:<prompt>", "wmbench.bench.prompts:text_prompt"),
        DatasetInfo("jsonl:", "prompts from a file: jsonl:<path>", "wmbench.bench.prompts:jsonl_prompts"),
        DatasetInfo(
            "texts:",
            "null texts from a file: texts:<path> (.jsonl or .jsonl.gz)",
            "wmbench.bench.null_files:file_nulls",
            kind="nulls",
            source="wmbench.bench.null_files:null_file",
        ),
        *_paper_data(),
    ]


def _paper_data() -> list[DatasetInfo]:
    """What the paper measures on: from $WMBENCH_DATA, else from its public source."""
    module = "wmbench.bench.published"
    return [
        DatasetInfo("finance_qa", "WaterBench: 200 money questions", f"{module}:finance_qa"),
        DatasetInfo("alpacafarm", "WaterBench: 805 instructions", f"{module}:alpacafarm"),
        DatasetInfo("longform_qa", "WaterBench: 200 questions that ask for long answers", f"{module}:longform_qa"),
        *(
            DatasetInfo(name, summary, f"{module}:c4_nulls", kind="nulls", source=f"{module}:c4_file")
            for name, summary in (
                ("c4", "C4 RealNewsLike, one crop per document"),
                ("c4:", "the same from a file: c4:<path>"),
            )
        ),
    ]
