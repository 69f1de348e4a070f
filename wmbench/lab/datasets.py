"""Prompts and null texts of the lab. A text is a function of its seed alone, so nothing needs to be stored.

Which seeds belong to what is said in `training.corpus`: models are trained on documents from 1,000,000,000 on, null
texts lie below. Domains take turns (seed modulo three), so `lab:finance` is every third text of `lab`.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import count, islice
from types import ModuleType

from wmbench.errors import ConfigError, UnknownNameError
from wmbench.lab.codec import lab_codec
from wmbench.lab.language import DOMAINS, language, seeded
from wmbench.lab.sample import sample
from wmbench.types import NullText, Sample

NULL_SEEDS = range(0, 1_000_000_000)
MIN_TOKENS, MAX_TOKENS = 150, 300
CHUNK = 250
"""Seeds per task of a worker process."""
PARALLEL_FROM = 4_000
"""Below this a second process costs more (it reads the language again) than it brings."""
CLEAN_BATCH = 16
LAST_WORDING = 5
"""Every topic has six wordings of its prompt, 0 to 5; a hundred prompts of a domain do not reach the last."""


# --- prompts ---------------------------------------------------------------------------------------------------


def prompts(domain: str, limit: int | None) -> list[Sample]:
    """The first `limit` prompts of a domain (None: all once), topic after topic, then their second wording, ...

    More samples than prompts are repeats: the same prompt under an id of its own, hence with other randomness.
    """
    every = _domain_prompts(domain)
    samples = []
    for number in range(len(every) if limit is None else limit):
        repeat, place = divmod(number, len(every))
        topic, wording, prompt = every[place]
        identity = f"{domain}/{topic}/{wording}" + (f"#{repeat + 1}" if repeat else "")
        meta = {"topic": topic, "domain": domain, "repeat": repeat + 1}
        samples.append(Sample(identity, prompt, domain, number, meta))
    return samples


@lru_cache(maxsize=len(DOMAINS))
def _domain_prompts(domain: str) -> tuple[tuple[str, int, str], ...]:
    """(topic, number of the wording, prompt), so that a short run already meets every topic."""
    found = [
        (wording, topic.id, prompt)
        for topic in language().of_domain(_known(domain))
        for wording, prompt in enumerate(topic.prompts)
    ]
    return tuple((topic, wording, prompt) for wording, topic, prompt in sorted(found))


def _known(domain: str) -> str:
    if domain not in DOMAINS:
        raise UnknownNameError("lab domain", domain, DOMAINS)
    return domain


def finance_prompts(argument: str, limit: int | None) -> Sequence[Sample]:
    return prompts("finance", limit)


def howto_prompts(argument: str, limit: int | None) -> Sequence[Sample]:
    return prompts("howto", limit)


def explain_prompts(argument: str, limit: int | None) -> Sequence[Sample]:
    return prompts("explain", limit)


def tuning_prompts(argument: str, limit: int | None) -> Sequence[Sample]:
    """The last wording of every topic, domains in turn: settings are chosen on these, and measured on the others."""
    last = [
        [sample for sample in prompts(domain, None) if sample.id.endswith(f"/{LAST_WORDING}")] for domain in DOMAINS
    ]
    return [sample for in_turn in zip(*last, strict=True) for sample in in_turn][:limit]


# --- null texts: lab documents ---------------------------------------------------------------------------------


def null_texts(argument: str, limit: int | None = None, workers: int | None = None) -> Iterator[NullText]:
    """Fresh lab documents of a domain (argument empty: of all, in turn). Neither `limit` nor `workers` changes a text.

    `workers` None uses every core this process may run on when there is enough to do.
    """
    offset, step = (DOMAINS.index(_known(argument)), len(DOMAINS)) if argument else (0, 1)
    seeds = NULL_SEEDS[offset::step]
    if limit is not None:
        if limit > len(seeds):
            raise ConfigError(f"{limit:,} null texts were asked for, the lab has {len(seeds):,}")
        seeds = seeds[:limit]
    if workers is None:
        workers = _usable_cores() if limit is not None and limit >= PARALLEL_FROM else 1
    if workers == 1:
        return map(null_text, seeds)
    return _in_processes(seeds, workers)


def require_domain(argument: str) -> None:
    if argument:
        _known(argument)


def null_text(seed: int) -> NullText:
    """The null text of one seed: an answer to a prompt of its domain, cut where a model's answer might be cut."""
    domain = DOMAINS[seed % len(DOMAINS)]
    rng = seeded("null text", seed)
    _, _, prompt = rng.choice(_domain_prompts(domain))
    length = rng.randint(MIN_TOKENS, MAX_TOKENS)
    codec = lab_codec()
    ids: list[int] = []
    words = length
    while len(ids) <= length:  # about 1.2 tokens per word; the rare document that is too short is drawn longer
        words += 15
        text = sample(prompt, seed, target_words=words).text
        ids = codec.encode(text)
    # At most a few tokens up (at the upper end: down) to the end of a word, so that cutting changes no token.
    for end in (*range(length, MAX_TOKENS + 1), *range(length - 1, MIN_TOKENS - 1, -1)):
        head = codec.decode(ids[:end])
        if text.startswith(head + " ") or head == text:
            break
    identity = f"lab-{seed}"
    return NullText(identity, head, "lab", document=identity, domain=domain)


def _null_chunk(seeds: range) -> list[NullText]:
    return [null_text(seed) for seed in seeds]


def _in_processes(seeds: range, workers: int) -> Iterator[NullText]:
    """In the order of the seeds. Workers are spawned: forking a process that has used torch's threads may hang."""
    chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        with _main_left_out():
            made = pool.map(_null_chunk, chunks)  # starts all workers
        for chunk in made:
            yield from chunk
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _main_left_out() -> Iterator[None]:
    """A spawned worker imports the main module again. These need nothing of it, and a script that calls `wmbench.run`
    without `if __name__ == "__main__":` would run once more in each."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _usable_cores() -> int:
    if multiprocessing.parent_process() is not None:
        return 1  # already a worker of somebody who shares out the cores
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- null texts: clean outputs ---------------------------------------------------------------------------------


def clean_texts(argument: str, limit: int | None = None) -> Iterator[NullText]:
    """Unmarked answers of a backbone to lab prompts, decoded with its own settings. The ids differ from those of a
    run's samples, so no clean text shares its randomness with a marked one."""
    from wmbench.bench.build import Builder
    from wmbench.host import Host
    from wmbench.runtime.loop import decode, make_engine
    from wmbench.runtime.settings import Decoding

    host = Host.discover()
    decoding = Decoding(**host.backbones[argument].info.decoding)
    engine = make_engine(Builder(host).backbone_by_name(argument), decoding)
    for generation in decode(islice(clean_samples(argument), limit), engine, decoding, batch_size=CLEAN_BATCH):
        origin = generation.sample
        yield NullText(origin.id, generation.text, f"clean:{argument}", document=origin.id, domain=origin.dataset)


def require_backbone(argument: str) -> None:
    from wmbench.host import Host

    try:
        Host.discover().backbones.resolve(argument)
    except UnknownNameError as error:
        error.hint = "name one that `wmbench ls backbones` lists; one of a --plugin FILE.py makes no null texts"
        raise


def clean_samples(backbone: str) -> Iterator[Sample]:
    """Lab prompts without end, the domains in turn."""
    for number in count():
        domain = DOMAINS[number % len(DOMAINS)]
        every = _domain_prompts(domain)
        _, _, prompt = every[number // len(DOMAINS) % len(every)]
        yield Sample(f"clean:{backbone}-{number}", prompt, domain, number)
