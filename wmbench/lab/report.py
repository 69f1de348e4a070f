"""Every figure the lab promises, measured now, with its target beside it; also written into the model cards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from wmbench.errors import ConfigError, WmbenchError
from wmbench.lab.measures import Figure, attack_figures, language_figures, package_figures

SECTIONS = ("language", "attacks", "mini", "encoder", "judge", "package")
CARDS = {"mini": "mini.md", "encoder": "mini-encoder.md", "judge": "mini-judge.md"}
"""Section and the model card that shows it; cards lie beside the weights."""
BEGIN, END = "<!-- figures: written by `wmbench lab report --write-cards` -->", "<!-- end of figures -->"
DISCLAIMER = "A laboratory: figures on `mini` are not figures on LLaDA-8B."


def measure(
    sections: Iterable[str] = SECTIONS,
    *,
    documents: int = 40,
    samples: int = 200,
    pairs: int = 1000,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Figure]:
    """All figures of the sections. A section whose weights are not there says so and does not stop the others."""
    wanted = set(sections)
    models: list[Any] = []  # torch is imported for the sections that need it, and models are shared by them

    def of_models(name: str) -> Iterator[Figure]:
        if not models:
            from wmbench.lab.model_measures import ModelMeasures

            models.append(ModelMeasures(samples, pairs))
        figures: Iterator[Figure] = getattr(models[0], f"{name}_figures")()
        return figures

    measures: Mapping[str, Callable[[], Iterator[Figure]]] = {
        "language": lambda: language_figures(documents),
        "attacks": lambda: attack_figures(documents),
        "mini": lambda: of_models("mini"),
        "encoder": lambda: of_models("encoder"),
        "judge": lambda: of_models("judge"),
        "package": package_figures,
    }
    found: list[Figure] = []
    for section in (one for one in SECTIONS if one in wanted):
        progress(f"measuring {section}")
        try:
            for figure in measures[section]():
                found.append(figure)
        except WmbenchError as error:
            why = f"{error.message}; {error.hint}" if error.hint else error.message
            found.append(Figure(section, "all further figures", None, note=why))
    return found


def as_lines(figures: Sequence[Figure]) -> Iterator[str]:
    """For a terminal: met targets are marked `ok`, missed ones `MISSED`."""
    width = max((len(figure.name) for figure in figures), default=0)
    for section, group in groupby(figures, key=lambda figure: figure.section):
        yield f"\n{section}"
        for figure in group:
            state = {True: "ok", False: "MISSED", None: ""}[figure.met]
            target = f"({figure.target})" if figure.target else ""
            yield f"  {figure.name:<{width}}  {figure.shown():>12}  {state:<6} {target} {figure.note}".rstrip()
    missed = sum(figure.met is False for figure in figures)
    unknown = sum(figure.value is None for figure in figures)
    yield f"\n{sum(figure.met is True for figure in figures)} targets met, {missed} missed, {unknown} not measured."
    yield DISCLAIMER


def as_json(figures: Sequence[Figure]) -> dict[str, Any]:
    return {"note": DISCLAIMER, "figures": [asdict(figure) for figure in figures]}


def as_table(figures: Iterable[Figure]) -> str:
    """Markdown, for the model cards."""
    rows = ["| figure | measured | target | note |", "|---|---|---|---|"]
    for figure in figures:
        missed = " **missed**" if figure.met is False else ""
        rows.append(f"| {figure.name} | {figure.shown()}{missed} | {figure.target} | {figure.note} |")
    return "\n".join(rows)


def write_cards(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Replace the marked section of every card that has measured figures; the rest of a card is left alone."""
    written = []
    for section, name in CARDS.items():
        mine = [figure for figure in figures if figure.section == section]
        if not any(figure.value is not None for figure in mine):
            continue
        path = folder / name
        if not path.is_file():
            raise ConfigError(f"the model card of {section} does not exist", where=str(path), hint="write it first")
        text = path.read_text(encoding="utf-8")
        head, begin, rest = text.partition(BEGIN)
        _, end, tail = rest.partition(END)
        if not begin or not end:
            raise ConfigError(
                f"the model card {name} has no section for figures", where=str(path), hint=f"add {BEGIN}\n{END}"
            )
        path.write_text(f"{head}{BEGIN}\n{as_table(mine)}\n{END}{tail}", encoding="utf-8")
        written.append(path)
    return written
