"""Voxtral-Realtime: tokens are those of Transformers' class, in chunks, batches and segments."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from tests.fixtures import tiny_checkpoints
from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.cascade.transcriber import CascadeState, transcribe
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Cut, Hypothesis, Request, SpeechChunk, Task
from zoo.config import build, compose
from zoo.extras.voxtral_realtime.voxtral_realtime import VoxtralRealtime, one_frame_each
from zoo.streaming.session import Session

FRAME = 1280
DELAY = 6
LEFT, RIGHT = 32, DELAY + 1 + 10  # frames of silence that Mistral's package adds
BEGIN, END, PADDING, FIRST_TEXT = 1, 2, 32, 40
ALIGNED = frozenset({Capability.ALIGNMENT})
TRANSCRIPTION = Request(task=Task.TRANSCRIPTION)

pytestmark = pytest.mark.skipif(
    not hasattr(transformers, "VoxtralRealtimeConfig"),
    reason="this Transformers has no Voxtral-Realtime",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("voxtral_realtime")
    tiny_checkpoints.voxtral_realtime(folder)
    return folder


def load(folder: Path, **options: Any) -> VoxtralRealtime:
    backbone = VoxtralRealtime(name=str(folder), dtype="float64", **options)
    backbone.load()
    return backbone


@pytest.fixture(scope="module")
def backbone(folder: Path) -> VoxtralRealtime:
    return load(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    network = transformers.VoxtralRealtimeForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    )
    return network.eval()


def speech(seconds: float, seed: int = 0) -> Tensor:
    """Noise whose loudness changes, so that tokens do."""
    wave = white_noise(round(seconds * 16_000), seed=seed, scale=0.1)
    loudness = white_noise(len(wave) // 4000 + 1, seed=seed + 1).exp()
    return wave * loudness.repeat_interleave(4000)[: len(wave)]


def generated(theirs: Any, folder: Path, wave: Tensor, delay: int = DELAY) -> list[int]:
    """Tokens of Transformers for a whole recording, padded as Mistral's package does."""
    completing = -len(wave) % FRAME
    silence = LEFT * FRAME, completing + (delay + 11) * FRAME
    extractor = transformers.AutoFeatureExtractor.from_pretrained(folder)
    features = extractor(np.pad(wave.numpy(), silence), sampling_rate=16_000, return_tensors="pt")
    prompt = [BEGIN] + [PADDING] * (LEFT + delay)
    ids = theirs.generate(
        input_ids=torch.tensor([prompt]),
        input_features=features["input_features"].double(),
        num_delay_tokens=delay,
        do_sample=False,
        suppress_tokens=[END],
    )
    return [int(token) for token in ids[0, len(prompt) :]]


def stream(
    backbone: VoxtralRealtime, wave: Tensor, chunk: int, cuts: dict[int, Cut] | None = None
) -> Iterator[tuple[Session, Hypothesis]]:
    """Session and hypothesis after each chunk; after some chunks, a history cuts."""
    session = new_session(backbone, target="en")
    chunks = wave.split(chunk)
    for place, samples in enumerate(chunks):
        session.receive(SpeechChunk(samples, final=place == len(chunks) - 1))
        [hypothesis] = backbone.decode([session], [Request()], ALIGNED)
        yield session, hypothesis
        if cuts and place in cuts:
            backbone.forget(session, cuts[place])
            session.forget(cuts[place])


def run_tokens(session: Session) -> list[int]:
    return list(session.backbone_state.run.tokens)


@pytest.mark.parametrize("seconds", [0.3, 1.0, 4.21])
def test_tokens_are_those_of_transformers(
    seconds: float, backbone: VoxtralRealtime, theirs: Any, folder: Path
) -> None:
    wave = speech(seconds)
    session = new_session(backbone, wave, target="en", final=True)
    [answer] = backbone.decode([session], [Request()], ALIGNED)
    expected = generated(theirs, folder, wave)
    assert run_tokens(session) == expected
    texts = [token for token in expected if token >= FIRST_TEXT]
    assert answer.token_ids.tolist() == texts != []
    assert len(set(texts)) > 1 or seconds < 1
    assert answer.finished


