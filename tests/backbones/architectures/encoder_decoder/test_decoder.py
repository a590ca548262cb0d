"""Decoder steps against the forward of Transformers; attention is computed on request only."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.fixtures.operations import Operations
from zoo.backbones.architectures.encoder_decoder import layers
from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.base.errors import ZooError
from zoo.base.machine.int8 import Int8Linear, quantise

Remember = Callable[..., Tensor]
IDS = [2, 7, 9, 9, 30, 11, 12]


@torch.inference_mode()
def feed(
    decoder: Decoder, memories: list[Tensor], ids: list[int], pieces: list[int], heads: Any
) -> tuple:
    """Hidden states and weights of ``ids``, fed to every stream in pieces of these sizes."""
    state: dict[str, Any] = {
        "memory": decoder.project_memories(memories),
        "cache": decoder.cache(streams=len(memories), room=0),
        "layers": decoder.prepare(heads),
    }
    outputs, first = [], 0
    for size in pieces:
        places = torch.arange(first, first + size).expand(len(memories), -1)
        visible = torch.arange(first + size) <= places[..., None]
        inputs = torch.tensor(ids[first : first + size]).expand(len(memories), -1)
        outputs.append(decoder(inputs, places, visible, **state))
        state["cache"].length += size
        first += size
    return tuple(torch.cat(parts, dim=1) for parts in zip(*outputs, strict=True))


@torch.inference_mode()
@pytest.mark.parametrize("pieces", [[7], [3, 1, 2, 1]])
def test_logits_and_weights_are_transformers(
    family: Any, memory: Remember, pieces: list[int]
) -> None:
    states = memory(9)
    expected = family.attention(states, IDS)
    hidden, weights = feed(family.decoder, [states], IDS, pieces, {1: None, 2: [3, 0]})
    assert weights.shape == (1, 7, 6, 9)
    torch.testing.assert_close(weights[0, :, :4], expected[1].transpose(0, 1), rtol=0, atol=1e-9)
    torch.testing.assert_close(
        weights[0, :, 4:], expected[2][[3, 0]].transpose(0, 1), rtol=0, atol=1e-9
    )
    logits = family.model(
        encoder_outputs=(states[None],), decoder_input_ids=torch.tensor([IDS])
    ).logits
    torch.testing.assert_close(
        family.decoder.head(hidden).log_softmax(-1), logits.log_softmax(-1), rtol=0, atol=1e-9
    )


def test_a_padded_memory_is_as_good_as_its_own(family: Any, memory: Remember) -> None:
    short, long = memory(4, seed=1), memory(11, seed=2)
    hidden, weights = feed(family.decoder, [short, long], IDS, [7], {0: None})
    for row, states in enumerate([short, long]):
        alone, looked = feed(family.decoder, [states], IDS, [7], {0: None})
        torch.testing.assert_close(hidden[row], alone[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(weights[row, :, :, : len(states)], looked[0], rtol=0, atol=1e-12)
    assert (weights[0, :, :, 4:] == 0).all()


def test_weights_are_computed_for_the_chosen_layer_alone(
    family: Any, memory: Remember, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[Any] = []
    original = layers.weights
    monkeypatch.setattr(
        layers, "weights", lambda *given: computed.append(given[-1]) or original(*given)
    )
    plain, none = feed(family.decoder, [memory(5)], IDS, [7], {})
    assert (computed, none.shape) == ([], (1, 7, 0, 0))
    with_weights, _ = feed(family.decoder, [memory(5)], IDS, [7], {2: [1]})
    assert computed == [[1]]
    assert with_weights.equal(plain)  # the words never depend on whether anyone looks


@pytest.mark.parametrize("name", ["speech_to_text", "whisper", "seamless_m4t", "seamless_m4t_v2"])
def test_a_token_takes_few_operations(
    name: str, make_family: Callable[[str], Any], memory: Remember
) -> None:
    """Three norms, six products, two attentions, an activation, three sums, and the cache."""
    decoder = make_family(name).decoder.float()  # its weights can be joined, unlike inference's
    given = torch.tensor([[7]]), torch.tensor([[0]]), torch.ones(1, 1, 1).bool()
    with torch.inference_mode():
        steps = {
            "memory": decoder.project_memories([memory(9).float()]),
            "cache": decoder.cache(streams=1, room=0),
            "layers": decoder.prepare({}),
        }
        with Operations() as counted:
            decoder(*given, **steps)
    assert counted.count <= 16 * decoder.depth + 16


def test_a_table_of_sines_grows(memory: Remember, make_family: Callable[[str], Any]) -> None:
    """Speech2Text has 64 positions, Seamless 24; neither may wrap or run out."""
    for name in ("speech_to_text", "seamless_m4t", "seamless_m4t_v2"):
        grown, long = make_family(name), make_family(name)
        long.decoder.module.embed_positions.make_weights(500, 16, 1)
        assert len(grown.decoder.module.embed_positions.weights) < 100
        ids = [7 + place % 20 for place in range(150)]
        for pieces in ([150], [20, 130]):
            hidden, _ = feed(grown.decoder, [memory(5)], ids, pieces, {})
            expected, _ = feed(long.decoder, [memory(5)], ids, pieces, {})
            torch.testing.assert_close(hidden, expected, rtol=0, atol=1e-12)
        assert grown.decoder.room is None
        assert grown.decoder.module.embed_positions.weights.dtype == torch.float64


def test_a_position_table_has_a_last_position(make_family: Callable[[str], Any]) -> None:
    assert make_family("whisper").decoder.room == 64


@torch.inference_mode()
def test_half_precision_stays_near(make_family: Callable[[str], Any], memory: Remember) -> None:
    for name in ("speech_to_text", "whisper", "seamless_m4t", "seamless_m4t_v2"):
        family_copy = make_family(name)
        exact, _ = feed(family_copy.decoder, [memory(5)], IDS, [7], {})
        expected = family_copy.decoder.head(exact).log_softmax(-1)
        family_copy.model.to(torch.bfloat16)
        hidden, weights = feed(family_copy.decoder, [memory(5), memory(3)], IDS, [3, 4], {1: None})
        found = family_copy.decoder.head(hidden).float().log_softmax(-1)
        assert (hidden.dtype, found.dtype, weights.dtype) == (
            torch.bfloat16,
            torch.float32,
            torch.float32,
        )
        assert (found[0] - expected[0]).abs().mean() < 0.2


def test_other_decoders_are_refused() -> None:
    with pytest.raises(
        ZooError,
        match=r"A Linear does not fit as decoder; choose one of: Speech2TextDecoder, Whisper",
    ):
        Decoder(nn.Linear(2, 2), nn.Linear(2, 2))


@torch.inference_mode()
@pytest.mark.parametrize("name", ["speech_to_text", "whisper", "seamless_m4t", "seamless_m4t_v2"])
def test_int8_weights_are_those_that_each_step_reads(
    make_family: Callable[[str], Any], memory: Remember, name: str
) -> None:
    """Keys and values of the source are projected once; no bound is near a measured error."""
    decoder = make_family(name).decoder
    expected, expected_weights = feed(decoder, [memory(9)], IDS, [3, 1, 2, 1], {1: None})
    quantise(decoder.step_layers())
    for layer in decoder.layers:
        cross = getattr(layer, decoder.family.cross)
        assert type(cross.k_proj) is type(cross.v_proj) is nn.Linear
        assert type(cross.q_proj) is type(layer.self_attn.k_proj) is Int8Linear
    assert type(decoder.head) is Int8Linear
    for pieces in ([3, 1, 2, 1], [7]):
        hidden, weights = feed(decoder, [memory(9)], IDS, pieces, {1: None})
        assert hidden.dtype == expected.dtype
        assert 0 < float((hidden - expected).norm() / expected.norm()) < 0.2
        assert float((weights - expected_weights).abs().max()) < 0.2
