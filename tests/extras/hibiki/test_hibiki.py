"""Hibiki on tiny weights in the published layout: streaming, ends of sources, refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.fixtures.hibiki_layout import FIRST, WEIGHTS, ZERO, hibiki
from tests.fixtures.streams import new_system
from zoo.backbones.base import shapes_of_weights
from zoo.base.errors import ZooError
from zoo.base.types import Instance, Request, SpeechChunk
from zoo.extras.hibiki.codec import FRAME
from zoo.extras.hibiki.hibiki import Hibiki, SamplingConfig
from zoo.extras.hibiki.network import HibikiNetwork, Ring, rotate
from zoo.extras.hibiki.weights import END
from zoo.policies.turn_taking import TurnTaking
from zoo.streaming.simulate import Source, simulate
from zoo.synthesizers.own_speech import OwnSpeech
from zoo.systems.base import StreamingSystem

Load = Callable[..., Hibiki]
DIRECTION = {"source_language": "fr", "target_language": "en", "end_silence_seconds": 0.001}


def noise(samples: int, seed: int = 0) -> Tensor:
    return torch.randn(samples, generator=torch.Generator().manual_seed(seed)) / 3


def speaking(backbone: Hibiki, **options: Any) -> StreamingSystem:
    given = {"chunk_seconds": 0.32, "loaded": True, "synthesizer": OwnSpeech(), **DIRECTION}
    system = new_system(backbone, TurnTaking(), **given | options)
    return system.eval()


def streamed(system: StreamingSystem, *waves: Tensor, batch: int = 1) -> list[Instance]:
    sources = [Source(f"t{i}", wave.split(system.chunk_samples)) for i, wave in enumerate(waves)]
    instances = simulate(system, sources, batch_size=batch)
    return sorted(instances, key=lambda instance: instance.index)


def speech(instance: Instance) -> Tensor:
    return torch.cat([output.samples for output in instance.speech])


@pytest.mark.parametrize("opening", ["silence", "repeat"])
def test_chunks_of_any_size_give_the_output_of_one_chunk(
    zero: Path, loaded: Load, opening: str
) -> None:
    wave = noise(30 * FRAME + 500)
    backbone = loaded(zero, opening=opening)
    (whole,) = streamed(speaking(backbone, chunk_seconds=10.0), wave)
    assert len(whole.units) > 5
    for seconds in (0.08, 0.2, 0.32):
        (parts,) = streamed(speaking(backbone, chunk_seconds=seconds), wave)
        assert parts.text == whole.text
        torch.testing.assert_close(speech(parts), speech(whole), rtol=1e-4, atol=1e-4)
        assert parts.delays[0] < whole.delays[0]


@pytest.mark.parametrize("settings", [ZERO, FIRST], ids=["zero", "first"])
def test_sampled_streams_of_a_batch_are_those_alone(
    tmp_path: Path, loaded: Load, settings: dict[str, Any]
) -> None:
    """Each stream has random numbers of its own, and streams end at different times."""
    hibiki(tmp_path / "model", **settings)
    system = speaking(loaded(tmp_path / "model", sampling=SamplingConfig(top_k=9)))
    waves = [noise(samples, seed) for seed, samples in enumerate((41_000, 9_000, 30_720))]
    alone, batch = streamed(system, *waves), streamed(system, *waves, batch=3)
    for one, other in zip(alone, batch, strict=True):
        assert one.text == other.text
        assert one.delays == other.delays
        torch.testing.assert_close(speech(one), speech(other))
    assert len({instance.text for instance in alone}) == len(waves)


def masked(network: HibikiNetwork, tokens: Tensor) -> Tensor:
    """The temporal Transformer over all frames at once; (frames, streams) to (frames, width)."""
    stack, frames = network.config.temporal, len(tokens)
    places = torch.arange(frames)
    distance = places[:, None] - places
    mask = (distance >= 0) & (distance < stack.context)
    embeddings = [network.text_emb, *network.emb]
    hidden = sum(embed(tokens[:, index]) for index, embed in enumerate(embeddings))
    for layer in network.transformer.layers:
        projected = layer.self_attn.in_projs[0](layer.norm1(hidden))
        size = stack.width // stack.heads
        query, keys, values = projected.unflatten(-1, (-1, size)).split(
            [stack.heads, stack.groups, stack.groups], dim=1
        )
        query, keys = rotate(query, places, stack), rotate(keys, places, stack)
        shared = stack.heads // stack.groups
        keys, values = (one.repeat_interleave(shared, dim=1) for one in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", query, keys) / size**0.5
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        attended = torch.einsum("hqk,khd->qhd", weights, values).flatten(1)
        hidden = hidden + layer.self_attn.out_projs[0](attended)
        hidden = hidden + layer.gating[0](layer.norm2(hidden))
    return network.out_norm(hidden)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["rope", "rope_concat"])
def test_steps_with_caches_are_one_pass_without(tmp_path: Path, loaded: Load, kind: str) -> None:
    """More frames than the context has, so that the oldest keys are replaced."""
    hibiki(tmp_path / "model", context=70, positional_embedding=kind)
    network = loaded(tmp_path / "model").network
    tokens = torch.randint(0, 30, (150, 7), generator=torch.Generator().manual_seed(0))
    rings = [Ring(70) for _ in network.transformer.layers]
    steps = [
        network.step(row[None], [rings], torch.tensor([frame])) for frame, row in enumerate(tokens)
    ]
    torch.testing.assert_close(torch.cat(steps), masked(network, tokens))


def ends(backbone: Hibiki, *, at: int | None) -> list[int]:
    """Let the model write ``</s>`` in every fifth frame and a word otherwise; the frames' numbers.

    at: only in this frame.
    """
    frames: list[int] = []
    record = backbone._record

    def replaced(state: Any, turn: Any, token: int, codes: Tensor) -> None:
        is_end = state.frame % 5 == 4 if at is None else state.frame == at
        frames.append(state.frame)
        record(state, turn, END if is_end else 10, codes)

    backbone._record = replaced  # type: ignore[method-assign]
    return frames


def test_a_text_ends_after_the_source_and_its_speech_a_frame_earlier(
    zero: Path, loaded: Load
) -> None:
    """Two frames of silence precede 10 frames of source, and frame 12 marks the end."""
    backbone = loaded(zero)
    frames = ends(backbone, at=None)
    (instance,) = streamed(speaking(backbone), noise(10 * FRAME - 20))
    # the text ends in frame 14, and the codes of the speech of frame 13 are complete in frame 15
    assert frames == list(range(16))
    assert speech(instance).numel() == 14 * FRAME
    # speech of frame 2 is complete when frame 4 has been received
    assert instance.speech[0].delay == pytest.approx(0.32)
    assert max(instance.delays) <= instance.source_length


def test_a_text_that_does_not_end_is_cut_off(zero: Path, loaded: Load) -> None:
    backbone = loaded(zero, end_seconds=0.8)
    frames = ends(backbone, at=3)
    system = speaking(backbone)
    session = system.open("t")
    truncated: list[bool] = []
    backbone.commit = lambda *given: truncated.append(given[1].truncated)  # type: ignore[method-assign]
    system.step([session], [SpeechChunk(noise(10 * FRAME - 20), final=True)])
    assert truncated == [True]
    assert len(frames) == 2 + 10 + 1 + 10


def test_speech_begins_with_the_first_word(zero: Path, loaded: Load) -> None:
    backbone = loaded(zero)
    record = backbone._record

    def replaced(state: Any, turn: Any, token: int, codes: Tensor) -> None:
        record(state, turn, 10 if state.frame == 9 else 3, codes)

    backbone._record = replaced  # type: ignore[method-assign]
    (instance,) = streamed(speaking(backbone, chunk_seconds=0.08), noise(20 * FRAME))
    # frame 9 is known when frame 7 of the source has been received, its speech two frames later
    assert instance.delays == pytest.approx((8 * 0.08,))
    assert instance.speech[0].delay == pytest.approx(10 * 0.08)
    gaps = [b.delay - a.delay for a, b in zip(instance.speech, instance.speech[1:], strict=False)]
    assert all(gap <= 0.08 + 1e-6 for gap in gaps)


def test_a_long_stream_keeps_neither_audio_nor_text(zero: Path, loaded: Load) -> None:
    system = speaking(loaded(zero))
    session = system.open("t")
    for chunk in noise(100 * FRAME).split(system.chunk_samples):
        system.step([session], [SpeechChunk(chunk)])
    assert session.audio.numel() == 0
    assert session.prefix_ids.numel() <= 5  # of one step, and the token before it


def test_text_alone_needs_no_speech(zero: Path, loaded: Load) -> None:
    backbone = loaded(zero)
    wave = noise(20 * FRAME)
    (spoken,) = streamed(speaking(backbone), wave)
    (silent,) = streamed(speaking(backbone, synthesizer=None), wave)
    assert silent.text == spoken.text
    assert not silent.speech


def test_weights_of_steps_in_one_tensor_are_the_same_model(
    tmp_path: Path, zero: Path, loaded: Load
) -> None:
    hibiki(tmp_path / "joined", joined=True)
    state = loaded(zero).network.state_dict()
    joined = loaded(tmp_path / "joined").network.state_dict()
    assert state.keys() == joined.keys()
    assert all(torch.equal(state[name], joined[name]) for name in state)


def test_an_early_end_counts_as_padding(zero: Path, loaded: Load) -> None:
    embeddings = loaded(zero).network.text_emb.weight
    assert torch.equal(embeddings[END], embeddings[3])


def test_numbers_of_sampling() -> None:
    paper, released = SamplingConfig(), SamplingConfig(released=True)
    published = FIRST["lm_gen_config"]
    assert paper.numbers(published) == ((0.8, 250), (0.8, 250))
    assert released.numbers(published) == ((0.8, 50), (0.8, 250))
    assert released.numbers({}) == ((0.7, 25), (0.8, 250))
    assert released.numbers({"use_sampling": False}) == ((0, 1), (0, 1))


@pytest.mark.parametrize(
    ("source", "target", "options"),
    [("en", "de", {}), ("it", "en", {}), ("fr", "de", {}), ("de", "en", {"sources": ["fr"]})],
)
def test_other_languages_are_refused(source: str, target: str, options: dict[str, Any]) -> None:
    backbone = Hibiki(name="none", **options)
    languages = {"source_language": source, "target_language": target}
    with pytest.raises(ZooError, match=rf"^Hibiki translates .* into en, not {source} into"):
        speaking(backbone, **languages)


def without(key: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        settings = json.loads((folder / "config.json").read_text())
        settings.pop(key)
        (folder / "config.json").write_text(json.dumps(settings))

    return change


def setting(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(settings | values))

    return change


def tensor(name: str, value: Tensor | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        tensors.pop(name, None)
        save_file(tensors | ({} if value is None else {name: value}), folder / WEIGHTS)

    return change


NORM = "transformer.layers.1.norm1.alpha"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("dim"), r"is no description of a Hibiki: it lacks 'dim'\.$"),
        (without("gating"), r"has gating='none', which no published Hibiki has\.$"),
        (setting(norm="layer_norm"), r"has norm='layer_norm', which no published Hibiki has\.$"),
        (setting(positional_embedding="sin"), r"it lacks 'sin'\.$"),
        (setting(delays=[0, 2]), r"it does not fit: 3 of 7 streams are spoken, with delays"),
        (
            setting(dim="wide"),
            r"it does not fit: dim='wide' is no positive number of at most 16777216\.$",
        ),
        (setting(text_card=46), r"hibiki.safetensors does not fit its config.json: "),
        (tensor(NORM, None), rf"lacks weights of its network: {NORM}\.$"),
        (tensor(NORM, torch.ones(1, 1, 5)), rf"{NORM} has shape \[1, 1, 5\], the network needs"),
        (tensor("more", torch.ones(1)), r"more has shape \[1\], the network needs no such weights"),
        (tensor(NORM, torch.full((1, 1, 32), torch.nan)), r"are damaged: "),
        (lambda folder: (folder / "config.json").unlink(), r"config.json"),
        (lambda folder: (folder / WEIGHTS).unlink(), r"is missing, damaged or no safetensors"),
        (lambda folder: (folder / "tokenizer.model").unlink(), r"tokenizer.model is no tokenizer"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_in_one_sentence(
    tmp_path: Path, loaded: Load, change: Callable[[Path], None], message: str
) -> None:
    hibiki(tmp_path / "model")
    change(tmp_path / "model")
    with pytest.raises(ZooError, match=message) as refused:
        loaded(tmp_path / "model")
    assert str(refused.value).count("\n") == 0


def test_shapes_are_checked_without_values(tmp_path: Path, loaded: Load) -> None:
    hibiki(tmp_path / "model")
    with shapes_of_weights():
        assert loaded(tmp_path / "model").network.text_linear.weight.is_meta
    tensor(NORM, torch.ones(1, 1, 5))(tmp_path / "model")
    with shapes_of_weights(), pytest.raises(ZooError, match="the network needs"):
        loaded(tmp_path / "model")


def test_a_part_of_a_turn_cannot_be_written(zero: Path, loaded: Load) -> None:
    system = speaking(loaded(zero))
    session = system.open("t")
    session.receive(SpeechChunk(noise(5 * FRAME)))
    (hypothesis,) = system.backbone.decode([session], [Request()], frozenset())
    with pytest.raises(ZooError, match="policy=turn_taking"):
        system.backbone.commit(session, hypothesis, hypothesis.num_new_tokens - 1)
