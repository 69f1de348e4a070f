"""The endpoint in front of a neural model: `mini` writes the answers, and seldom hits the length by the word."""

from __future__ import annotations

from typing import Any

from wmbench_attacks.llm.prompts import Band
from wmbench_attacks.rewriting import pieces_of

from tests.attacks_model.conftest import needs_openai
from tests.attacks_model.helpers import run_attack
from tests.attacks_model.server import Endpoint, limits_in, request_in
from tests.store.helpers import builder

pytestmark = needs_openai


class MiniWriter:
    """Gives the model as many words of the text as are asked for, every second token masked."""

    def __init__(self) -> None:
        self._backbone = builder().backbone_by_name("mini")

    def __call__(self, prompt: str, number: int) -> str:
        from wmbench.runtime.infill import Canvas, refill

        task, text = request_in(prompt)
        words, limits, codec = text.split(), limits_in(task), self._backbone.codec
        wanted = sum(limits) // 2 if limits else len(words)
        ids = codec.encode(" ".join((2 * words)[:wanted]))
        canvas = Canvas("answer", codec.encode_prompt("Say it again."), ids, range(1, len(ids), 2))
        (answer,) = refill(self._backbone, [canvas], seed=number, tokens_per_step=4)
        return codec.decode(answer)


def test_answers_of_a_model_differ_and_depend_on_the_length(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    endpoint.write = MiniWriter()
    text = " ".join(piece.text for piece in pieces_of(lab_texts[0], "sentence")[:2])
    before, after = len(text.split()), {}
    for name, shares in (("rewrite", None), ("compress", (0.6, 0.7)), ("expand", (1.3, 1.5))):
        (result,) = run_attack(f"llm-document-{name}", {**llm, "workers": 1}, [text])
        assert result.text is not None, result.error
        assert result.text.split() != text.split()
        after[name] = len(result.text.split())
        missed = shares is not None and Band.of(before, *shares).miss(after[name]) > 0
        assert result.details["off_length"] == missed
    assert after["compress"] < after["rewrite"] < after["expand"]
    assert len(endpoint.answered) >= 3
