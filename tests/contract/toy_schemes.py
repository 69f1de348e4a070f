"""Schemes as a third party would write them, one for each verb of a step. All of them share one detector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from pydantic import BaseModel, Field

from wmbench import hookimpl
from wmbench.errors import ConfigError
from wmbench.keys import SecretKey
from wmbench.runtime.lookahead import Edit
from wmbench.runtime.sampling import draw_tokens
from wmbench.runtime.step import Cells, Step
from wmbench.types import Commit, Features, IntArray, Sample, SchemeContext, SchemeInfo, TextContext, Views


class GreenConfig(BaseModel):
    """Settings of the toy schemes."""

    delta: float = Field(3.0, description="Added to the logits of green words.")
    tries: int = Field(3, description="Candidates among which the greenest is taken.")


def green_words(key: SecretKey | None, size: int) -> np.ndarray:
    """Half of the vocabulary, chosen by the key [size]."""
    if key is None:
        raise ConfigError("green words need a key", hint="make one with `wmbench key new`")
    return key.token_prf("toy", 1, "green").uniforms(np.arange(size)) < 0.5


class GreenDetector:
    """Counts green words."""

    def __init__(self, config: GreenConfig, context: SchemeContext) -> None:
        self.config = config
        self.key = context.key
        self.size = context.codec.size

    def green(self, step: Step) -> np.ndarray:
        """Green words among all logits [V]."""
        wide = np.zeros(step.engine.backbone.vocab_size, dtype=bool)
        wide[: self.size] = green_words(self.key, self.size)
        return wide

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        green = green_words(key, self.size)
        share = [green[features.of(i)].mean() if features.lengths[i] else 0.5 for i in range(len(features))]
        z = (np.array(share) - 0.5) * 2 * np.sqrt(np.maximum(features.lengths, 1))
        return Views(("green",), z[:, None])


class Bias(GreenDetector):
    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        bonus = torch.from_numpy(self.green(step)) * self.config.delta
        return step.commit(step.logits() + bonus)


class Replace(GreenDetector):
    """Native positions; each token is redrawn a few times and the first green draw is kept."""

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        proposal, green = step.propose(), self.green(step)
        tokens = proposal.tokens.copy()
        order = {(r, c): i for i, (r, c) in enumerate(zip(step.open.rows, step.open.columns, strict=True))}
        logits = step.logits()
        for i, cell in enumerate(zip(proposal.rows, proposal.columns, strict=True)):
            row = step.rows[cell[0]]
            u = torch.from_numpy(row.uniforms("redraw", self.config.tries, lane=int(cell[1])))
            draws = draw_tokens(logits[[order[cell]]], u[None], step.decoding.temperature)[0].numpy()
            tokens[i] = next((t for t in [tokens[i], *draws] if green[t]), tokens[i])
        return Commit(proposal.rows, proposal.columns, tokens)


class LookAhead(GreenDetector):
    """Tries several fillings of each row's native cells and prefers the one that is greenest now and next."""

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        proposal, green, tries = step.propose(), self.green(step), self.config.tries
        edits: list[Edit] = []
        wanted: list[IntArray] = []
        uniforms = []
        for r, row in enumerate(step.rows):
            columns = proposal.columns[proposal.rows == r]
            logits = step.logits(Cells(np.full(len(columns), r), columns))
            u = torch.from_numpy(row.uniforms("candidate", (len(columns), tries)))
            candidates = draw_tokens(logits, u, step.decoding.temperature).numpy()
            rest = np.setdiff1d(step.plans[r].scope, columns)[:2]
            for k in range(tries):
                edits.append(Edit(r, columns, candidates[:, k]))
                wanted.append(rest)
                uniforms.append(row.uniforms("rollout", (len(rest), 3), lane=k))
        drawn = step.lookahead(edits).sample(wanted, uniforms, step.decoding.temperature)
        greenness = [green[e.tokens].sum() + green[d].mean(-1).sum() for e, d in zip(edits, drawn, strict=True)]
        best = [r * tries + int(np.argmax(greenness[r * tries : (r + 1) * tries])) for r in range(len(step.rows))]
        chosen = [edits[b] for b in best]
        return Commit.of([(e.row, c, t) for e in chosen for c, t in zip(e.columns, e.tokens, strict=True)])


class BestOfN(GreenDetector):
    """Writes eight columns at once: the greenest of several base continuations."""

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        green = self.green(step)
        until = [min(row.length, int(row.masked[0]) + 8) for row in step.rows]
        forks = step.fork(range(len(step.rows)), self.config.tries, until)
        cells: list[tuple[int, int, int]] = []
        for r, continuations in enumerate(forks):
            best = max(continuations, key=lambda c: float(green[c.tokens].mean()))
            cells += [(r, int(c), int(t)) for c, t in zip(best.columns, best.tokens, strict=True)]
        return Commit.of(cells)


class Remask(GreenDetector):
    """Gives a red word back for a second chance, and remembers how often it did."""

    @hookimpl
    def begin(self, sample: Sample) -> dict[str, int]:
        return {"given back": 0}

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        native, green = step.commit(), self.green(step)
        back: list[tuple[int, int]] = []
        for r, row in enumerate(step.rows):
            red = [c for c in range(row.start, row.length) if c not in row.masked and not green[row.canvas[c]]]
            again = [c for c in red if row.visits[c] < 3][:1]
            row.state["given back"] += len(again)
            back += [(r, c) for c in again]
        cells = list(zip(native.rows.tolist(), native.columns.tolist(), native.tokens.tolist(), strict=True))
        return Commit.of(cells, back)


def toy_info(name: str, module: str = __name__, key_use: str = "secret") -> SchemeInfo:
    return SchemeInfo(
        name=name.lower(),
        summary=f"toy scheme {name}",
        factory=f"{module}:{name}",
        config=f"{__name__}:GreenConfig",
        alg_id=f"org.example.{name.lower()}.1",
        key_use=key_use,  # type: ignore[arg-type]
    )


@hookimpl
def register_schemes() -> Sequence[SchemeInfo]:
    return [toy_info(scheme.__name__) for scheme in (Bias, Replace, LookAhead, BestOfN, Remask)]
