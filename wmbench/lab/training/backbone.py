"""Train `mini`: resumable, with a log of held-out loss. Alone on the machine, about eight hours on two cores."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from safetensors.torch import save_file
from torch import Tensor

from wmbench.errors import ConfigError
from wmbench.lab.training.corpus import HELD_OUT_SEEDS, TRAIN_SEEDS, Example, examples
from wmbench.lab.training.muon import Muon
from wmbench.lab.training.objective import BLOCK_LENGTHS, Layout, build_batch, layout_odds, masked_loss
from wmbench.lab.training.tokenizer import END, MASK, PAD
from wmbench.lab.training.weights import fill, read_weights
from wmbench.runtime.backbones.mini import NEIGHBOURS
from wmbench.runtime.backbones.transformer import MaskedDiffusionTransformer, TransformerShape
from wmbench.runtime.codec import TokenizerCodec

EVALUATION_RATIOS = (0.15, 0.5, 0.85, 1.0)


class BackboneRecipe(BaseModel):
    """Everything that decides how `mini` comes out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: int = 256
    layers: int = 4
    heads: int = 4
    mlp_width: int = 512
    neighbours: tuple[int, ...] = NEIGHBOURS
    answer_tokens: int = 300
    batch_size: int = 10
    noised_copies: int = Field(2, description="In block batches, of each of 0.7 batch_size documents.")
    steps: int = 15_200
    start_step: int = Field(0, description="Where a run that begins with given weights enters the schedule.")
    matrix_learning_rate: float = Field(6e-3, description="Of the trunk's matrices (Muon).")
    learning_rate: float = Field(3e-3, description="Of embeddings, norms and the output bias (AdamW).")
    warmup_steps: int = 20
    decay_share: float = Field(0.35, description="Share of the steps, at the end, over which rates fall to nothing.")
    weight_decay: float = 0.1
    gradient_clip: float = 1.0
    average_decay: float = Field(0.995, description="Exponential moving average of the weights that are shipped.")
    autocast: bool = Field(
        False, description="Matrix products in bfloat16: pays on processors with instructions for it, and only there."
    )
    seed: int = 7
    checkpoint_every: int = 50
    evaluate_every: int = 300


