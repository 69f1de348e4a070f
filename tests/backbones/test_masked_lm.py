"""Any local masked language model of the BERT family is a backbone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.backbones.families import logits_of
from wmbench.errors import ConfigError
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.hf.backbone import load_backbone
from wmbench.runtime.backbones.hf.settings import MaskedLmSettings
from wmbench.runtime.engine import Engine
from wmbench.runtime.randomness import SampleRandom
from wmbench.runtime.row import Row
from wmbench.testing import BackboneContract
from wmbench.types import Sample

_PLAIN = "the river rises in spring save a little every month please one two of three words somewhat longer prompt"
WORDS = [*_PLAIN.split(), "eight"]
SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}


def write_tokenizer(directory: Path, kind: str) -> int:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    if kind == "roberta":
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocab = {token: i for i, token in enumerate([*special, ".", ",", *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token=special[3] if kind == "roberta" else "[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=True)
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(directory / "tokenizer.json"))
    return len(vocab)


@pytest.fixture(scope="session")
def masked_lms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import transformers

    made = {}
    for kind in ("bert", "roberta", "distilbert", "modernbert"):
        directory = tmp_path_factory.mktemp(kind)
        size = write_tokenizer(directory, kind)
        config = {
            "bert": lambda size=size: transformers.BertConfig(vocab_size=size, max_position_embeddings=96, **SMALL),
            "roberta": lambda size=size: transformers.RobertaConfig(
                vocab_size=size, max_position_embeddings=98, **SMALL
            ),
            "distilbert": lambda size=size: transformers.DistilBertConfig(
                vocab_size=size, dim=32, n_layers=2, n_heads=2, hidden_dim=48, max_position_embeddings=96
            ),
            "modernbert": lambda size=size: transformers.ModernBertConfig(
                vocab_size=size, max_position_embeddings=96, local_attention=8, global_attn_every_n_layers=2,
                pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3, **SMALL,
            ),
        }[kind]()  # fmt: skip
        torch.manual_seed(3)
        model = transformers.AutoModelForMaskedLM.from_config(config)
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(directory)
        made[kind] = directory
    return made


def load(directory: Path) -> Backbone:
    return load_backbone(MaskedLmSettings(path=str(directory), device="cpu"))


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "modernbert"])
def test_logits_equal_the_model_called_by_itself(kind: str, masked_lms: dict[str, Path]) -> None:
    """Rows of different lengths in one batch, against each row alone without padding, mask or positions."""
    import transformers

    backbone = load(masked_lms[kind])
    rows = [
        Row(
            Sample(str(n), ""),
            backbone.codec.encode_prompt(" ".join(WORDS[:n])),
            21,
            backbone.mask_id,
            SampleRandom(0, "s"),
        )
        for n in (2, 9, 17)
    ]
    model = transformers.AutoModelForMaskedLM.from_pretrained(masked_lms[kind])
    engine = Engine(backbone)
    for row, found in zip(rows, logits_of(engine, rows), strict=True):
        with torch.no_grad():
            expected = model.eval()(torch.from_numpy(row.canvas.copy())[None]).logits[0, row.start :]
        allowed = torch.from_numpy(engine.allowed)
        torch.testing.assert_close(found[:, allowed], expected[:, allowed], rtol=1e-5, atol=1e-5)


def test_a_model_without_its_head_is_refused(masked_lms: dict[str, Path], tmp_path: Path) -> None:
    import shutil

    import transformers

    directory = Path(shutil.copytree(masked_lms["bert"], tmp_path / "bert"))
    transformers.AutoModel.from_pretrained(directory).save_pretrained(directory)
    with pytest.raises(ConfigError, match="is missing"):
        load(directory)


def test_canvases_end_where_positions_end(masked_lms: dict[str, Path]) -> None:
    assert load(masked_lms["bert"]).max_length == 96
    assert load(masked_lms["roberta"]).max_length == 96  # two positions are taken by padding


class TestBert(BackboneContract):
    texts = ("the river rises in spring.", "save a little every month, please", "")

    @pytest.fixture(autouse=True)
    def _made(self, masked_lms: dict[str, Path]) -> None:
        self.backbone = load(masked_lms["bert"])

    def make_backbone(self) -> Backbone:
        return self.backbone


del BackboneContract  # pytest would collect it
