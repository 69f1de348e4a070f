"""What makes the small transformer fast does not change a bit of what it computes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from wmbench.runtime.backbone import safe_rows
from wmbench.runtime.backbones.mini import column_by_column
from wmbench.runtime.backbones.transformer import (
    LocalMixing,
    RootMeanSquareNorm,
    TransformerShape,
    added_to_scores,
    attend_packed,
    same_block_masks,
    unit_size,
)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("positions", [1, 25, 275])
def test_norms_are_those_of_torch(positions: int) -> None:
    norm = RootMeanSquareNorm(256, eps=1e-6).requires_grad_(False)
    norm.weight.uniform_(0.5, 2)
    x = 3 * torch.randn(2, positions, 256)
    assert torch.equal(norm(x), F.rms_norm(x, (256,), norm.weight, 1e-6))
    assert torch.equal(unit_size(x, torch.finfo(x.dtype).eps), F.rms_norm(x, (256,)))


@pytest.mark.parametrize("rows", [25, 300])
def test_the_order_of_weights_in_memory_does_not_matter(rows: int) -> None:
    x, weight = torch.randn(max(rows, safe_rows(torch.device("cpu"))), 256), torch.randn(768, 256)
    turned = column_by_column(weight)
    assert turned.stride() != weight.stride()
    assert torch.equal(F.linear(x, turned), F.linear(x, weight))


def test_no_mask_is_a_mask_that_hides_nothing() -> None:
    q, k, v = torch.randn(3, 4, 2, 25, 64)
    past = torch.randn(2, 2, 30, 64)
    everything = torch.ones(4, 1, 25, 25, dtype=torch.bool)
    attended = attend_packed(q, k, v, None, (past[0], past[1]))
    for mask in (everything, added_to_scores(everything, q.dtype)):
        assert torch.equal(attend_packed(q, k, v, mask, (past[0], past[1])), attended)
    keys, values = (torch.cat([x.expand(4, -1, -1, -1), y], 2) for x, y in zip(past, (k, v), strict=True))
    assert torch.allclose(attended, F.scaled_dot_product_attention(q, keys, values), atol=1e-5)


def test_a_hidden_key_is_not_looked_at() -> None:
    q, k, v = torch.randn(3, 4, 2, 25, 64)
    past = torch.randn(2, 2, 30, 64)
    mask = torch.ones(4, 1, 25, 25, dtype=torch.bool)
    mask[1:, ..., 20:] = False  # of the first window nothing is hidden
    hidden = [attend_packed(q, k, v, m, (past[0], past[1])) for m in (mask, added_to_scores(mask, q.dtype))]
    changed = attend_packed(q, k, v + (torch.arange(25) >= 20)[:, None], mask, (past[0], past[1]))
    assert torch.equal(*hidden)
    assert torch.equal(changed[1:], hidden[0][1:])
    assert not torch.equal(changed[0], hidden[0][0])


def test_windows_of_one_block_need_no_masks() -> None:
    mixing = LocalMixing(TransformerShape(10, width=8, neighbours=(-2, -1, 1, 2))).requires_grad_(False)
    mixing.weight.normal_()
    x = torch.randn(2, 12, 8)
    one_each = torch.tensor([[3], [4]]).expand(2, 12)
    assert same_block_masks(one_each, mixing.offsets) is None
    borders = one_each.clone()
    borders[:, 6:] = 5
    masks = same_block_masks(borders, mixing.offsets)
    halves = torch.cat([mixing(x[:, :6], None), mixing(x[:, 6:], None)], 1)
    assert torch.equal(mixing(x, masks), halves)
