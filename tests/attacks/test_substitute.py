"""Context-aware substitution, by a BERT directory and by a backbone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from wmbench_attacks.masked_words import BackboneWords, Gap, trimmed, whole_words
from wmbench_attacks.substitute import surrounded

from tests.attacks.helpers import attack, attack_all, toy_context
from wmbench.errors import ConfigError
from wmbench.lab.codec import lab_codec
from wmbench.testing.toys import tiny_backbone, toy_texts
from wmbench.types import AttackInput

WORDS = [
    *("the", "river", "rises", "in", "spring", "and", "floods", "meadows"),
    *("cattle", "move", "uphill", "people", "watch", "water", "fields"),
]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real BERT for masked words, small and untrained, with a vocabulary of words and pieces."""
    transformers = pytest.importorskip("transformers")
    import torch

    folder = tmp_path_factory.mktemp("bert")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, *".,;!?", *WORDS, *(f"##{piece}" for piece in ("s", "ing", "ed"))]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=40)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=40,
    )
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    return folder


def test_a_bert_directory(bert: Path) -> None:
    text = "The river rises in spring, and floods (meadows).\n\nCattle move uphill; people watch!"
    settings = {"model": f"hf:{bert}", "ratio": 0.5, "top_k": 40}
    result = attack("substitute", text, **settings)
    assert result.text is not None
    assert result.details == {"words": 13, "asked": 6, "replaced": 6}
    old, new = text.split(), result.text.split()
    changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
    assert len(changed) == 6
    for before, after in changed:
        assert surrounded(before)[::2] == surrounded(after)[::2], "punctuation stays"
        assert surrounded(after)[1].lower() in WORDS, "whole words only"
        assert before[0].isupper() == after[0].isupper(), "capitals stay"
    assert [c for c in result.text if c == "\n"] == ["\n", "\n"]
    assert attack("substitute", text, **settings) == result
    assert attack("substitute", text, 1, **settings).text != result.text


def test_each_word_is_judged_in_the_original_text(bert: Path) -> None:
    """Replacing one word does not change what the model says about another one."""
    from wmbench_attacks.masked_words import HuggingFaceWords

    model = HuggingFaceWords(str(bert), context=100)
    text = "the river rises in spring"
    whole = attack("substitute", text, model=f"hf:{bert}", ratio=1.0, top_k=40).text
    assert whole is not None
    words = text.split()
    for i, word in enumerate(words):
        gap = Gap(" ".join(words[:i]), " ".join(["", *words[i + 1 :]]))
        guesses = model.guesses([gap], 40)[0]
        assert whole.split()[i] == next(guess for guess in guesses if guess != word)


def test_long_contexts_are_cut_around_the_word(bert: Path) -> None:
    text = " ".join(WORDS[i % len(WORDS)] for i in range(200))
    result = attack("substitute", text, model=f"hf:{bert}", ratio=0.05, top_k=40)
    assert result.details["replaced"] == 10
    assert trimmed([1, 2, 3, 4], [5, 6, 7, 8], 4) == ([3, 4], [5, 6])
    assert trimmed([1], [5, 6, 7, 8], 4) == ([1], [5, 6, 7])
    assert trimmed([1, 2, 3, 4], [5], 4) == ([2, 3, 4], [5])
    assert trimmed([1, 2, 3, 4], [5, 6], 1) == ([], [5])


@pytest.mark.parametrize("attention", ["full", "block"])
def test_a_backbone(attention: str) -> None:
    """It proposes what the model itself finds likeliest with the word masked."""
    backbone = tiny_backbone(attention)  # type: ignore[arg-type]
    context = toy_context()
    context = type(context)(0, backbone.codec, None, lambda name: backbone)
    text = toy_texts([30])[0]
    result = attack_all("substitute", [AttackInput("a", text, "w5 w6")], context, ratio=0.2, top_k=60)[0]
    assert result.text is not None
    words, new = text.split(), result.text.split()
    places = [i for i, pair in enumerate(zip(words, new, strict=True)) if pair[0] != pair[1]]
    assert len(places) == 6 == result.details["replaced"]
    model = BackboneWords(backbone, context=100)
    for i in places:
        gap = Gap(" ".join(words[:i]), " ".join(words[i + 1 :]), "w5 w6")
        assert new[i] == next(guess for guess in model.guesses([gap], 60)[0] if guess != words[i])


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("river,", ("", "river", ",")),
        ("(meadows).", ("(", "meadows", ").")),
        ("don't", ("", "don't", "")),
        ("...", ("...", "", "")),
        ("“Ünder”", ("“", "Ünder", "”")),
    ],
)
def test_punctuation_around_a_word(word: str, parts: tuple[str, str, str]) -> None:
    assert surrounded(word) == parts


def test_pieces_of_words_are_no_guesses() -> None:
    """In a byte-level tokenizer a piece looks like a word; only the space before it tells."""
    codec = lab_codec()
    ids = [codec.id_of(token) for token in ("ig", "Ġno", ".", "Ġsmall", "eep")]
    assert list(whole_words(ids, codec.encode, codec.decode)) == ["no", "small"]


def test_a_missing_model_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no directory"):
        attack("substitute", "some words here", model=f"hf:{tmp_path / 'nowhere'}")


def test_a_damaged_model_and_one_without_its_head_are_refused(bert: Path, tmp_path: Path) -> None:
    """The head of the latter would be made up at random, and another one in every process."""
    from safetensors.torch import load_file, save_file

    headless = Path(shutil.copytree(bert, tmp_path / "headless"))
    weights = load_file(headless / "model.safetensors")
    save_file(
        {name: tensor for name, tensor in weights.items() if not name.startswith("cls.")},
        headless / "model.safetensors",
        {"format": "pt"},
    )
    with pytest.raises(ConfigError, match="not whole") as caught:
        attack("substitute", "the river rises", model=f"hf:{headless}", ratio=1.0)
    assert "cls." in str(caught.value.why)
    damaged = Path(shutil.copytree(bert, tmp_path / "damaged")) / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    with pytest.raises(ConfigError, match="cannot be loaded"):
        attack("substitute", "the river rises", model=f"hf:{damaged.parent}", ratio=1.0)
