"""What the lab brings to wmbench, declared through the same hooks as everybody else's. Imports no torch."""

from __future__ import annotations

from wmbench.hookspecs import hookimpl
from wmbench.lab.codec import weights_folder
from wmbench.types import AttackInfo, BackboneEntry, DatasetInfo

# One token per step in random order: every scheme gets the most decisions per text, and the schedule is the paper's,
# but in shorter blocks: a model this small cannot make one sentence of words it has strewn over 25 places.
DECODING = {"schedule": "block", "block_length": 5, "positions": "random", "temperature": 0.5}
BACKBONE = "wmbench.runtime.backbones.mini"
DATASETS = "wmbench.lab.datasets"


@hookimpl
def register_backbones() -> list[BackboneEntry]:
    if not (weights_folder() / "mini.safetensors").is_file():
        return []  # a checkout whose models are still to be trained (`wmbench lab train-backbone`)
    described = (
        ("mini", "MiniConfig", "embedded lab model, causal across blocks of 25 (as LLaDA2.0); no hub, no GPU"),
        ("mini-full", "FullMiniConfig", "the same weights with full attention (as LLaDA and Dream)"),
    )
    return [
        BackboneEntry(
            name,
            summary,
            factory=f"{BACKBONE}:MiniBackbone",
            config=f"{BACKBONE}_settings:{config}",
            codec="wmbench.lab.codec:lab_codec",
            decoding=DECODING,
        )
        for name, config, summary in described
    ]


@hookimpl
def register_datasets() -> list[DatasetInfo]:
    prompts = (
        ("finance", "finance_prompts", "120 lab prompts that ask for money advice"),
        ("howto", "howto_prompts", "120 lab prompts that ask for instructions"),
        ("explain", "explain_prompts", "120 lab prompts that ask for an explanation"),
        ("tuning", "tuning_prompts", "60 lab prompts to choose settings on: the last 20 of each of the three sets"),
    )
    nulls = (
        ("lab", "null_texts", "require_domain", "fresh lab documents of all three domains, 150-300 tokens, by seed"),
        ("lab:", "null_texts", "require_domain", "fresh lab documents of one domain, e.g. lab:finance"),
        ("clean:", "clean_texts", "require_backbone", "unmarked answers of a backbone to lab prompts, e.g. clean:mini"),
    )
    hub = DatasetInfo(
        "hf:",
        "prompts of a Hugging Face dataset, hf:<owner/name>[:<split>[:<column>]] (extra `datasets`)",
        factory="wmbench.lab.hub:hub_prompts",
    )
    return [
        *(DatasetInfo(name, summary, f"{DATASETS}:{factory}") for name, factory, summary in prompts),
        *(
            DatasetInfo(name, summary, f"{DATASETS}:{factory}", kind="nulls", source=f"{DATASETS}:{check}")
            for name, factory, check, summary in nulls
        ),
        hub,
    ]


@hookimpl
def register_attacks() -> list[AttackInfo]:
    described = (
        (
            "lab-rewrite",
            "Rewrite",
            "LabAttackConfig",
            "rephrases every sentence: another frame, other words, same length",
        ),
        ("lab-compress", "Compress", "LabLengthConfig", "the same statements in 60-70% of the words"),
        ("lab-expand", "Expand", "LabLengthConfig", "the same statements in 130-150% of the words"),
        ("lab-document", "DocumentRewrite", "LabAttackConfig", "lab-rewrite, and a few sentences move by one place"),
    )
    return [
        AttackInfo(
            name,
            summary,
            factory=f"wmbench.lab.attacks:{factory}",
            config=f"wmbench.lab.attacks:{config}",
            cost="local",
            preserves="meaning",
            backbones=("mini", "mini-full"),
        )
        for name, factory, config, summary in described
    ]


@hookimpl
def register_commands() -> list[tuple[str, str, str]]:
    return [("lab", "wmbench.lab.commands:lab", "The embedded world: check it, show it, measure it, train its models")]
