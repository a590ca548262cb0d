"""Tiny checkpoints of every kind: encoder memory and tokens equal those of Transformers."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoModelForSpeechSeq2Seq,
    AutoProcessor,
    SeamlessM4TForSpeechToText,
    SeamlessM4Tv2ForSpeechToText,
    Speech2TextForConditionalGeneration,
    WhisperForConditionalGeneration,
)

from tests.fixtures.streams import new_system, white_noise
from zoo.backbones.architectures.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.base import is_restored
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.seamless_m4t.seamless_m4t import SeamlessM4T
from zoo.backbones.speech_to_text import SpeechToText
from zoo.backbones.whisper import Whisper
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Cut, Decision, Hypothesis, Request, SpeechChunk, Task
from zoo.extras.canary import Canary
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem

ALIGNED = frozenset({Capability.ALIGNMENT})
SIZES = (32_000, 20_480, 27_000)


@dataclass(frozen=True)
class Kind:
    """A backbone, its model in Transformers, a language pair and the arguments for ``generate``."""

    backbone: type[EncoderDecoder]
    model: Any
    direction: tuple[str, str]
    generation: dict[str, Any]
    prompted: bool = False  # whether the opening is an argument of ``generate``


# the last: with its opening
WHISPER = {"language": "de", "task": "translate", "force_unique_generate_call": True}
ALL = {
    "speech_to_text": Kind(SpeechToText, Speech2TextForConditionalGeneration, ("en", "de"), {}),
    "whisper": Kind(Whisper, WhisperForConditionalGeneration, ("de", "en"), WHISPER),
    "canary": Kind(Canary, AutoModelForSpeechSeq2Seq, ("en", "de"), {}, prompted=True),
    "seamless_m4t": Kind(
        SeamlessM4T, SeamlessM4TForSpeechToText, ("en", "de"), {"tgt_lang": "deu"}
    ),
    "seamless_m4t_v2": Kind(
        SeamlessM4T, SeamlessM4Tv2ForSpeechToText, ("en", "zh"), {"tgt_lang": "cmn"}
    ),
}
Folders = Callable[[str], Path]


def waveform(samples: int, seed: int = 0) -> Tensor:
    """Noise that comes and goes."""
    noise = white_noise(samples, seed)
    return 0.1 * noise * torch.sin(torch.arange(samples) / 3000 * (1 + seed)).abs()


def load(kind: str, folder: Path, **options: Any) -> EncoderDecoder:
    settings = {
        "alignment": AlignmentConfig(layer=1, normalisation="z_score"),
        "search": SearchConfig(),
    } | options
    backbone = ALL[kind].backbone(name=str(folder), dtype="float64", max_tokens=12, **settings)
    backbone.load()
    assert all(is_restored(parameter) for parameter in backbone.parameters())
    return backbone


def system(backbone: EncoderDecoder, direction: tuple[str, str]) -> StreamingSystem:
    return new_system(
        backbone,
        AlignAtt(frames=2),
        RecentWords(words=3),
        chunk_seconds=0.64,
        source_language=direction[0],
        target_language=direction[1],
        loaded=True,
    )


def session_with_audio(
    backbone: EncoderDecoder, direction: tuple[str, str], wave: Tensor
) -> Session:
    """A session that has received all of ``wave``."""
    session = system(backbone, direction).open("talk")
    session.receive(SpeechChunk(wave, final=True))
    return session


def look(backbone: EncoderDecoder, session: Session) -> Hypothesis:
    [hypothesis] = backbone.decode([session], [Request()], ALIGNED)
    return hypothesis


@cache
def reference(kind: str, folder: Path) -> tuple[Any, Any]:
    """The model in Transformers and its feature extractor."""
    model = ALL[kind].model.from_pretrained(folder, dtype=torch.float64).eval()
    return model, AutoProcessor.from_pretrained(folder).feature_extractor


@torch.inference_mode()
def theirs(kind: str, folder: Path, wave: Tensor, **options: Any) -> tuple[Tensor, list[int]]:
    """Encoder memory (frames, width), tokens of ``generate``; published feature extractor."""
    model, extractor = reference(kind, folder)
    features = extractor(wave.numpy(), sampling_rate=16_000, return_tensors="pt")
    features["input_features"] = features["input_features"].double()
    padding = {model.config.pad_token_id} - {model.config.eos_token_id}
    generation = (
        ALL[kind].generation
        | {"max_new_tokens": 12, "suppress_tokens": list(padding) or None}
        | options
    )
    generation = {key: value for key, value in generation.items() if value is not None}
    ids = model.generate(**features, **generation)[0].tolist()
    encoded = model.get_encoder()(**features)
    memory, mask = encoded.last_hidden_state[0], encoded.get("attention_mask")
    return memory if mask is None else memory[mask[0].bool()], ids


def closed(hypothesis: Hypothesis, end: int) -> list[int]:
    return [
        *hypothesis.token_ids.tolist(),
        *([end] if hypothesis.finished and not hypothesis.truncated else []),
    ]


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("kind", ALL)
def test_one_request_for_all_audio_equals_generate(kind: str, beams: int, folders: Folders) -> None:
    control = 0 if kind == "whisper" else 3
    backbone = load(kind, folders(kind), search=SearchConfig(beams=beams, no_repeat_ngram=control))
    texts = []
    for seed, samples in enumerate(SIZES):
        wave = waveform(samples - samples % 320, seed)
        session = session_with_audio(backbone, ALL[kind].direction, wave)
        options: dict[str, Any] = {"num_beams": beams, "no_repeat_ngram_size": control}
        if ALL[kind].prompted:
            opening = backbone.opening(session, Task.TRANSLATION)
            options["decoder_input_ids"] = torch.tensor([opening])
            options["suppress_tokens"] = backbone.never
        memory, ids = theirs(kind, folders(kind), wave, **options)
        texts.append(closed(look(backbone, session), backbone.end))
        torch.testing.assert_close(session.backbone_state.memory, memory, rtol=0, atol=1e-3)
        assert backbone.opening(session, Task.TRANSLATION) + texts[-1] == ids
    assert len({tuple(text) for text in texts}) > 1


@pytest.mark.parametrize("kind", ALL)
def test_a_batch_equals_its_streams_decoded_alone(kind: str, folders: Folders) -> None:
    backbone = load(kind, folders(kind))
    sessions = [
        session_with_audio(backbone, ALL[kind].direction, waveform(size, seed))
        for seed, size in enumerate(SIZES)
    ]
    for session, memory in zip(
        sessions,
        backbone.encode_audio(sessions, [session.audio for session in sessions]),
        strict=True,
    ):
        session.backbone_state = backbone.open(session)
        [expected] = backbone.encode_audio([session], [session.audio])
        torch.testing.assert_close(memory, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ALL)
def test_written_text_stays_and_every_token_is_aligned_within_the_audio(
    kind: str, folders: Folders
) -> None:
    backbone = load(kind, folders(kind))
    streaming_system = system(backbone, ALL[kind].direction)
    session = streaming_system.open("talk")
    session.receive(SpeechChunk(waveform(20_480)))
    first = look(backbone, session)
    assert first.num_new_tokens >= 2
    list(streaming_system._write(session, first, Decision(write=2)))
    assert session.prefix_ids.tolist() == first.token_ids[:2].tolist()
    assert (
        look(backbone, session).token_ids.tolist() == first.token_ids[2:].tolist()
        or first.truncated
    )
    session.receive(SpeechChunk(waveform(20_000, 1)))
    second = look(backbone, session)
    assert second.prefix_length == 2
    assert second.alignment is not None
    assert len(second.alignment) == 2 + second.num_new_tokens
    # a frame just begun may have none
    assert 0 <= ceil(40_480 / backbone.frame_samples) - second.num_frames <= 1
    assert second.alignment.isfinite().all()


@pytest.mark.parametrize("kind", ALL)
def test_a_cut_is_as_if_the_stream_began_there(kind: str, folders: Folders) -> None:
    backbone, wave = load(kind, folders(kind)), waveform(51_200)
    streaming_system = system(backbone, ALL[kind].direction)
    session = streaming_system.open("talk")
    session.receive(SpeechChunk(wave[:40_000]))
    look(backbone, session)
    cut = 5 * backbone.frame_samples
    streaming_system._forget(session, Cut(frames=5))
    session.receive(SpeechChunk(wave[40_000:], final=True))
    assert session.audio_start == cut
    fresh = session_with_audio(backbone, ALL[kind].direction, wave[cut:])
    assert look(backbone, session).token_ids.equal(look(backbone, fresh).token_ids)
    torch.testing.assert_close(
        session.backbone_state.memory, fresh.backbone_state.memory, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("samples", [1, 399, 700])
def test_a_few_samples_of_audio_are_no_error(kind: str, samples: int, folders: Folders) -> None:
    session = session_with_audio(load(kind, folders(kind)), ALL[kind].direction, waveform(samples))
    assert look(load(kind, folders(kind)), session).num_frames >= 1


@pytest.fixture
def broken(folders: Folders, tmp_path: Path) -> Folders:
    """A copy of a kind's checkpoint that a test may damage."""

    def copy(kind: str) -> Path:
        return Path(shutil.copytree(folders(kind), tmp_path / kind))

    return copy