@pytest.mark.parametrize("chunk", [700, 1280, 1320, 7680, 30_000])
def test_chunks_have_the_tokens_of_the_whole_recording(
    chunk: int, backbone: VoxtralRealtime, theirs: Any, folder: Path
) -> None:
    """Beyond the windows of encoder and decoder; each frame is computed once."""
    wave = speech(5.0, seed=3)
    expected = generated(theirs, folder, wave)
    before: list[int] = []
    for session, hypothesis in stream(backbone, wave, chunk):
        tokens = run_tokens(session) if session.backbone_state.run else []
        assert tokens[: len(before)] == before
        frames = max(session.audio.numel() - 40, 0) // FRAME
        if not session.source_ended:
            assert len(tokens) == max(frames - DELAY, 0)
        ids = hypothesis.token_ids.tolist()
        assert ids == [token for token in tokens if token >= FIRST_TEXT]
        before = tokens
    assert before == expected


def test_a_delay_of_ones_own(folder: Path, theirs: Any) -> None:
    wave = speech(2.0)
    session = new_session(backbone := load(folder, delay=2), wave, target="en", final=True)
    backbone.decode([session], [Request()], frozenset())
    assert run_tokens(session) == generated(theirs, folder, wave, delay=2)


def test_a_token_is_aligned_to_its_frame_less_the_delay(backbone: VoxtralRealtime) -> None:
    wave = speech(4.0)
    for session, hypothesis in stream(backbone, wave, 8000):
        alignment = hypothesis.require_alignment()
        assert alignment.shape == (hypothesis.num_new_tokens, session.kept_frames)
        assert alignment.sum(dim=1).tolist() == [1.0] * hypothesis.num_new_tokens
        places = [place for place, token in enumerate(run_tokens(session)) if token >= FIRST_TEXT]
        last = session.kept_frames - 1
        assert hypothesis.attended_frames.tolist() == [min(place, last) for place in places]
        if not session.source_ended:  # the words of the last 480 ms are not chosen yet
            assert all(place + DELAY < session.kept_frames for place in places)


def test_frames_outside_of_the_kept_audio() -> None:
    weights = one_frame_each([0, 2560, 3840, 9000], begin=2560, length=2000)
    assert weights.tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


def test_a_word_is_complete_before_a_frame_without_text(backbone: VoxtralRealtime) -> None:
    found = set()
    for session, hypothesis in stream(backbone, speech(4.0), FRAME):
        tokens = run_tokens(session)
        if tokens and not session.source_ended:
            assert hypothesis.finished == (tokens[-1] < FIRST_TEXT)
            found.add(hypothesis.finished)
    assert found == {True, False}


def test_written_tokens_are_continued(backbone: VoxtralRealtime) -> None:
    session = new_session(backbone, speech(4.0), target="en", final=True)
    [whole] = backbone.decode([session], [Request()], ALIGNED)
    session.prefix_ids = whole.token_ids[:3]
    [rest] = backbone.decode([session], [Request()], ALIGNED)
    assert rest.prefix_length == 3
    assert torch.equal(rest.token_ids, whole.token_ids[3:])
    assert torch.equal(rest.require_alignment(), whole.require_alignment())
    assert torch.equal(rest.word_starts, whole.word_starts)
    [transcript] = backbone.decode([session], [TRANSCRIPTION], ALIGNED)
    assert torch.equal(transcript.token_ids, whole.token_ids)
    assert transcript.transcript == backbone.text(whole.token_ids.tolist()).strip()


