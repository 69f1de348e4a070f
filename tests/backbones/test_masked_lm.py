"""Any local masked language model of the BERT family is a backbone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.backbones.families import logits_of
from wmbench.bench.build import Builder
from wmbench.cli.app import run_cli
from wmbench.errors import ConfigError
from wmbench.host import Host
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
KINDS = ("albert", "bert", "distilbert", "electra", "modernbert", "roberta")
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
    for kind in KINDS:
        directory = tmp_path_factory.mktemp(kind)
        size = write_tokenizer(directory, kind)
        config = {
            "albert": lambda size=size: transformers.AlbertConfig(
                vocab_size=size, embedding_size=16, max_position_embeddings=96, **SMALL
            ),
            "electra": lambda size=size: transformers.ElectraConfig(
                vocab_size=size, embedding_size=16, max_position_embeddings=96, **SMALL
            ),
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


@pytest.mark.parametrize("kind", KINDS)
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


def test_a_directory_as_the_first_ones_were_published(masked_lms: dict[str, Path], tmp_path: Path) -> None:
    """Words in vocab.txt, norms called gamma and beta, position ids as whole numbers, parts that are not needed."""
    directory = tmp_path / "bert"
    directory.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(masked_lms["bert"] / name, directory)
    (directory / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", *WORDS]))
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = {
        name.replace(ending, old.get(ending, ending)): tensor
        for name, tensor in load_file(directory / "model.safetensors").items()
        for ending in [".".join(name.split(".")[-2:])]
    }
    extra = {"bert.embeddings.position_ids": torch.arange(96)[None], "bert.pooler.dense.bias": torch.zeros(32)}
    save_file({**tensors, **extra, "cls.seq_relationship.bias": torch.zeros(2)}, directory / "model.safetensors")
    old_one, new_one = load(directory), load(masked_lms["bert"])
    prompt = "the river rises."
    assert old_one.codec.encode_prompt(prompt) == new_one.codec.encode_prompt(prompt)
    rows = [Row(Sample("s", prompt), new_one.codec.encode_prompt(prompt), 9, new_one.mask_id, SampleRandom(0, "s"))]
    assert torch.equal(logits_of(Engine(old_one), rows)[0], logits_of(Engine(new_one), rows)[0])


def test_a_model_without_its_head_is_refused(masked_lms: dict[str, Path], tmp_path: Path) -> None:
    import transformers

    directory = Path(shutil.copytree(masked_lms["bert"], tmp_path / "bert"))
    transformers.AutoModel.from_pretrained(directory).save_pretrained(directory)
    with pytest.raises(ConfigError, match="is missing"):
        load(directory)


def test_what_transformers_cannot_read(masked_lms: dict[str, Path], tmp_path: Path) -> None:
    """A setting of the wrong kind, and a tokenizer whose only file is damaged."""
    directory = Path(shutil.copytree(masked_lms["roberta"], tmp_path / "roberta"))
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "hidden_size": "wide"}))
    with pytest.raises(ConfigError, match="cannot be loaded") as caught:
        load(directory)
    assert "hidden_size" in str(caught.value.why)
    (directory / "config.json").write_text(json.dumps({**config, "model_type": "xlm-roberta"}))
    (directory / "tokenizer.json").unlink()
    (directory / "sentencepiece.bpe.model").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match="tokenizer cannot be read") as caught:
        load(directory)
    assert caught.value.why
    assert caught.value.hint


def test_models_check(masked_lms: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["models", "check", "--device", "cpu", "-D", "max_new_tokens=30", "--json"]
    assert run_cli([*arguments, f"masked-lm:{masked_lms['bert']}"]) == 0, capsys.readouterr().err
    report = json.loads(capsys.readouterr().out)
    assert report["checks"]["padding"] < 1e-4
    assert report["ids"]["mask"]["token"] == "[MASK]"
    directory = Path(shutil.copytree(masked_lms["bert"], tmp_path / "bert"))
    tensors = load_file(directory / "model.safetensors")
    tensors["bert.embeddings.LayerNorm.bias"][3] = torch.nan
    save_file(tensors, directory / "model.safetensors")
    assert run_cli([*arguments, f"masked-lm:{directory}"]) == 4
    assert "LayerNorm.bias holds values that are not numbers" in capsys.readouterr().err


def test_attacks_load_one_by_its_directory(masked_lms: dict[str, Path]) -> None:
    builder = Builder(Host.discover())
    by_name = builder.backbone_by_name(f"masked-lm:{masked_lms['bert']}")
    assert by_name.name == builder.backbone_by_name(str(masked_lms["bert"])).name == load(masked_lms["bert"]).name


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
