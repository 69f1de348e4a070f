"""What can be measured of the lab's models: `mini`, its encoder and its judge. Everything is loaded once."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from wmbench.bench.build import Builder
from wmbench.bench.filters import filter_texts
from wmbench.errors import WmbenchError
from wmbench.host import Host
from wmbench.lab.codec import MASK, PAD, PROMPT_LAYOUT, lab_codec, weights_folder
from wmbench.lab.datasets import CLEAN_BATCH, clean_samples
from wmbench.lab.judge import Judge
from wmbench.lab.language import Topic, language
from wmbench.lab.measures import Figure, at_least, at_most, below, between
from wmbench.lab.paraphrase import paraphrase
from wmbench.lab.parse import coverage, split_sentences
from wmbench.lab.plugin import DECODING
from wmbench.lab.sample import sample
from wmbench.lab.training.backbone import EVALUATION_RATIOS
from wmbench.lab.training.corpus import HELD_OUT_SEEDS, examples
from wmbench.lab.training.judge import held_out_loss
from wmbench.lab.training.objective import Layout, build_batch, masked_loss
from wmbench.lab.training.pairs import pairs
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.mini import MiniBackbone
from wmbench.runtime.backbones.mini_settings import MiniConfig
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Step
from wmbench.semantics.scan_config import ScanConfig
from wmbench.semantics.units import unit_counts
from wmbench.types import Commit, Encoder, Generation

UNIT_WORDS = 25
"""Longest segment the encoder was trained on."""
UNIT_TOKENS = 25
SCANNED_TOKENS = 225
"""Mean length of a null text."""
PROFILE_SEEDS = HELD_OUT_SEEDS[50_000_000:]
"""Documents that stand for a topic; no model was trained or evaluated on them."""
PROFILE_DOCUMENTS = 6
Vectors = npt.NDArray[np.float32]


class ModelMeasures:
    """Figures of the models over `samples` clean outputs of `mini` and `pairs` paraphrase pairs."""

    def __init__(self, samples: int = 200, pairs: int = 1000) -> None:
        self.samples = samples
        self.pairs = pairs

    # --- what is measured --------------------------------------------------------------------------------------

    @cached_property
    def backbone(self) -> MiniBackbone:
        return MiniBackbone(MiniConfig())

    @cached_property
    def encoder(self) -> Encoder:
        return Builder(Host.discover()).encoder("mini")

    @cached_property
    def judge(self) -> Judge:
        return Judge()

    @cached_property
    def outputs(self) -> list[Generation]:
        """Clean answers with the default settings: the first texts of `clean:mini`."""
        generations, self.entropy = self._decoded(self.samples)
        return generations

    def _decoded(self, count: int, **changed: object) -> tuple[list[Generation], float]:
        """Clean answers, and the mean entropy (bits) of the untempered law each token was drawn from."""
        entropies: list[torch.Tensor] = []

        def observed(step: Step) -> Commit:
            entropies.append(torch.special.entr(step.logits().double().softmax(-1)).sum(-1) / math.log(2))
            return step.commit()

        decoding = Decoding.model_validate({**DECODING, **changed})
        engine = make_engine(cast(Backbone, self.backbone), decoding)
        samples = islice(clean_samples("mini"), count)
        generations = list(decode(samples, engine, decoding, observed, batch_size=CLEAN_BATCH))
        return generations, torch.cat(entropies).mean().item()

    # --- mini --------------------------------------------------------------------------------------------------

    def mini_figures(self) -> Iterator[Figure]:
        here = "mini"
        began = time.perf_counter()
        model = self.backbone.model
        yield below(here, "seconds to load", time.perf_counter() - began, 1.0, "s", "torch already imported")
        yield Figure(here, "parameters", sum(p.numel() for p in model.parameters()))
        yield from self._held_out_losses()
        texts = [one.text for one in self.outputs]
        verdicts = filter_texts(texts, self.backbone.codec)
        passed, n = statistics.mean(one.kept for one in verdicts), f"n = {len(texts)}"
        yield at_least(here, "clean outputs that pass the filters", passed, 0.95, "%", n)
        repeated = statistics.mean(one.repetition for one in verdicts)
        yield Figure(here, "repeated 4-grams of a clean output, mean", repeated, "%", note=n)
        known = [coverage(text) for text in texts]
        phrases = statistics.mean(one.fragments for one in known)
        yield at_least(here, "words in phrases the lab language knows", phrases, 0.9, "%", n)
        jumbled = statistics.mean(coverage(_jumbled(text)).fragments for text in texts)
        yield Figure(here, "the same for their words in random order", jumbled, "%", note=n)
        yield Figure(here, "words in recognised sentences", statistics.mean(c.sentences for c in known), "%", note=n)
        trail = "the untempered law, along decoding at temperature "
        yield between(here, "entropy per token", self.entropy, 0.7, 2.5, "bits", trail + "0.5; " + n)
        few = max(1, self.samples // 10)
        free = self._decoded(few, temperature=1.0)[1]
        yield between(here, "entropy per token at temperature 1", free, 0.7, 2.5, "bits", f"{trail}1; n = {few}")
        strewn, entropy = self._decoded(few, block_length=25)
        phrases = statistics.mean(coverage(one.text).fragments for one in strewn)
        yield Figure(here, "words in known phrases, decoded in blocks of 25", phrases, "%", note=f"n = {few}")
        yield Figure(here, "entropy per token, decoded in blocks of 25", entropy, "bits", note=f"n = {few}")
        try:
            yield from self._prompt_matching()
        except WmbenchError as error:
            yield Figure(here, "answers nearest to their own topic of 20", None, note=error.message)

    def _held_out_losses(self) -> Iterator[Figure]:
        codec = lab_codec()
        mask_id, pad_id = codec.id_of(MASK), codec.id_of(PAD)
        held_out = list(islice(examples(codec, HELD_OUT_SEEDS, 300), 16))
        layouts: dict[Layout, str] = {"block": "blocks of 25", "full": "full attention"}
        for layout, label in layouts.items():
            for ratio in EVALUATION_RATIOS:
                rng = np.random.default_rng(0)
                with torch.inference_mode():
                    batches = [
                        build_batch(held_out[i : i + 8], mask_id, pad_id, rng, layout=layout, ratio=ratio)
                        for i in range(0, len(held_out), 8)
                    ]
                    losses = [masked_loss(self.backbone.model, batch, weighted=False).item() for batch in batches]
                name = f"held-out loss, {label}, {ratio:.0%} masked"
                yield Figure("mini", name, statistics.mean(losses), "nats", note=f"n = {len(held_out)} documents")

    def _prompt_matching(self) -> Iterator[Figure]:
        """Is the answer nearer to documents on its own topic than to those on the other 19 of its domain?"""
        topics = language().topics
        profiles = {topic.id: self._profile(topic) for topic in topics.values()}

        def matches(text: str, topic: Topic) -> bool:
            vector = self._mean_vector([text])
            rivals = [one.id for one in topics.values() if one.domain == topic.domain]
            return max(rivals, key=lambda rival: float(profiles[rival] @ vector)) == topic.id

        n = len(self.outputs)
        name = "answers nearest to their own topic of 20"
        hits = statistics.mean(matches(one.text, language().topic(one.sample.prompt)) for one in self.outputs)
        yield at_least("mini", name, hits, 0.9, "%", f"n = {n}")
        fresh = [(sample(topic.id, PROFILE_SEEDS[1000]).text, topic) for topic in topics.values()]
        reference = statistics.mean(matches(text, topic) for text, topic in fresh)
        yield Figure("mini", "the same for lab documents", reference, "%", note=f"n = {len(fresh)}")

    def _profile(self, topic: Topic) -> Vectors:
        return self._mean_vector([sample(topic.id, seed).text for seed in PROFILE_SEEDS[:PROFILE_DOCUMENTS]])

    def _mean_vector(self, texts: list[str]) -> Vectors:
        segments = []
        for words in (text.split() for text in texts):
            segments += [" ".join(words[i : i + UNIT_WORDS]) for i in range(0, len(words), UNIT_WORDS)]
        mean: Vectors = self.encoder.encode(segments).mean(axis=0)
        return mean / np.linalg.norm(mean)

    # --- encoder -----------------------------------------------------------------------------------------------

    def encoder_figures(self) -> Iterator[Figure]:
        from wmbench.semantics.contrastive import embeddings, retrieval
        from wmbench.semantics.trainable import MiniModule

        here, encoder = "encoder", self.encoder
        yield Figure(here, "dimension", encoder.dimension)
        untrained = MiniModule(Path(str(weights_folder() / "tokenizer.json")), PROMPT_LAYOUT)
        segments = pairs(lab_codec(), self.pairs, documents=PROFILE_SEEDS)
        for kind, couples in (
            ("segments", [(one.anchor, one.positive) for one in segments]),
            ("sentences, held-out words included", list(self._sentence_pairs())),
        ):
            anchors, positives = [a for a, _ in couples], [b for _, b in couples]
            n = f"1 in {len(couples):,}"
            before = retrieval(embeddings(untrained, anchors), embeddings(untrained, positives))
            yield Figure(here, f"retrieval of {kind}, before training", before, "%", note=n)
            left, right = encoder.encode(anchors), encoder.encode(positives)
            after = retrieval(left, right)
            yield Figure(here, f"retrieval of {kind}, trained", after, "%", "better than before", after > before, n)
            yield Figure(here, f"cosine of paired {kind}", float((left * right).sum(-1).mean()))
        yield below(here, "cosine of units with one index, two seeds of a prompt", self._unit_cosine(), 0.5)
        name = f"GFLOP to scan a text of {SCANNED_TOKENS} tokens"
        yield at_most(here, name, _scan_operations(*untrained.inner.shape) / 1e9, 0.5, note="all units of all sizes")

    def _sentence_pairs(self) -> Iterator[tuple[str, str]]:
        """Sentences of at most 25 words that no model has seen, each saying something else, and their paraphrases."""
        seen: set[str] = set()
        topics = list(language().topics)
        for number, seed in enumerate(PROFILE_SEEDS[10_000:20_000]):
            for sentence in split_sentences(sample(topics[number % len(topics)], seed).text):
                result = paraphrase(sentence, "rewrite", seed)
                said = result.meaning_before.statements
                if len(sentence.split()) > UNIT_WORDS or len(said) != 1 or said[0].proposition in seen:
                    continue
                seen.add(said[0].proposition)
                yield sentence, result.text
                if len(seen) == self.pairs:
                    return

    def _unit_cosine(self) -> float:
        codec, cosines = lab_codec(), []
        for topic in language().topics.values():
            units = []
            for seed in PROFILE_SEEDS[:2]:
                ids = codec.encode(sample(topic.prompts[0], seed, target_words=200).text)
                cut = [codec.decode(ids[i : i + UNIT_TOKENS]) for i in range(0, len(ids) - UNIT_TOKENS, UNIT_TOKENS)]
                units.append(self.encoder.encode(cut))
            shared = min(len(one) for one in units)
            cosines += (units[0][:shared] * units[1][:shared]).sum(-1).tolist()
        return statistics.mean(cosines)

    # --- judge -------------------------------------------------------------------------------------------------

    def judge_figures(self) -> Iterator[Figure]:
        here, judge = "judge", self.judge
        yield Figure(here, "parameters", sum(p.numel() for p in judge.model.parameters()))
        loss = held_out_loss(judge.model, judge.codec, judge.pad_id)
        yield Figure(here, "held-out next-token loss", loss, "nats", note="n = 48 documents")
        prompts = [one.sample.prompt for one in self.outputs]
        fresh = [sample(p, seed, target_words=240).text for p, seed in zip(prompts, PROFILE_SEEDS, strict=False)]
        clean = judge.log_perplexity(prompts, [one.text for one in self.outputs])
        n = f"n = {len(prompts)}"
        own = float(np.mean(judge.log_perplexity(prompts, fresh)))
        yield Figure(here, "log-perplexity of lab documents", own, "nats", note=n)
        yield Figure(here, "log-perplexity of clean outputs of mini", float(np.mean(clean)), "nats", note=n)
        wrong = float(np.mean(judge.log_perplexity(prompts[1:] + prompts[:1], fresh)))
        yield Figure(here, "log-perplexity of lab documents under a wrong prompt", wrong, "nats", note=n)


def _scan_operations(width: int, hidden: int) -> int:
    """Multiplications and additions: one running sum over the tokens, and two matrix products per unit."""
    units = int(unit_counts(SCANNED_TOKENS, ScanConfig().sizes).sum())
    return SCANNED_TOKENS * width + units * 4 * width * hidden


def _jumbled(text: str) -> str:
    """The words of a text in random order: what a measure of phrases must not take for language."""
    words = text.split()
    return " ".join(random.Random(0).sample(words, len(words)))
