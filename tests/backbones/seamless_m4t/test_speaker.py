"""Units and waves by Transformers' own modules.

Attention of the query that predicts a unit, limits, no leaks.
"""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.backbones.seamless_m4t.conftest import Load
from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.base import Units
from zoo.backbones.decoding.guessed_search import EarlierAnswers
from zoo.backbones.decoding.unit_attention import UnitAttention
from zoo.backbones.seamless_m4t.speaker import UnitSpeaker
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.errors import ZooError
from zoo.base.languages import language

GERMAN = language("de")
LENGTHS = (9, 4, 17, 3)


def random_states(positions: int) -> Tensor:
    return torch.randn(
        positions, 16, generator=torch.Generator().manual_seed(positions), dtype=torch.float64
    )


@torch.inference_mode()
def spoken(speaker: UnitSpeaker, *lengths: int, layer: int | None = 1) -> list[Units]:
    states = [random_states(n) for n in lengths]
    return speaker.units(states, [GERMAN] * len(lengths), UnitAttention(layer))


@pytest.mark.parametrize("layer", [0, 1, None])
@torch.inference_mode()
def test_units_and_their_attention_are_transformers(
    backbone: SeamlessM4TSpeech, theirs: Any, layer: int | None
) -> None:
    """Row i is of the position that was fed unit i - 1 (the language for the first)."""
    for length, units in zip(LENGTHS, spoken(backbone.speaker, *LENGTHS, layer=layer), strict=True):
        assert len(units.ids)
        fed = [2, 4 + 12 + 1, *(units.ids + 4).tolist()]
        out = theirs.t2u_model(
            inputs_embeds=random_states(length)[None],
            decoder_input_ids=torch.tensor([fed]),
            output_attentions=True,
        )
        best = out.logits[0, 1:].argmax(-1).tolist()
        assert best[: len(units.ids)] == fed[2:]
        assert units.truncated == (best[-1] != 2)
        chosen = out.cross_attentions if layer is None else [out.cross_attentions[layer]]
        expected = torch.stack(list(chosen)).mean(dim=(0, 2))[0]
        torch.testing.assert_close(
            units.attention, expected[1 : 1 + len(units.ids)], rtol=0, atol=1e-9
        )
        assert units.opening == 2


@torch.inference_mode()
def test_a_unit_has_the_attention_of_its_own_position_and_of_chosen_heads(
    backbone: SeamlessM4TSpeech,
) -> None:
    def attention(**options: Any) -> Tensor:
        states = [random_states(9)]
        [units] = backbone.speaker.units(states, [GERMAN], UnitAttention(**options))
        return units.attention

    every = attention(average=False)  # (units, layers x heads, positions)
    layers, heads = backbone.unit_attention_shape()
    assert every.shape[1] == layers * heads
    exact = {"rtol": 0, "atol": 1e-12}
    torch.testing.assert_close(attention(), every.mean(dim=1), **exact)
    torch.testing.assert_close(
        attention(heads=[[0, 1], [1, 0]]), every[:, [1, heads]].mean(dim=1), **exact
    )
    own = attention(average=False, query="own")
    assert len(own) == len(every)
    torch.testing.assert_close(own[:-1], every[1:], **exact)  # fed unit i predicts unit i + 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": "both"}, r"backbone\.unit_query 'both'; choose one of: predicting, own"),
        ({"heads": []}, r"unit_heads must be null or pairs of a layer and a head, not \[\]"),
        ({"heads": [1, 2]}, r"unit_heads must be null or pairs .*, not \[1, 2\]"),
    ],
)
def test_attention_that_does_not_exist_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        UnitAttention(**options)


def test_a_batch_of_texts_is_each_alone(backbone: SeamlessM4TSpeech) -> None:
    together = spoken(backbone.speaker, *LENGTHS)
    for length, units in zip(LENGTHS, together, strict=True):
        [alone] = spoken(backbone.speaker, length)
        assert units.ids.tolist() == alone.ids.tolist()
        torch.testing.assert_close(units.attention, alone.attention, rtol=0, atol=1e-9)
    assert len({len(units.ids) for units in together}) > 1


def test_a_limit_truncates_units_and_flags_it(load: Load, backbone: SeamlessM4TSpeech) -> None:
    whole = [units for units in spoken(backbone.speaker, *LENGTHS) if not units.truncated]
    longest = max(len(units.ids) for units in whole)
    for limit in (longest - 1, longest):
        for length, units in zip(
            LENGTHS, spoken(load(max_units=limit).speaker, *LENGTHS), strict=True
        ):
            [expected] = spoken(backbone.speaker, length)
            assert units.ids.tolist() == expected.ids[:limit].tolist()
            assert len(units.attention) == len(units.ids)
            assert units.truncated == (expected.truncated or len(expected.ids) > limit)


def test_control_symbols_are_never_generated(load: Load) -> None:
    """Neither padding, which would be unit -3, nor a language."""
    speaker = load().speaker
    with torch.no_grad():
        speaker.t2u.lm_head.weight[[0, 1, 3, *range(16, 25)]] = 10 * torch.randn(
            12, 16, dtype=torch.float64
        )
    for units in spoken(speaker, *LENGTHS):
        assert all(0 <= unit < 12 for unit in units.ids.tolist())


