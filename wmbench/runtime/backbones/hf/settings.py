"""Settings of the published backbones. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field


def _path(*default: str) -> Any:
    """`argument` is what stands behind the colon of a registered name."""
    return Field(
        *(default or (...,)),
        min_length=1,
        validation_alias=AliasChoices("path", "argument"),
        description="Local directory, or a hub id such as GSAI-ML/LLaDA-8B-Instruct.",
    )


class CheckpointSettings(BaseModel):
    """Where a checkpoint is, and how it is run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = _path()
    revision: str | None = Field(None, description="Revision of a hub id; None: its main branch.")
    device: str = Field(
        "auto", description="auto: cuda if there is one, else cpu; cpu, cuda, cuda:1, ...; split: over all GPUs."
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="auto: bfloat16 on a GPU, float32 on a CPU."
    )
    prompt: Literal["chat", "shipped", "plain"] = Field(
        "chat",
        description="chat: the family's published layout; shipped: the directory's own template (needs jinja2); "
        "plain: the prompt as it is (--no-chat-template).",
    )
    question: str = Field(
        "{prompt}",
        pattern=r"^[^{}]*\{prompt\}[^{}]*$",
        description="Fixed words around every prompt, inside the layout: `Answer in detail: {prompt}`.",
    )
    max_length: int | None = Field(None, ge=1, description="Longest canvas; None: what the model was made for.")
    compile: bool = Field(False, description="torch.compile the trunk: the first steps are slow, later ones faster.")


class Llada8bSettings(CheckpointSettings):
    """Settings of `llada-8b`."""

    path: str = _path("GSAI-ML/LLaDA-8B-Instruct")


class Llada15Settings(CheckpointSettings):
    """Settings of `llada-1.5`."""

    path: str = _path("GSAI-ML/LLaDA-1.5")


class DreamSettings(CheckpointSettings):
    """Settings of `dream-7b`."""

    path: str = _path("Dream-org/Dream-v0-Instruct-7B")


class Llada2Settings(CheckpointSettings):
    """Settings of `llada2.0-mini`."""

    path: str = _path("inclusionAI/LLaDA2.0-mini")
    attention: Literal["block", "reference"] = Field(
        "block",
        description="block: causal across blocks counted from the first prompt token, as trained; reference: the "
        "prompt and all earlier units are one block, as in the code of the DenMark authors.",
    )
    attention_block: int | None = Field(None, ge=1, description="Tokens per attention block; None: 32 (reference: 25).")

    @property
    def block_length(self) -> int:
        return self.attention_block or (32 if self.attention == "block" else 25)


class MaskedLmSettings(CheckpointSettings):
    """Settings of `masked-lm:<directory>`."""
