"""The tokenizer of a checkpoint, and what its special ids are. Imports neither torch nor (as a rule) transformers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from wmbench.errors import ConfigError
from wmbench.runtime.backbones.hf.directory import Checkpoint

_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen2, and with it Dream, cuts text before byte pairs are merged."""
_NAMED = ("bos", "eos", "pad", "unk", "cls", "sep", "mask")


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids that are no text."""

    mask: int
    mask_source: str
    """Where the mask id was found."""
    ends: frozenset[int]
    every: frozenset[int]


def load_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """tokenizer.json; else vocab.json and merges.txt (as Dream ships them); else whatever transformers can read."""
    directory = checkpoint.directory
    try:
        if (directory / "tokenizer.json").is_file():
            tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        elif checkpoint.model_type == "Dream" and (directory / "vocab.json").is_file():
            tokenizer = _byte_pairs(directory)
        else:
            tokenizer = _through_transformers(directory)
    except ConfigError:
        raise
    except Exception as error:  # the tokenizers library raises plain exceptions
        raise ConfigError(
            "the tokenizer cannot be read",
            where=str(directory),
            why=str(error).splitlines()[0],
            hint="download it again",
        ) from error
    _add_declared_tokens(tokenizer, checkpoint)
    return tokenizer


def _byte_pairs(directory: Path) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE.from_file(str(directory / "vocab.json"), str(directory / "merges.txt")))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_QWEN2_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _through_transformers(directory: Path) -> Tokenizer:
    if not any((directory / name).is_file() for name in ("vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")):
        raise ConfigError(f"{str(directory)!r} holds no tokenizer", why="tokenizer.json is missing")
    try:
        import transformers
    except ImportError as error:
        raise ConfigError("this tokenizer needs the package transformers", hint="pip install 'wmbench[hf]'") from error
    loaded = transformers.AutoTokenizer.from_pretrained(
        str(directory), local_files_only=True, trust_remote_code=False, use_fast=True
    )
    return Tokenizer.from_str(loaded.backend_tokenizer.to_str())


def _add_declared_tokens(tokenizer: Tokenizer, checkpoint: Checkpoint) -> None:
    """Tokens that only tokenizer_config.json declares get the ids it gives them, or the tokenizer is refused."""
    declared = checkpoint.tokenizer_config.get("added_tokens_decoder")
    entries = sorted((int(i), entry) for i, entry in declared.items()) if isinstance(declared, Mapping) else []
    for expected, entry in entries:
        content, special = str(entry["content"]), bool(entry.get("special"))
        shape = {name: bool(entry[name]) for name in ("lstrip", "rstrip", "single_word", "normalized") if name in entry}
        token = AddedToken(content, special=special, **shape)
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
        if (found := tokenizer.token_to_id(content)) != expected:
            raise ConfigError(
                f"the tokenizer gives {content!r} the id {found}, its configuration says {expected}",
                where=str(checkpoint.directory / "tokenizer_config.json"),
                hint="use the tokenizer files as published",
            )


def special_ids(
    checkpoint: Checkpoint, tokenizer: Tokenizer, mask_tokens: Iterable[str], end_tokens: Iterable[str]
) -> SpecialIds:
    """From config.json, then the tokenizer's configuration, then known names; never from numbers written here."""
    config, named = checkpoint.config, _named_tokens(checkpoint, tokenizer)
    mask_candidates = [
        (config.get("mask_token_id"), "config.json"),
        (named.get("mask"), "tokenizer_config.json"),
        *((tokenizer.token_to_id(token), f"the token {token}") for token in mask_tokens),
    ]
    mask, source = next(((i, source) for i, source in mask_candidates if i is not None), (None, ""))
    if not isinstance(mask, int) or isinstance(mask, bool) or tokenizer.id_to_token(mask) is None:
        raise ConfigError(
            "the checkpoint has no mask token" if mask is None else f"mask id {mask!r} is no id of the tokenizer",
            where=str(checkpoint.directory),
            why=f"neither mask_token_id of config.json nor mask_token of the tokenizer nor {', '.join(mask_tokens)}",
            hint="only masked diffusion models and masked language models can be a backbone",
        )
    stated = config.get("eos_token_id")
    ends = {i for i in (stated if isinstance(stated, list) else [stated]) if isinstance(i, int)}
    ends = ends or {i for i in [named.get("eos")] if i is not None}
    ends |= {i for i in map(tokenizer.token_to_id, end_tokens) if i is not None}
    ends = {i for i in ends - {mask} if tokenizer.id_to_token(i) is not None}
    flagged = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    from_config = {config.get(f"{name}_token_id") for name in _NAMED}
    every = {mask, *ends, *flagged, *named.values(), *(i for i in from_config if isinstance(i, int))}
    return SpecialIds(mask, source, frozenset(ends), frozenset(every))


def _named_tokens(checkpoint: Checkpoint, tokenizer: Tokenizer) -> dict[str, int]:
    """Ids of bos_token, eos_token, ... as tokenizer_config.json names them."""
    found = {}
    for name in _NAMED:
        entry: Any = checkpoint.tokenizer_config.get(f"{name}_token")
        content = entry.get("content") if isinstance(entry, Mapping) else entry
        if isinstance(content, str) and (i := tokenizer.token_to_id(content)) is not None:
            found[name] = int(i)
    return found
