"""The encoders that ship with wmbench, and the command that trains new ones."""

from __future__ import annotations

from pathlib import Path

from wmbench.hookspecs import hookimpl
from wmbench.types import Encoder, EncoderInfo

MODULE = "wmbench.semantics"
LAB_WEIGHTS = Path(__file__).parent.parent / "lab" / "weights"
COUNTED_PAIRS = 1000
"""Of the untrained encoder: some 20,000 tokens, enough to tell the common ones, which alone lose weight."""


@hookimpl
def register_encoders() -> list[EncoderInfo]:
    return [
        EncoderInfo(
            name="mini",
            summary="embedded lab encoder: token vectors and pooling, no torch, fast enough to scan 40,000 texts",
            factory=f"{MODULE}.plugin:lab_encoder",
            dimension=256,
        ),
        EncoderInfo(
            name="mini-untrained",
            summary="where the training of `mini` began: random token vectors, rare ones weigh more (for comparison)",
            factory=f"{MODULE}.plugin:untrained_lab_encoder",
            dimension=256,
        ),
        EncoderInfo(
            name="mini:",
            summary="small encoder from a directory made by `wmbench train-encoder`",
            factory=f"{MODULE}.plugin:small_encoder",
        ),
        EncoderInfo(
            name="hf:",
            summary="Hugging Face encoder from a local directory or the hub (extra: hf)",
            factory=f"{MODULE}.hf_encoder:from_argument",
        ),
        EncoderInfo(
            name="minilm",
            summary="all-MiniLM-L6-v2 from a registry package, no hub (extra: minilm)",
            factory=f"{MODULE}.hf_encoder:minilm",
            dimension=384,
        ),
    ]


@hookimpl
def register_commands() -> list[tuple[str, str, str]]:
    return [("train-encoder", f"{MODULE}.commands:train_encoder", "train a sentence encoder on paraphrase pairs")]


def lab_encoder(argument: str = "") -> Encoder:
    """The encoder `mini`."""
    from wmbench.semantics.mini_encoder import TOKENIZER_FILE, MiniEncoder

    return MiniEncoder.from_files(LAB_WEIGHTS / "mini-encoder.safetensors", LAB_WEIGHTS / TOKENIZER_FILE)


def untrained_lab_encoder(argument: str = "") -> Encoder:
    """The encoder `mini-untrained`. Frequencies of tokens are counted on the first lab pairs."""
    from wmbench.lab.training.encoder import RECIPE
    from wmbench.lab.training.pairs import pairs
    from wmbench.lab.training.tokenizer import PROMPT_LAYOUT
    from wmbench.semantics.mini_encoder import TOKENIZER_FILE
    from wmbench.semantics.trainable import MiniModule

    model = MiniModule(LAB_WEIGHTS / TOKENIZER_FILE, PROMPT_LAYOUT, seed=RECIPE.seed)
    model.weigh_by_rarity([pair.anchor for pair in pairs(model.codec, COUNTED_PAIRS, RECIPE.seed)])
    return model.as_encoder()


def small_encoder(argument: str) -> Encoder:
    """The encoder `mini:<directory>`."""
    from wmbench.semantics.mini_encoder import MiniEncoder

    return MiniEncoder.from_directory(Path(argument).expanduser())
