"""Prompt datasets: `toy`, `text:<prompt>` and `jsonl:<path>`. A factory takes (argument, limit)."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wmbench.bench.json_rows import json_rows
from wmbench.errors import ConfigError
from wmbench.runtime.prompting import fitting_prompt
from wmbench.types import Sample

if TYPE_CHECKING:
    from wmbench.runtime.backbone import Backbone
    from wmbench.runtime.settings import Decoding

TOY_PROMPTS: Final = 20
_TOY_WORDS: Final = (
    "amber",
    "basin",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "harbor",
    "inlet",
    "juniper",
    "kelp",
)
_EXPECTED: Final = 'each line is an object such as {"prompt": "...", "id": "..."}'


def toy_prompts(argument: str, limit: int | None) -> list[Sample]:
    """Word salad for the tiny backbones: always the same prompts, of different lengths."""
    salad = random.Random(0)
    prompts = [" ".join(salad.choices(_TOY_WORDS, k=4 + index % 7)) for index in range(TOY_PROMPTS)]
    return [Sample(f"toy-{i:04d}", prompt, "toy", i) for i, prompt in enumerate(prompts[:limit])]


def text_prompt(argument: str, limit: int | None) -> list[Sample]:
    """The argument itself is the one prompt."""
    return [Sample("text-0000", argument, "text", 0)]


def jsonl_prompts(argument: str, limit: int | None) -> list[Sample]:
    """A file of JSON objects with a `prompt`, optionally an `id`; other fields are kept as `meta`."""
    path = Path(argument).expanduser()
    samples: list[Sample] = []
    lines_by_id: dict[str, int] = {}
    for number, fields in json_rows(path, _EXPECTED, limit, is_kept=True):
        sample = _sample(fields, len(samples), f"{path}:{number}")
        if (first := lines_by_id.setdefault(sample.id, number)) != number:
            raise ConfigError(f"prompt id {sample.id!r} is used twice", where=f"{path}:{first} and {number}")
        samples.append(sample)
    if not samples:
        raise ConfigError("the prompt file holds no prompt", where=str(path))
    return samples


def _sample(fields: Mapping[str, Any], index: int, where: str) -> Sample:
    prompt = fields.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        why = "`prompt` is missing, empty or not a string"
        raise ConfigError("a line of the prompt file has no prompt", where=where, why=why, hint=_EXPECTED)
    identity = fields.get("id", f"jsonl-{index:04d}")
    if not isinstance(identity, (str, int)) or isinstance(identity, bool) or identity == "":
        raise ConfigError("a prompt id is neither text nor a number", where=where, hint=_EXPECTED)
    meta = {name: value for name, value in fields.items() if name not in ("prompt", "id")}
    return Sample(str(identity), prompt, "jsonl", index, meta)


def require_room(samples: Sequence[Sample], backbone: Backbone, decoding: Decoding) -> None:
    """Refuse a prompt that does not fit before the first one is answered."""
    distinct: dict[str, Sample] = {}
    for sample in samples:
        distinct.setdefault(sample.prompt, sample)
    for sample in distinct.values():
        fitting_prompt(sample, backbone, decoding)


def prompts_hash(samples: Sequence[Sample]) -> str:
    """Identity of a prompt list: ids and prompts, in order."""
    digest = hashlib.blake2b(digest_size=8)
    for sample in samples:
        digest.update(json.dumps([sample.id, sample.prompt]).encode() + b"\n")
    return digest.hexdigest()