def refuse(kind: str, folder: Path, message: str) -> None:
    with pytest.raises(ZooError, match=message):
        load(kind, folder)


def test_a_file_gets_no_progress_bar(folders: Folders, capfd: pytest.CaptureFixture[str]) -> None:
    folder = folders("whisper")
    capfd.readouterr()  # Transformers shows how it writes the folder
    load("whisper", folder)
    assert not capfd.readouterr().err


@pytest.mark.parametrize("kind", ALL)
def test_another_model_is_refused_by_its_type(kind: str, broken: Folders) -> None:
    folder = broken(kind)
    (folder / "config.json").write_text(json.dumps({"model_type": "bart"}))
    refuse(kind, folder, r"is a 'bart' by its config.json; as .* it must be a '")
    (folder / "config.json").write_text("{}")
    refuse(kind, folder, "has no config.json that states a model type")
    (folder / "config.json").write_text("{")
    refuse(kind, folder, "config.json .* cannot be read as JSON: ")
    (folder / "config.json").unlink()
    refuse(kind, folder, "has no config.json that states a model type")


@pytest.mark.parametrize("kind", ALL)
def test_a_missing_part_is_named(kind: str, broken: Folders) -> None:
    folder = broken(kind)
    for file in ("tokenizer.json", "vocab.json"):
        (folder / file).unlink(missing_ok=True)
    refuse(kind, folder, "tokenizer")
    shutil.rmtree(folder)
    folder = broken(kind)
    (folder / "processor_config.json").unlink()
    refuse(kind, folder, "has no feature extractor")


@pytest.mark.parametrize("kind", ALL)
def test_missing_and_damaged_weights_are_named(kind: str, broken: Folders) -> None:
    weights = broken(kind) / "model.safetensors"
    tensors = load_file(weights)
    name = next(name for name in tensors if name.endswith("k_proj.weight"))
    del tensors[name]
    save_file(tensors, weights, metadata={"format": "pt"})
    refuse(kind, weights.parent, f"lacks weights of a .*: {name}")
    weights.write_bytes(b"nothing")
    refuse(kind, weights.parent, "model.safetensors is damaged, or no model")
    weights.unlink()
    refuse(kind, weights.parent, "^The weights of .* cannot be loaded")


@pytest.mark.parametrize("kind", ALL)
def test_only_16_khz_is_accepted(kind: str, broken: Folders) -> None:
    folder = broken(kind)
    settings = json.loads((folder / "processor_config.json").read_text())
    settings["feature_extractor"]["sampling_rate"] = 8000
    (folder / "processor_config.json").write_text(json.dumps(settings))
    refuse(kind, folder, "sampling_rate=8000; only 16000 is supported")