def test_a_layer_that_is_not_there_is_refused(backbone: SeamlessM4TSpeech) -> None:
    with pytest.raises(ZooError, match="the layers 0 to 1, not 2"):
        spoken(backbone.speaker, 5, layer=2)


@torch.inference_mode()
def test_waves_are_transformers_without_what_a_batch_is_filled_up_with(
    backbone: SeamlessM4TSpeech, theirs: Any
) -> None:
    units = [torch.tensor(ids) for ids in ([3, 1, 4, 1, 5, 9, 2, 6], [5], [8, 8, 0], [])]
    voiced = backbone.vocode(units, GERMAN)
    for ids, speech in zip(units, voiced, strict=True):
        assert len(speech.samples) == backbone.unit_samples * int(speech.durations.sum())
        assert len(speech.durations) == len(ids)
        if len(ids):
            wave, _ = theirs.vocoder(
                ids[None], spkr_id=torch.tensor([[0]]), lang_id=torch.tensor([[1]])
            )
            torch.testing.assert_close(speech.samples, wave[0].float(), rtol=0, atol=1e-6)
            assert int(speech.durations.min()) >= 1
    assert backbone.unit_samples == 320
    assert int(voiced[0].durations.max()) > 1


@torch.inference_mode()
@pytest.mark.parametrize("needed", [range(3), range(30, 31), range(20, 60), range(55, 60)])
def test_the_samples_of_needed_units_are_those_of_the_whole_text(
    backbone: SeamlessM4TSpeech, needed: range
) -> None:
    units = torch.arange(60) % 12
    [whole] = backbone.vocode([units], GERMAN)
    [part] = backbone.vocode([units], GERMAN, needed=[needed])
    assert torch.equal(part.durations, whole.durations)
    assert len(part.samples) == len(whole.samples)
    ends = whole.durations.cumsum(dim=0) * backbone.unit_samples
    first = int(ends[needed.start - 1]) if needed.start else 0
    last = int(ends[needed.stop - 1])
    torch.testing.assert_close(
        part.samples[first:last], whole.samples[first:last], rtol=0, atol=1e-6
    )
    computed = part.samples.nonzero()
    assert int(computed[-1] - computed[0]) < last - first + 50 * backbone.unit_samples


def test_voices_and_languages_sound_different(load: Load, backbone: SeamlessM4TSpeech) -> None:
    units = [torch.tensor([3, 1, 4])]
    [first], [second] = backbone.vocode(units, GERMAN), load(voice=1).vocode(units, GERMAN)
    [french] = backbone.vocode(units, language("fr"))
    assert not torch.allclose(first.samples, second.samples)
    assert not torch.allclose(first.samples, french.samples)


def test_a_vocoder_that_does_not_fit_is_refused(load: Load) -> None:
    speaker = load().speaker
    arguments = {"languages": replace(speaker.languages, name="X"), "voice": 0, "max_units": 9}
    speaker.vocoder.config.upsample_kernel_sizes = [20, 16, 7]
    with pytest.raises(ZooError, match="vocoder of X must speak at 16 kHz"):
        UnitSpeaker(speaker.t2u, speaker.vocoder, **arguments)
    speaker.vocoder.config.unit_hifi_gan_vocab_size = 22
    with pytest.raises(
        ZooError, match="vocoder of X has 22 units; its text-to-unit model generates at most 21"
    ):
        UnitSpeaker(speaker.t2u, speaker.vocoder, **arguments)


@pytest.mark.parametrize("capture", ["off", "static"])
@pytest.mark.parametrize("kind", ["right", "shifted", "wrong", "none"])
@torch.inference_mode()
def test_any_earlier_units_give_the_same_units(
    load: Load, monkeypatch: pytest.MonkeyPatch, capture: str, kind: str
) -> None:
    """Alone and in a batch whose streams end one after the other; right ones save passes."""
    passes: list[int] = []
    run = Decoder.run

    def counted(self: Decoder, ids: Tensor, *args: Any, **options: Any) -> Any:
        passes.append(ids.shape[1])
        return run(self, ids, *args, **options)

    monkeypatch.setattr(Decoder, "run", counted)
    speaker = load(capture=capture).speaker
    for lengths in [(9,), LENGTHS]:
        passes.clear()
        expected = spoken(speaker, *lengths)
        plain = len(passes)
        memories = [EarlierAnswers() for _ in lengths]
        for memory, units in zip(memories, expected, strict=True):
            ids = [unit + 4 for unit in units.ids.tolist()]
            texts = {"right": ids, "shifted": [5, *ids[1:3], 6, *ids[3:]], "wrong": ids[::-1]}
            if kind in texts:
                memory.append(texts[kind], 2)
        passes.clear()
        states = [random_states(length) for length in lengths]
        arguments = states, [GERMAN] * len(lengths), UnitAttention(1)
        for units, same in zip(speaker.units(*arguments, earlier=memories), expected, strict=True):
            assert units.ids.tolist() == same.ids.tolist()
            assert units.truncated == same.truncated
            torch.testing.assert_close(units.attention, same.attention, rtol=0, atol=1e-9)
        assert len(passes) < plain if kind == "right" else len(passes) <= plain
        # The units are guessed next time.
        passes.clear()
        speaker.units(*arguments, earlier=memories)
        assert len(passes) < plain
