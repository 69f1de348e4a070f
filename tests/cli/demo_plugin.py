"""An inline plugin: a keyed scheme, schemes and attacks that misbehave, and a command."""

import click
import torch
from pydantic import BaseModel, ConfigDict

from wmbench import hookimpl
from wmbench.types import Attacked, AttackInfo, SchemeInfo

ME = __name__  # `wmbench_inline_demo_plugin` when loaded with --plugin


class DemoConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")
    delta: float = 2.0
    gamma: float = 0.5


class Demo:
    """A bias on a keyed half of the vocabulary."""

    def __init__(self, config, context):
        self.config, self.key = config, context.key

    @hookimpl
    def decode_step(self, step):
        logits = step.logits()
        green = self.key.stream("demo", 1, "green").bits(0, 0, logits.shape[1]).astype("float32")
        return step.commit(logits + self.config.delta * torch.from_numpy(green))


class Raising(Demo):
    @hookimpl
    def decode_step(self, step):
        secret = self.key
        raise RuntimeError(f"no luck with {secret} {secret!r}")


class NoCommit(Demo):
    @hookimpl
    def decode_step(self, step):
        return "nonsense"


class FlakyConfig(BaseModel):
    rate: float = 0.5
    shout: bool = False


class Flaky:
    def __init__(self, config):
        self.config = config

    @hookimpl
    def attack(self, texts):
        return [
            Attacked(None, "no luck") if int(t.id[-1]) < 10 * self.config.rate else Attacked(t.text.upper())
            for t in texts
        ]


@hookimpl
def register_schemes():
    published = {"tiny": {"delta": 1.5, "decoding": {"temperature": 0.9, "steps": 16}}, "tiny/toy": {"gamma": 0.25}}
    common = {"summary": "demo", "config": f"{ME}:DemoConfig"}
    return [
        SchemeInfo(
            "demo", factory=f"{ME}:Demo", alg_id="test.demo.1", settings=published, status="for tests only", **common
        ),
        SchemeInfo("raising", factory=f"{ME}:Raising", alg_id="test.raising.1", **common),
        SchemeInfo("nonsense", factory=f"{ME}:NoCommit", alg_id="test.nonsense.1", **common),
    ]


@hookimpl
def register_attacks():
    return [
        AttackInfo("flaky", "fails often", f"{ME}:Flaky", f"{ME}:FlakyConfig", strength="rate", cost="model"),
    ]


@click.command()
def greet():
    """Say hello."""
    click.echo("hello")


@hookimpl
def register_commands():
    return [("greet", f"{ME}:greet", "Say hello.")]
