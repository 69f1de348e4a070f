"""What a reader must know before the figures: what they are not, and which rows do not compare."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from wmbench.bench.derived import digest
from wmbench.bench.table import numbered
from wmbench.published import LAB
from wmbench.report.document import RunReport, shared_attacks

NONSENSE_BACKBONES: Final = ("tiny", "tiny-block")
LAB_BACKBONES: Final = (*LAB, *NONSENSE_BACKBONES)


def notices(runs: Sequence[RunReport]) -> list[str]:
    found = lab_notices(run.backbone for run in runs)
    if public := list(dict.fromkeys(run.scheme for run in runs if run.key_use == "fixed")):
        found.append(
            f"No secret: {_listed(public)} ran with published constants in place of a key. Anybody can find and forge "
            "these marks, and there is no wrong key to try."
        )
    return found


def lab_notices(backbones: Iterable[str]) -> list[str]:
    names = dict.fromkeys(backbones)
    found = []
    if lab := [name for name in names if name in LAB_BACKBONES]:
        found.append(
            f"Lab figures: measured on the embedded model {_listed(lab)}. They are not figures on LLaDA-8B or on any "
            "other published model, and are not to be compared with the paper's."
        )
    if nonsense := [name for name in names if name in NONSENSE_BACKBONES]:
        found.append(
            f"The model {_listed(nonsense)} is a random transformer that writes nonsense: these rates show that the "
            "pipeline works, not how robust a scheme is."
        )
    return found


def warnings(runs: Sequence[RunReport]) -> list[str]:
    measured = [run for run in runs if not run.is_control]
    found = list(_different_nulls(measured))
    groups: dict[str, list[RunReport]] = {}
    for run in measured:
        groups.setdefault(run.group, []).append(run)
    for group, members in groups.items():
        for what, value in _SAME_IN_A_GROUP.items():
            if len({value(run) for run in members}) > 1:
                found.append(f"{group}: {what} differ between schemes, so their rows do not compare directly.")
        found += _different_attacks(group, members)
    if len({run.versions.get("wmbench") for run in runs}) > 1:
        versions = sorted({run.versions.get("wmbench", "unknown") for run in runs})
        found.append(f"The runs were made with different versions of wmbench: {_listed(versions)}.")
    found += [f"{run.scheme}: {run.caveat}." for run in measured if run.caveat]
    found += [
        f"{run.scheme} is approximate ({', '.join(f'{name} = {value}' for name, value in run.approximations.items())})."
        for run in measured
        if run.approximations
    ]
    return list(dict.fromkeys(found))


_SAME_IN_A_GROUP: Final[dict[str, Callable[[RunReport], Hashable]]] = {
    "prompts": lambda run: run.fingerprints.get("prompts"),
    "decoding settings": lambda run: digest(run.settings.get("decoding")),
    "filters": lambda run: digest(run.settings.get("filters")),
    "levels (alpha)": lambda run: run.alpha,
    "normalisers": lambda run: bool(run.settings.get("normalise")),
}


def _different_nulls(runs: Iterable[RunReport]) -> Iterable[str]:
    sets: dict[str, list[RunReport]] = {}
    for run in runs:
        if run.nulls is not None:
            sets.setdefault(run.nulls.digest, []).append(run)
    if len(sets) > 1:
        described = "; ".join(
            f"{null_label(members[0].nulls.identity)} for {_listed(sorted({run.name for run in members}))}"
            for members in sets.values()
            if members[0].nulls is not None
        )
        yield f"Different null sets: rates and thresholds of these rows do not compare. {described}."


def _different_attacks(group: str, runs: Sequence[RunReport]) -> Iterable[str]:
    if len({frozenset(run.met) for run in runs}) < 2:
        return
    shared = shared_attacks(runs)
    means = (
        f"Means under attack are over what all met: {_listed(shared)}"
        if shared
        else "There is none that all met, hence no mean"
    )
    none = [run.scheme for run in runs if not run.met]
    left_out = f"; {_listed(none)} met no attack" if none else ""
    yield f"{group}: the runs met different attacks. {means}{left_out}."


def told_apart(runs: Sequence[RunReport]) -> tuple[list[RunReport], list[str]]:
    """Runs of one scheme on the same model and prompts get numbers, or they would share a row or a line; and a warning
    that says which is which."""
    names = iter(numbered([(run.scheme, run.group) for run in runs if not run.is_control]))
    found = [
        run.model_copy(update={"scheme": run.scheme if run.is_control else next(names), "base_scheme": run.scheme})
        for run in runs
    ]
    told = [f"{run.scheme} is {run.name}" for run in found if run.scheme != run.base_scheme]
    return found, [f"Several runs of one scheme: {'; '.join(told)}."] if told else []


def null_label(identity: dict[str, Any]) -> str:
    fewest, most = identity.get("tokens", ("?", "?"))
    sizes = (identity.get(part) for part in ("calibration", "heldout"))
    texts, held = (f"{size:,}" if isinstance(size, int) else "?" for size in sizes)
    return f"{identity.get('set', '?')}, {fewest}-{most} tokens, {texts} texts + {held} held out"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