class BackboneTrainer:
    """One training run in one folder: `train.safetensors` (resume), `average.safetensors` (result), `log.jsonl`."""

    def __init__(
        self, folder: Path, codec: TokenizerCodec, recipe: BackboneRecipe | None = None, start: Path | None = None
    ) -> None:
        """A new run may `start` with given weights; a folder with a checkpoint goes on from that."""
        self.folder, self.codec, self.recipe = folder, codec, recipe or BackboneRecipe()
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(self.recipe.seed)
        r = self.recipe
        shape = TransformerShape(
            codec.size, r.width, r.layers, r.heads, r.mlp_width, neighbours=r.neighbours, normed_heads=True
        )
        self.model = MaskedDiffusionTransformer(shape)
        self.mask_id, self.pad_id = codec.id_of(MASK), codec.id_of(PAD)
        self._initialise_output_bias()
        if start is not None:
            fill(self.model, read_weights(start), start)
        self.average = {name: value.clone() for name, value in self.model.state_dict().items()}
        matrices = [p for name, p in self.model.named_parameters() if p.dim() == 2 and name != "embedding.weight"]
        others = [p for p in self.model.parameters() if not any(p is matrix for matrix in matrices)]
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            "matrices": Muon(matrices, lr=r.matrix_learning_rate, weight_decay=r.weight_decay),
            "others": torch.optim.AdamW(others, lr=r.learning_rate, betas=(0.9, 0.98), weight_decay=0.0),
        }
        self.step = r.start_step
        self._resume()

    def _initialise_output_bias(self) -> None:
        """Log unigram frequencies: the model need not spend its first hundred steps learning them."""
        counts = torch.ones(self.codec.size)
        for example in islice(examples(self.codec, TRAIN_SEEDS, self.recipe.answer_tokens), 300):
            counts += torch.bincount(torch.tensor(example.answer_ids), minlength=self.codec.size)
        with torch.no_grad():
            self.model.output_bias.copy_(torch.log(counts / counts.sum()))
            for special in (self.mask_id, self.pad_id, self.codec.id_of(END)):
                self.model.output_bias[special] = -12.0

    def train(self, report: Callable[[str], None] = print) -> None:
        r = self.recipe
        stream = self._examples(skip=self.step * r.batch_size)
        began, first = time.monotonic(), self.step
        losses: dict[str, list[float]] = defaultdict(list)
        while self.step < r.steps:
            with torch.autocast("cpu", torch.bfloat16, enabled=r.autocast):
                kind, loss = self.next_loss(list(islice(stream, r.batch_size)))
            self.descend(loss)
            losses[kind].append(loss.item())
            if self.step % 20 == 0:
                pace = (time.monotonic() - began) / (self.step - first)
                left = (r.steps - self.step) * pace / 60
                recent = "  ".join(f"{k} {np.mean(v[-8:]):.2f}" for k, v in losses.items())
                report(f"step {self.step}/{r.steps}  {recent}  {left:.0f} min left")
            if self.step % r.checkpoint_every == 0 or self.step == r.steps:
                self.save()
            if self.step % r.evaluate_every == 0 or self.step == r.steps:
                self._log({"step": self.step, **self.evaluate()})

    def next_loss(self, group: list[Example]) -> tuple[str, Tensor]:
        """The loss of the next batch, and what kind of batch it is."""
        rng = np.random.default_rng([self.recipe.seed, self.step])
        odds = layout_odds(self.step / self.recipe.steps)
        layout: Layout = list(odds)[int(rng.choice(len(odds), p=list(odds.values())))]
        block = int(rng.choice(BLOCK_LENGTHS))
        if layout == "block":  # each document comes as three copies: fewer documents, like cost
            group = group[: max(1, int(0.7 * len(group)))]
        copies = self.recipe.noised_copies
        batch = build_batch(
            group, self.mask_id, self.pad_id, rng, layout=layout, block_length=block, noised_copies=copies
        )
        return layout, masked_loss(self.model, batch)

    def descend(self, loss: Tensor) -> None:
        """One step of both optimizers, and of the moving average."""
        self.model.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.gradient_clip)
        rates = {"matrices": self.recipe.matrix_learning_rate, "others": self.recipe.learning_rate}
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = rates[name] * self._learning_rate_factor()
            optimizer.step()
        self._update_average()
        self.step += 1

    def evaluate(self, documents: int = 16) -> dict[str, float]:
        """Held-out loss (nats per masked token) of the averaged weights, by attention and mask ratio."""
        held_out = list(islice(examples(self.codec, HELD_OUT_SEEDS, self.recipe.answer_tokens), documents))
        current = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(self.average)
        result: dict[str, float] = {}
        with torch.no_grad():
            layouts: tuple[Layout, ...] = ("block", "full")
            for layout in layouts:
                for ratio in EVALUATION_RATIOS:
                    rng = np.random.default_rng(0)
                    parts = [
                        masked_loss(
                            self.model,
                            build_batch(
                                held_out[i : i + 8], self.mask_id, self.pad_id, rng, layout=layout, ratio=ratio
                            ),
                            weighted=False,
                        ).item()
                        for i in range(0, documents, 8)
                    ]
                    result[f"{layout}@{ratio}"] = float(np.mean(parts))
        self.model.load_state_dict(current)
        return result

    def save(self) -> None:
        tensors: dict[str, Tensor] = {f"model.{n}": t for n, t in self.model.state_dict().items()}
        tensors |= {f"average.{n}": t for n, t in self.average.items()}
        for name, optimizer in self.optimizers.items():
            for index, state in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{name}.{index}.{n}": torch.as_tensor(t) for n, t in state.items()}
        # The checkpoint last: whoever is stopped in between goes on from the one before and makes both again.
        self._write("average.safetensors", self.average)
        self._write("train.safetensors", tensors)

    def _write(self, name: str, tensors: dict[str, Tensor]) -> None:
        aside = self.folder / f"{name}.tmp"
        save_file({n: t.contiguous() for n, t in tensors.items()}, aside, metadata={"step": str(self.step)})
        aside.replace(self.folder / name)

    def _resume(self) -> None:
        path = self.folder / "train.safetensors"
        if not path.is_file():
            return
        from safetensors import safe_open

        tensors = read_weights(path)
        with safe_open(path, framework="pt") as file:
            self.step = int((file.metadata() or {})["step"])
        if self.step < self.recipe.start_step:
            raise ConfigError(
                f"the folder holds a run at step {self.step}, before the start step {self.recipe.start_step}",
                where=str(self.folder),
                hint="go on without --start-from and --start-step, or begin the new run in another folder",
            )
        fill(self.model, {n[6:]: t for n, t in tensors.items() if n.startswith("model.")}, path)
        self.average = {n[8:]: t for n, t in tensors.items() if n.startswith("average.")}
        for name, optimizer in self.optimizers.items():
            state: dict[int, dict[str, Tensor]] = defaultdict(dict)
            for path_of_tensor, tensor in tensors.items():
                kind, owner, *rest = path_of_tensor.split(".")
                if (kind, owner) == ("optimizer", name):
                    state[int(rest[0])][rest[1]] = tensor
            optimizer.load_state_dict({**optimizer.state_dict(), "state": dict(state)})

    def _examples(self, skip: int) -> Iterator[Example]:
        # Seeds are consumed in order, so a resumed run continues with documents it has not seen.
        return examples(self.codec, TRAIN_SEEDS[int(skip * 1.1) :], self.recipe.answer_tokens)

    def _learning_rate_factor(self) -> float:
        """Linear warm-up, a long plateau, linear decay: a run can be stopped early by lowering `steps`."""
        r = self.recipe
        warm_up = (self.step - r.start_step + 1) / r.warmup_steps
        return min(1.0, warm_up, (r.steps - self.step) / (r.decay_share * r.steps))

    def _update_average(self) -> None:
        decay = min(self.recipe.average_decay, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                self.average[name].lerp_(value, 1 - decay)

    def _log(self, entry: dict[str, float | int]) -> None:
        with (self.folder / "log.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")