def test_streams_of_a_batch_are_as_alone(backbone: VoxtralRealtime) -> None:
    waves = [speech(seconds, seed=seed) for seed, seconds in enumerate((1.3, 3.9, 0.7))]
    together = [new_session(backbone, wave, target="en", final=True) for wave in waves]
    hypotheses = backbone.decode(together, [Request(), TRANSCRIPTION, Request()], ALIGNED)
    for wave, hypothesis in zip(waves, hypotheses, strict=True):
        session = new_session(backbone, wave, target="en", final=True)
        [alone] = backbone.decode([session], [Request()], ALIGNED)
        assert torch.equal(alone.token_ids, hypothesis.token_ids)
        assert torch.equal(alone.require_alignment(), hypothesis.require_alignment())


def test_the_network_goes_on_when_audio_is_forgotten(
    backbone: VoxtralRealtime, theirs: Any, folder: Path
) -> None:
    """No token is lost: those that were not chosen yet follow."""
    wave = speech(5.0, seed=3)
    expected = generated(theirs, folder, wave)
    cuts = {1: Cut(frames=5), 2: Cut(frames=11), 5: Cut(frames=15)}
    *_, (session, hypothesis) = stream(backbone, wave, 8000, cuts)
    assert run_tokens(session) == expected
    dropped = session.audio_start // FRAME
    assert dropped == 31
    # Of the frames before the cut, those of the last 480 ms had no token yet.
    texts = [
        place
        for place, token in enumerate(expected)
        if token >= FIRST_TEXT and place >= dropped - DELAY - 1
    ]
    assert hypothesis.token_ids.tolist() == [expected[place] for place in texts]
    kept = session.kept_frames
    frames = [min(max(place - dropped, 0), kept - 1) for place in texts]
    assert hypothesis.attended_frames.tolist() == frames


def test_forgotten_text_is_not_written_again(backbone: VoxtralRealtime) -> None:
    wave = speech(5.0, seed=3)
    session = new_session(backbone, wave[:48_000], target="en")
    [first] = backbone.decode([session], [Request()], ALIGNED)
    session.prefix_ids = first.token_ids[:5]
    cut = Cut(tokens=2, frames=int(first.attended_frames[2]))
    backbone.forget(session, cut)
    session.forget(cut)
    session.receive(SpeechChunk(wave[48_000:], final=True))
    [rest] = backbone.decode([session], [Request()], ALIGNED)
    assert rest.prefix_length == 3
    assert torch.equal(session.prefix_ids, first.token_ids[2:5])
    whole = new_session(backbone, wave, target="en", final=True)
    [expected] = backbone.decode([whole], [Request()], ALIGNED)
    assert torch.equal(rest.token_ids, expected.token_ids[5:])
    assert torch.equal(
        rest.attended_frames, expected.attended_frames[2:] - session.audio_start // FRAME
    )


def test_a_segment_ends_before_received_audio(
    backbone: VoxtralRealtime, theirs: Any, folder: Path
) -> None:
    """Its last words are those of its audio alone, and the next segment begins anew."""
    wave = speech(5.0, seed=5)
    session = new_session(backbone, wave[:64_000], target="en")
    backbone.decode([session], [Request()], ALIGNED)
    session.segment_end = 33
    [answer] = backbone.decode([session], [Request()], ALIGNED)
    first = generated(theirs, folder, wave[: 33 * FRAME])
    assert run_tokens(session) == first
    assert answer.token_ids.tolist() == [token for token in first if token >= FIRST_TEXT]
    assert answer.finished

    everything = Cut(frames=33)
    backbone.forget(session, everything)
    session.forget(everything)
    session.segment_end = None
    session.receive(SpeechChunk(wave[64_000:], final=True))
    backbone.decode([session], [Request()], ALIGNED)
    assert run_tokens(session) == generated(theirs, folder, wave[33 * FRAME :])


