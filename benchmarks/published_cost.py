"""What do the paper's settings cost on the published models? `python -m benchmarks.published_cost`: counted forwards,
and operations from the models' sizes, as a table in Markdown.

No weights are needed: forwards are counted on a stand-in of the same attention, parameters on empty models.
"""

from __future__ import annotations

from typing import Any

import torch

from wmbench.bench.counting import count_cost
from wmbench.bench.plan import resolve_runs
from wmbench.config import load_config
from wmbench.host import Host
from wmbench.runtime.backbone import Attention
from wmbench.runtime.backbones.hf import dream, llada, llada2
from wmbench.runtime.backbones.hf.carrier import empty_model
from wmbench.runtime.backbones.hf.family import Family
from wmbench.runtime.selfcheck import Sizes, sizes_of

_WIDE = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 32}
_QWEN = {"num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4}
_MOE = {"num_hidden_layers": 20, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4}
_EXPERTS = {"n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512, "n_shared_experts": 1}

PUBLISHED: dict[str, tuple[Family, dict[str, Any], Attention]] = {
    "llada-8b": (llada.FAMILY, {**_WIDE, "intermediate_size": 12288, "vocab_size": 126464}, Attention()),
    "dream-7b": (dream.FAMILY, {**_QWEN, "intermediate_size": 18944, "vocab_size": 152064}, Attention()),
    "llada2.0-mini": (
        llada2.FAMILY,
        {**_MOE, **_EXPERTS, "head_dim": 128, "intermediate_size": 5120, "vocab_size": 157184, "use_qk_norm": True},
        Attention(32, "prompt"),
    ),
}
SCHEMES = ("none", "dlm_kgw", "dgmark", "denmark")


def model_sizes(family: Family, settings: dict[str, Any]) -> Sizes:
    return sizes_of(empty_model(family, {**settings, "tie_word_embeddings": False}, torch.device("cpu")))


def main() -> None:
    host = Host.discover()
    print("| model | parameters | active | scheme | forwards/token | positions/token | TFLOP/token |")
    print("|---|---|---|---|---|---|---|")
    for name, (family, settings, attention) in PUBLISHED.items():
        sizes = model_sizes(family, settings)
        for scheme in SCHEMES:
            config = load_config(options={"backbone": name, "schemes": [scheme], "attacks": []})
            cost = count_cost(resolve_runs(config, host)[0], attention, family.logit_shift)
            operations = 2 * (sizes.active * cost.positions + sizes.head * cost.head_rows) / 1e12
            print(
                f"| `{name}` | {sizes.parameters / 1e9:.2f} B | {sizes.active / 1e9:.2f} B | {scheme} "
                f"| {cost.forwards:.1f} | {cost.positions:,.0f} | {operations:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
