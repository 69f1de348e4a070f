"""The tokenizer of a checkpoint, and what its special ids are. Imports neither torch nor (as a rule) transformers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from wmbench.errors import ConfigError
from wmbench.runtime.backbones.hf.directory import NAMED_TOKENS, Checkpoint, read_json

_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen2, and with it Dream, cuts text before byte pairs are merged."""
_AS_PUBLISHED = "use the tokenizer files as published"
_OLDER_FILES = ("vocab.txt", "vocab.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
"""What a tokenizer without tokenizer.json is made of."""


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
            tokenizer = _byte_pairs(checkpoint)
        else:
            tokenizer = _through_transformers(directory)
    except ConfigError:
        raise
    except Exception as error:  # the tokenizers library raises plain exceptions
        raise ConfigError(
            "the tokenizer cannot be read",
            where=str(directory),
            why=next((line for line in str(error).splitlines() if line.strip()), type(error).__name__),
            hint=_AS_PUBLISHED,
        ) from error
    # A tokenizer.json also keeps how it was last called; texts must come out whole, and no longer than they are.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    _add_declared_tokens(tokenizer, checkpoint)
    return tokenizer


def _byte_pairs(checkpoint: Checkpoint) -> Tokenizer:
    """Declared tokens join the vocabulary under their own ids, which need not follow those of the words."""
    directory = checkpoint.directory
    vocabulary, merges = models.BPE.read_file(str(directory / "vocab.json"), str(directory / "merges.txt"))
    vocabulary |= {token.content: i for i, token in _declared_tokens(checkpoint).items()}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
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
    if not any((directory / name).is_file() for name in _OLDER_FILES):
        raise ConfigError(
            f"{str(directory)!r} holds no tokenizer",
            why="tokenizer.json is missing",
            hint="put the model's tokenizer files next to its config.json",
        )
    try:
        import transformers
    except ImportError as error:
        raise ConfigError("this tokenizer needs the package transformers", hint="pip install 'wmbench[hf]'") from error
    loaded = transformers.AutoTokenizer.from_pretrained(
        str(directory), local_files_only=True, trust_remote_code=False, use_fast=True
    )
    return Tokenizer.from_str(loaded.backend_tokenizer.to_str())


def _add_declared_tokens(tokenizer: Tokenizer, checkpoint: Checkpoint) -> None:
    """Tokens that only the small files declare get the ids they are given there, or the tokenizer is refused."""
    for expected, token in sorted(_declared_tokens(checkpoint).items()):
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
        if (found := tokenizer.token_to_id(token.content)) != expected:
            raise ConfigError(
                f"the tokenizer gives {token.content!r} the id {found}, its configuration says {expected}",
                where=str(checkpoint.directory),
                hint=_AS_PUBLISHED,
            )


def _declared_tokens(checkpoint: Checkpoint) -> dict[int, AddedToken]:
    """By id: from tokenizer_config.json, else from added_tokens.json, which says no more than names and ids."""
    declared = checkpoint.tokenizer_config.get("added_tokens_decoder")
    older = checkpoint.directory / "added_tokens.json"
    try:
        if isinstance(declared, Mapping):
            return {int(i): _token(entry) for i, entry in declared.items()}
        if older.is_file():
            return {int(i): _token({"content": content, "special": True}) for content, i in read_json(older).items()}
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            "the tokenizer's list of added tokens is malformed", where=str(checkpoint.directory), hint=_AS_PUBLISHED
        ) from error
    return {}


def _token(entry: Mapping[str, Any]) -> AddedToken:
    shape = {name: bool(entry[name]) for name in ("lstrip", "rstrip", "single_word", "normalized") if name in entry}
    return AddedToken(str(entry["content"]), special=bool(entry.get("special")), **shape)


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
    known = max(checkpoint.logits, 1 + max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1))
    if not isinstance(mask, int) or isinstance(mask, bool) or not 0 <= mask < known:
        raise ConfigError(
            "the checkpoint has no mask token" if mask is None else f"mask id {mask!r} is no id of the model",
            where=str(checkpoint.directory),
            why=f"neither mask_token_id of config.json nor mask_token of the tokenizer nor {', '.join(mask_tokens)}",
            hint="only masked diffusion models and masked language models can be a backbone",
        )
    # Some configurations carry ids that are left from a larger model: they are no ids of this one.
    stated = {name: [i for i in _ids(config.get(f"{name}_token_id")) if 0 <= i < known] for name in NAMED_TOKENS}
    ends = {i for i in stated["eos"] if tokenizer.id_to_token(i) is not None}
    if not ends and "eos" in named:
        ends = {named["eos"]}
    ends |= {i for i in map(tokenizer.token_to_id, end_tokens) if i is not None}
    ends -= {mask}
    flagged = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    every = {mask, *ends, *flagged, *named.values(), *(i for ids in stated.values() for i in ids)}
    return SpecialIds(mask, source, frozenset(ends), frozenset(every))


def _ids(stated: Any) -> list[int]:
    """One id, a list of ids, or none."""
    return [i for i in (stated if isinstance(stated, list) else [stated]) if isinstance(i, int)]


def _named_tokens(checkpoint: Checkpoint, tokenizer: Tokenizer) -> dict[str, int]:
    """Ids of bos_token, eos_token, ..."""
    found = {}
    for name in NAMED_TOKENS:
        entry: Any = checkpoint.named_tokens.get(f"{name}_token")
        content = entry.get("content") if isinstance(entry, Mapping) else entry
        if isinstance(content, str) and (i := tokenizer.token_to_id(content)) is not None:
            found[name] = int(i)
    return found