def test_a_request_for_less_audio_has_the_tokens_of_less_audio(backbone: VoxtralRealtime) -> None:
    wave = speech(4.0)
    session = new_session(backbone, wave, target="en")
    backbone.decode([session], [Request()], ALIGNED)
    [answer] = backbone.decode([session], [Request(audio_end=20)], ALIGNED)
    shorter = new_session(backbone, wave[: 20 * FRAME], target="en")
    [expected] = backbone.decode([shorter], [Request()], ALIGNED)
    assert torch.equal(answer.token_ids, expected.token_ids)
    assert torch.equal(answer.require_alignment(), expected.require_alignment())
    assert answer.finished == expected.finished


def test_other_languages_are_refused() -> None:
    alone = ["system=streamatt", "backbone=voxtral_realtime"]
    with pytest.raises(ZooError, match="does not translate it to German"):
        build(compose("evaluate", alone).system)
    with pytest.raises(ZooError, match="does not support Czech; choose source_language from: ar, "):
        build(compose("evaluate", [*alone, "source_language=cs", "target_language=cs"]).system)
    with pytest.raises(ZooError, match="delay of Voxtral-Realtime"):
        VoxtralRealtime(name="folder", delay=16)


CHANGES = {  # of a file: the sentence
    "no delay": ("tekken.json", ("audio", "transcription_delay_ms"), "set backbone.delay"),
    "another tokenizer": ("tekken.json", ("audio", "transcription_format"), "no streaming"),
    "another rate": ("tekken.json", ("audio", "frame_rate"), "frame_rate of None"),
    "damaged": ("tekken.json", ("special_tokens",), "is damaged"),
    "another network": ("config.json", ("model_type",), "must be a 'voxtral_realtime'"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_checkpoint_is_refused(change: str, folder: Path, tmp_path: Path) -> None:
    file, keys, sentence = CHANGES[change]
    place = shutil.copytree(folder, tmp_path / "model")
    content = json.loads((place / file).read_text())
    node = content
    for key in keys[:-1]:
        node = node[key]
    del node[keys[-1]]
    (place / file).write_text(json.dumps(content))
    with pytest.raises(ZooError, match=sentence):
        load(place)


def test_files_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    for file, change, sentence in (
        ("config.json", {"audio_length_per_tok": 16}, "audio_length_per_tok of 16"),
        ("tekken.json", None, "has no tekken.json"),
    ):
        place = shutil.copytree(folder, tmp_path / file)
        if change is None:
            (place / file).unlink()
        else:
            content = json.loads((place / file).read_text())
            (place / file).write_text(json.dumps(content | change))
        with pytest.raises(ZooError, match=sentence):
            load(place)


def test_text_is_that_of_the_bytes(backbone: VoxtralRealtime) -> None:
    tokens = [FIRST_TEXT + byte for byte in "天 <s>".encode()]
    assert backbone.text([BEGIN, *tokens[:2], PADDING, *tokens[2:]]) == "天 <s>"
    assert backbone.text([39]) == ""


def test_it_is_the_transcriber_of_a_cascade() -> None:
    given = [
        "system=streamatt",
        "backbone=cascade_qwen3",
        "backbone@backbone.transcriber=voxtral_realtime",
    ]
    cascade = build(compose("evaluate", given).system).backbone
    assert Capability.ALIGNMENT in cascade.exposes


def test_a_cascade_receives_the_delayed_words_at_the_end_of_a_segment(
    backbone: VoxtralRealtime,
) -> None:
    session = new_session(audio=speech(4.0, seed=3), frame_samples=FRAME)
    session.backbone_state = CascadeState(new_session(backbone, target="en"))
    before = transcribe(backbone, [session], [Request()], [0], aligned=True)[0]
    session.segment_end = session.kept_frames
    after = transcribe(backbone, [session], [Request()], [0], aligned=True)[0]
    count = before.num_new_tokens
    assert after.token_ids[:count].tolist() == before.token_ids.tolist()
    assert after.num_new_tokens > count
    assert transcribe(backbone, [session], [Request()], [0], aligned=True)[0] is after
