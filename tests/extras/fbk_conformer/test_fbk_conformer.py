"""A converted Conformer of FBK equals a plain restatement of its network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Speech2TextFeatureExtractor

from tests.extras.fbk_conformer.plain import PlainConformer
from tests.fixtures.fbk_layout import ARGUMENTS, write
from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.base import shapes_of_weights
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Cut, Request
from zoo.extras.fbk_conformer.convert import convert
from zoo.extras.fbk_conformer.fbk_conformer import FBKConformer
from zoo.streaming.session import Session

ALIGNED = frozenset({Capability.ALIGNMENT})
SIZES = (20_480, 12_800, 17_000)

Made = tuple[FBKConformer, PlainConformer]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """A converted backbone and the restatement on the same weights."""

    def made(*, beams: int = 1, **options: Any) -> Made:
        place = tmp_path_factory.mktemp("fbk")
        weights = write(place / "theirs", **options)
        convert(place / "theirs/checkpoint.pt", place / "ours", config=place / "theirs/config.yaml")
        backbone = FBKConformer(
            name=str(place / "ours"),
            search=SearchConfig(beams=beams),
            max_tokens=8,
            dtype="float64",
        )
        backbone.load()
        return backbone, PlainConformer(weights, ARGUMENTS)

    return made


def waveform(samples: int, seed: int = 0) -> Tensor:
    """Noise that comes and goes."""
    noise = white_noise(samples, seed, scale=0.1)
    return noise * torch.sin(torch.arange(samples) / 3000 * (1 + seed)).abs()


def features(wave: Tensor) -> Tensor:
    """Filter bank of Transformers, not normalised."""
    extractor = Speech2TextFeatureExtractor(do_ceptral_normalize=False)
    batch = extractor(wave.numpy(), sampling_rate=16_000, return_tensors="pt")
    return batch["input_features"][0].double()


def normalised(wave: Tensor, *, statistics: bool) -> Tensor:
    bins = features(wave)
    if statistics:
        return (bins - torch.linspace(8, 14, 80)) / torch.linspace(2, 4, 80)
    return (bins - bins.mean(dim=0)) / bins.std(dim=0, correction=0)


@pytest.mark.parametrize("statistics", [True, False])
@torch.inference_mode()
def test_the_encoder_output_of_a_batch_equals_the_restatement(
    make: Callable[..., Made], statistics: bool
) -> None:
    backbone, plain = make(statistics=statistics)
    waves = [waveform(size, seed) for seed, size in enumerate(SIZES)]
    sessions = [new_session(backbone, wave) for wave in waves]
    memories = backbone.encode_audio(sessions, waves)
    for wave, memory in zip(waves, memories, strict=True):
        expected = plain.encode(normalised(wave, statistics=statistics))
        assert memory.shape == expected.shape
        torch.testing.assert_close(memory, expected, rtol=0, atol=1e-3)  # float32 features


def test_a_converted_network_is_created_without_initial_values(make: Callable[..., Made]) -> None:
    backbone, _ = make()
    again = FBKConformer(name=backbone.name, dtype="float64")
    before = torch.get_rng_state()
    again.load()
    assert torch.equal(torch.get_rng_state(), before)
    for name, tensor in backbone.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])
    with shapes_of_weights():  # integers among the weights included
        FBKConformer(name=backbone.name).load()


@torch.inference_mode()
def test_greedy_tokens_and_alignment_equal_the_restatement(make: Callable[..., Made]) -> None:
    backbone, plain = make()
    texts = []
    for seed in range(4):
        session = new_session(backbone, waveform(SIZES[0], seed), prefix=[9, 20], final=True)
        [hypothesis] = backbone.decode([session], [Request()], ALIGNED)
        ids = [2, 9, 20]
        texts.append(hypothesis.token_ids.tolist())
        ended = hypothesis.finished and not hypothesis.truncated
        for token in [*texts[-1], *([2] if ended else [])]:
            log_probs, weights = plain.decode(ids, session.backbone_state.memory, layer=3)
            log_probs[-1, 1] = -torch.inf  # padding
            assert token == int(log_probs[-1].argmax())
            ids.append(token)
        # rows that predict a token, without the last frame
        expected = weights[: 2 + len(texts[-1]), :-1]
        assert hypothesis.alignment is not None
        torch.testing.assert_close(hypothesis.alignment.double(), expected, rtol=0, atol=1e-6)
    assert len({tuple(text) for text in texts}) > 1


@torch.inference_mode()
def test_a_text_has_at_least_one_token(make: Callable[..., Made]) -> None:
    backbone, _ = make()
    backbone.decoder.head.weight.zero_()
    backbone.decoder.module.layer_norm.bias.fill_(1.0)
    backbone.decoder.module.layer_norm.weight.zero_()
    backbone.decoder.head.weight[backbone.end] = 1.0
    session = new_session(backbone, waveform(SIZES[0]))
    [hypothesis] = backbone.decode([session], [Request()], ALIGNED)
    assert (hypothesis.num_new_tokens, hypothesis.finished) == (1, True)
    session = new_session(backbone, waveform(SIZES[0]), prefix=[9])
    [hypothesis] = backbone.decode([session], [Request()], ALIGNED)
    assert (hypothesis.num_new_tokens, hypothesis.finished) == (0, True)


@torch.inference_mode()
def test_a_cut_is_as_if_the_stream_began_there(make: Callable[..., Made]) -> None:
    backbone, _ = make(beams=5)
    wave = waveform(30_000)
    session = new_session(backbone, wave)
    backbone.decode([session], [Request()], ALIGNED)
    cut = Cut(frames=5)
    backbone.forget(session, cut)
    session.forget(cut)
    [cut_off] = backbone.decode([session], [Request()], ALIGNED)
    fresh = new_session(backbone, wave[5 * 640 :])
    [expected] = backbone.decode([fresh], [Request()], ALIGNED)
    assert cut_off.token_ids.equal(expected.token_ids)
    torch.testing.assert_close(
        session.backbone_state.memory, fresh.backbone_state.memory, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("samples", [1, 399, 700])
def test_a_few_samples_of_audio_are_no_error(make: Callable[..., Made], samples: int) -> None:
    backbone, _ = make()
    session: Session = new_session(backbone, waveform(samples))
    [hypothesis] = backbone.decode([session], [Request()], ALIGNED)
    assert hypothesis.num_frames >= 1


def test_the_defaults_are_those_of_the_agents() -> None:
    backbone = FBKConformer(name="anywhere")
    assert backbone.alignment == AlignmentConfig(layer=3, ignore_last=1)
    assert backbone.search == SearchConfig(beams=5)
    assert backbone.frame_samples == 640


def test_a_folder_that_is_no_converted_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ZooError, match=r"^There is no converted Conformer in .*zoo convert-fbk-conformer"
    ):
        FBKConformer(name=str(tmp_path)).load()
    (tmp_path / "config.json").write_text('{"model_type": "speech_to_text"}')
    with pytest.raises(ZooError, match="is damaged or describes no converted Conformer"):
        FBKConformer(name=str(tmp_path)).load()
