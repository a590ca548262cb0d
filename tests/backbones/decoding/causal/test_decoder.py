from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from zoo.backbones.decoding.causal.decoder import grouped_attention
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.base.errors import ZooError


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("new", [1, 5])
def test_heads_that_share_keys_need_no_copies(groups: int, new: int) -> None:
    torch.manual_seed(0)
    query = torch.randn(2, 2 * groups, new, 4, dtype=torch.float64)
    key, value = torch.randn(2, 2, 2, 7, 4, dtype=torch.float64)
    mask = torch.rand(2, 1, new, 7) > 0.4
    mask[..., 0] = True
    module = nn.Module()
    module.num_key_value_groups = groups
    given = {"scaling": 0.3, "dropout": 0.0}
    attended, _ = grouped_attention(module, query, key, value, mask, **given)
    keys, values = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    expected = F.scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, scale=0.3
    ).transpose(1, 2)
    torch.testing.assert_close(attended, expected, rtol=0, atol=1e-12)


def test_attention_without_a_mask_is_transformers_own(make: Callable[..., InfiniSST]) -> None:
    """As in training, where sdpa receives ``is_causal``."""
    decoder = make().decoder
    ids = torch.arange(8, 20)[None]
    ours = decoder(ids).logits
    decoder.set_attn_implementation("sdpa")
    assert torch.equal(ours, decoder(ids).logits)
    padded = torch.ones_like(ids)
    padded[:, :3] = 0
    expected = decoder(ids, attention_mask=padded).logits
    decoder.set_attn_implementation("zoo_grouped")
    torch.testing.assert_close(
        decoder(ids, attention_mask=padded).logits, expected, rtol=0, atol=1e-6
    )
    assert not torch.allclose(ours, expected)


def test_fields_that_do_not_fit_are_one_sentence(make: Callable[..., InfiniSST]) -> None:
    decoder = {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 3}
    with pytest.raises(ZooError, match=r"do not fit together.*hidden size \(16\)"):
        make(decoder=decoder)
