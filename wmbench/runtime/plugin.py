"""The runtime's own plugin: tiny random backbones, and prompts that need no download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmbench import hookimpl
from wmbench.types import BackboneEntry, DatasetInfo

if TYPE_CHECKING:
    from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig

_TINY_CONFIG = "wmbench.runtime.backbones.tiny:TinyConfig"
_SHORT = {"max_new_tokens": 32, "block_length": 8}


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
    ]


def tiny_block(config: TinyConfig) -> TinyBackbone:
    from wmbench.runtime.backbones.tiny import TinyBackbone

    return TinyBackbone(config.model_copy(update={"attention": "block"}))


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
        ),
    ]


@hookimpl
def register_commands() -> list[tuple[str, str, str]]:
    return [
        ("analyse null", "wmbench.cli.null_law:null", "check analytic p-values on texts without a mark, and say why")
    ]
