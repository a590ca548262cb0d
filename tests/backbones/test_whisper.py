"""Whisper alone: tasks and languages, alignment heads, the limit of 30 s."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import WhisperForConditionalGeneration, WhisperTokenizer

from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.batches import pick
from zoo.backbones.pretrained.silence import LEVELS_PER_UNIT
from zoo.backbones.whisper import SPAN, Whisper
from zoo.base.errors import ZooError
from zoo.base.languages import DETECTED, language
from zoo.base.types import Capability, Context, Cut, Request, Task, Term
from zoo.config import build, compose
from zoo.streaming.session import Session

Folders = Callable[..., Path]
PLAIN = frozenset[Capability]()


def load(folder: Path, **options: Any) -> Whisper:
    backbone = Whisper(name=str(folder), **({"dtype": "float64", "max_tokens": 12} | options))
    backbone.load()
    return backbone


def opened(backbone: Whisper, source: str, target: str, samples: int = 0) -> Session:
    """A stream that has received noise."""
    audio = white_noise(samples, seed=samples, scale=0.1)
    return new_session(backbone, audio, source=source, target=target)


@pytest.mark.parametrize(
    ("source", "target", "task", "name"),
    [
        ("de", "en", Task.TRANSLATION, "translate"),
        ("de", "en", Task.TRANSCRIPTION, "transcribe"),
        ("de", "de", Task.TRANSLATION, "transcribe"),
        ("en", "en", Task.TRANSLATION, "transcribe"),
    ],
)
def test_the_opening_holds_language_and_task(
    source: str, target: str, task: Task, name: str, folders: Folders
) -> None:
    folder = folders("whisper")
    tokenizer = WhisperTokenizer.from_pretrained(
        folder, language=language(source).name.lower(), task=name
    )
    backbone = load(folder)
    assert backbone.opening(opened(backbone, source, target), task) == tokenizer.prefix_tokens


def test_a_transcript_is_in_the_source_language_and_has_no_prefix(folders: Folders) -> None:
    backbone = load(folders("whisper"))
    session, same = opened(backbone, "de", "en", 32_000), opened(backbone, "de", "de", 32_000)
    session.prefix_ids = torch.tensor([5, 6])
    [translation, transcript] = [
        backbone.decode([session], [Request(task=task)], PLAIN)[0]
        for task in (Task.TRANSLATION, Task.TRANSCRIPTION)
    ]
    [expected] = backbone.decode([same], [Request()], PLAIN)
    assert (translation.prefix_length, transcript.prefix_length) == (2, 0)
    assert (
        transcript.token_ids.tolist()
        == expected.token_ids.tolist()
        != translation.token_ids.tolist()
    )
    assert transcript.transcript == backbone.text(expected.token_ids.tolist()).strip()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            "en",
            "de",
            (
                r"translates into English only, not en-de; "
                r"choose target_language=en for a transcript\.$"
            ),
        ),
        (
            "de",
            "es",
            r"not de-es; choose target_language=en or target_language=de for a transcript\.$",
        ),
        (
            "ko",
            "en",
            r"does not support Korean; choose source_language from: de, en, es, ja, zh\.$",
        ),
    ],
)
def test_a_direction_that_it_cannot_do_is_refused(
    source: str, target: str, message: str, folders: Folders
) -> None:
    with pytest.raises(ZooError, match=message):
        opened(load(folders("whisper")), source, target)


def test_an_english_model_receives_neither_language_nor_task(folders: Folders) -> None:
    backbone = load(folders("whisper", multilingual=False))
    opening = backbone.opening(opened(backbone, "en", "en"), Task.TRANSLATION)
    assert backbone.tokenizer.convert_ids_to_tokens(opening) == [
        "<|startoftranscript|>",
        "<|notimestamps|>",
    ]
    with pytest.raises(
        ZooError, match="supports English only, not de-en; choose source_language=en"
    ):
        opened(backbone, "de", "en")


def test_suppressed_tokens_are_not_generated(folders: Folders) -> None:
    backbone = load(folders("whisper"))
    exclamation, space = backbone.tokenizer.convert_tokens_to_ids(["!", "Ġ"])
    assert exclamation in backbone.never
    assert backbone.never_first == [space, backbone.end]
    session = opened(backbone, "de", "en", 8_000)
    [usual] = backbone.decode([session], [Request()], PLAIN)
    backbone.never_first = [int(usual.token_ids[0])]
    [other] = backbone.decode([session], [Request()], PLAIN)
    assert other.token_ids[0] != usual.token_ids[0]
    session.prefix_ids = usual.token_ids[:0]
    backbone.never = [*backbone.never, int(other.token_ids[0])]
    [third] = backbone.decode([session], [Request()], PLAIN)
    assert not {*third.token_ids.tolist()} & {int(other.token_ids[0])}


def test_alignment_heads_are_the_models_own_then_the_upper_half_of_its_layers(
    folders: Folders, tmp_path: Path
) -> None:
    assert load(folders("whisper")).alignment.heads == [[0, 1], [1, 0], [1, 1]]
    chosen = AlignmentConfig(heads=[[0, 0]])
    assert load(folders("whisper"), alignment=chosen).alignment == chosen
    folder = Path(shutil.copytree(folders("whisper"), tmp_path / "none"))
    settings = json.loads((folder / "generation_config.json").read_text())
    del settings["alignment_heads"]
    (folder / "generation_config.json").write_text(json.dumps(settings))
    assert load(folder).alignment.heads == [[1, 0], [1, 1]]
    del settings["lang_to_id"]
    (folder / "generation_config.json").write_text(json.dumps(settings))
    with pytest.raises(ZooError, match="lists no languages and tasks"):
        load(folder)


def test_more_than_30_seconds_are_refused(folders: Folders) -> None:
    backbone = load(folders("whisper"))
    session = opened(backbone, "de", "en", SPAN + 16_000)
    with pytest.raises(
        ZooError,
        match=r"at most 30 s at once, but 31 s are kept; .* room for one chunk within 30 s",
    ):
        backbone.decode([session], [Request()], PLAIN)


@torch.inference_mode()
def test_without_padding_the_encoder_uses_the_audio_alone(folders: Folders) -> None:
    """As an encoder whose table of positions is as short, on the first features of the 30 s."""
    backbone = load(folders("whisper"), padding_seconds=0)
    sessions = [opened(backbone, "de", "en", samples) for samples in (16_000, 30_001, SPAN)]
    memories = backbone.encode_audio(sessions, [session.audio for session in sessions])
    assert [len(memory) for memory in memories] == [50, 94, 1500]
    model = WhisperForConditionalGeneration.from_pretrained(
        folders("whisper"), dtype=torch.float64
    ).eval()
    encoder = model.model.encoder
    for session, memory in zip(sessions, memories, strict=True):
        features = backbone._features(session, session.audio)
        encoder.config.max_source_positions = len(memory)
        encoder.embed_positions = torch.nn.Embedding.from_pretrained(
            backbone.encoder.embed_positions.weight[: len(memory)]
        )
        expected = encoder(features.T[None]).last_hidden_state[0]
        torch.testing.assert_close(memory, expected, rtol=0, atol=1e-10)
    padded = load(folders("whisper"))
    whole = opened(padded, "de", "en", SPAN)
    torch.testing.assert_close(
        memories[-1], padded.encode_audio([whole], [whole.audio])[0], rtol=0, atol=1e-10
    )


@torch.inference_mode()
def test_audio_attends_to_cached_silence(folders: Folders) -> None:
    """As layers of which each receives the frames of silence from an input of silence alone."""
    backbone = load(folders("whisper"), cached_silence=True, padding_seconds=0.1)
    sessions = [opened(backbone, "de", "en", samples) for samples in (30_001, 16_000, 30_001)]
    memories = backbone.encode_audio(sessions, [session.audio for session in sessions])
    encoder, frames = backbone.encoder, 99  # of 30,001 and 1,600 samples
    features = backbone._features(sessions[0], sessions[0].audio)
    level = (features[-1] * LEVELS_PER_UNIT).round() / LEVELS_PER_UNIT
    hidden = backbone._convolve(features)[:frames]
    silence = backbone._convolve(level.expand(len(features), -1))
    for layer in encoder.layers:
        hidden = layer(torch.cat([hidden, silence[frames:]])[None], None)[0][:frames]
        silence = layer(silence[None], None)[0]
    expected = encoder.layer_norm(torch.cat([hidden, silence[frames:]]))
    for memory in (memories[0], memories[2]):  # streams do not depend on each other
        torch.testing.assert_close(memory, expected, rtol=0, atol=1e-10)
    assert len(memories[1]) == len(expected) == 1500


@torch.inference_mode()
def test_cached_silence_is_exact_for_silence_and_for_30_seconds(folders: Folders) -> None:
    cached, computed = (load(folders("whisper"), cached_silence=one) for one in (True, False))
    session = opened(cached, "de", "en")
    for audio in (torch.zeros(16_000), white_noise(SPAN, seed=1)):
        [first], [other] = (one.encode_audio([session], [audio]) for one in (cached, computed))
        torch.testing.assert_close(first, other, rtol=0, atol=1e-10)


@torch.inference_mode()
def test_the_decoder_projects_only_the_frames_before_cached_silence(folders: Folders) -> None:
    backbone = load(folders("whisper"), cached_silence=True, padding_seconds=0.1)
    sessions = [opened(backbone, "de", "en", samples) for samples in (30_001, 16_000, SPAN)]
    memories = backbone.encode_audio(sessions, [session.audio for session in sessions])
    known = [session.backbone_state.known for session in sessions]
    assert [one and one.first for one in known] == [99, 55, None]  # of 20 ms, with the padding

    for indices in ([0, 1, 2], [0, 1], [1]):  # with and without a stream of no silence
        chosen = pick(memories, indices)
        expected = backbone.decoder.project_memories(chosen)
        projected = backbone.decoder.project_memories(chosen, known=pick(known, indices))
        assert projected.mask is None
        for keys, other in ((projected.keys, expected.keys), (projected.values, expected.values)):
            for one, exact in zip(keys, other, strict=True):
                torch.testing.assert_close(one, exact, rtol=0, atol=1e-10)


def rewrite(folder: Path, copy: Path, **fields: Any) -> Path:
    """A copy of a model whose generation_config.json has other fields; None removes a field."""
    shutil.copytree(folder, copy)
    path = copy / "generation_config.json"
    settings = json.loads(path.read_text()) | fields
    path.write_text(
        json.dumps({key: value for key, value in settings.items() if value is not None})
    )
    return copy


def test_control_tokens_are_suppressed_whatever_the_generation_config_lists(
    folders: Folders, tmp_path: Path
) -> None:
    backbone = load(rewrite(folders("whisper"), tmp_path / "bare", suppress_tokens=None))
    names = ["<|startoftranscript|>", "<|de|>", "<|transcribe|>", "<|nospeech|>", "<|startofprev|>"]
    assert {*backbone.tokenizer.convert_tokens_to_ids(names)} <= {*backbone.never}
    assert backbone.end not in backbone.never


def test_nothing_is_generated_where_the_model_detects_no_speech(folders: Folders) -> None:
    """The alignment of the kept text remains."""
    backbone = load(folders("whisper"))
    session = opened(backbone, "de", "en", 16_000)
    session.prefix_ids = torch.tensor([5, 6])
    needs = frozenset({Capability.ALIGNMENT})
    [spoken] = backbone.decode([session], [Request()], needs)
    assert spoken.num_new_tokens > 0
    with torch.no_grad():
        backbone.decoder.head.weight[backbone.no_speech_id] = 0
    bias = torch.zeros(backbone.decoder.head.out_features, dtype=torch.float64)
    bias[backbone.no_speech_id] = 50  # certain, after every token
    backbone.decoder.head.bias = torch.nn.Parameter(bias)
    [silent] = backbone.decode([session], [Request()], needs)
    assert (silent.num_new_tokens, silent.prefix_length, silent.finished) == (0, 2, True)
    torch.testing.assert_close(silent.require_alignment()[0], spoken.require_alignment()[0])
    backbone.no_speech = 1.0
    [spoken] = backbone.decode([session], [Request()], needs)
    assert spoken.num_new_tokens > 0


def test_the_language_is_detected_once_there_is_enough_audio(folders: Folders) -> None:
    backbone = load(folders("whisper"), detection_seconds=1.0)
    network = WhisperForConditionalGeneration.from_pretrained(
        folders("whisper"), dtype=torch.float64
    )
    short, long = (opened(backbone, "de", "en", samples) for samples in (8_000, 16_000))
    short.source_language = long.source_language = DETECTED
    with torch.no_grad():
        features = backbone._features(long, long.visible_audio()).T[None]
        detected = int(network.detect_language(input_features=features)[0])
    [silent, spoken] = backbone.decode([short, long], [Request()] * 2, frozenset())
    assert silent.num_new_tokens == 0
    assert (short.source_language.code, short.events) == ("auto", [])
    assert backbone.languages[f"<|{long.source_language.code}|>"] == detected
    assert [(one.kind, one.at, one.text) for one in long.events] == [
        ("language", 1.0, long.source_language.code)
    ]
    typed = opened(backbone, long.source_language.code, "en", 16_000)
    [expected] = backbone.decode([typed], [Request()], frozenset())
    assert expected.num_new_tokens > 0
    assert torch.equal(spoken.token_ids, expected.token_ids)

    short.source_ended = True
    backbone.decode([short], [Request()], frozenset())
    assert short.source_language.code != "auto"


@pytest.mark.parametrize(
    ("options", "choice"),
    [([], "backbone=whisper"), (["backbone=whisper", "backbone.name=x"], "target_language=en")],
)
def test_what_cannot_begin_without_a_language_is_refused(options: list[str], choice: str) -> None:
    given = ["system=streamatt", "source_language=auto", "target_language=de", *options]
    with pytest.raises(ZooError, match=f"choose {choice}\\."):
        build(compose("translate", given).system)


def test_dropped_text_becomes_a_prompt(folders: Folders) -> None:
    backbone = load(folders("whisper"), prompt_tokens=3)
    [start] = backbone.tokenizer.convert_tokens_to_ids(["<|startofprev|>"])
    session = opened(backbone, "de", "en", 16_000)
    session.prefix_ids = torch.tensor([5, 6, 7, 8, 9])
    assert backbone.context(session, Task.TRANSLATION) == []
    for cut in (Cut(tokens=1), Cut(frames=5), Cut(tokens=3)):
        backbone.forget(session, cut)
        session.forget(cut)
    assert backbone.context(session, Task.TRANSLATION) == [start, 6, 7, 8]
    assert backbone.context(session, Task.TRANSCRIPTION) == []

    [prompted] = backbone.decode([session], [Request()], frozenset({Capability.ALIGNMENT}))
    assert prompted.prefix_length == 1
    assert len(prompted.require_alignment()) == 1 + prompted.num_new_tokens
    network = WhisperForConditionalGeneration.from_pretrained(
        folders("whisper"), dtype=torch.float64
    )
    ids = [start, 6, 7, 8, *backbone.opening(session, Task.TRANSLATION), 9]
    features = backbone._features(session, session.visible_audio()).T[None]
    with torch.no_grad():
        scores = network(features, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
    scores[backbone.never] = -torch.inf
    assert int(scores.argmax()) == prompted.token_ids[0]

    without = load(folders("whisper"))
    other = opened(without, "de", "en", 16_000)
    other.prefix_ids = torch.tensor([5, 6])
    without.forget(other, Cut(tokens=2))
    assert without.context(other, Task.TRANSLATION) == []


@pytest.mark.parametrize(
    "options", [{"prompt_tokens": 224}, {"prompt_tokens": -1}, {"no_speech": 1.1}]
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ZooError, match="Whisper needs"):
        Whisper(name="folder", **options)


def test_a_constant_prompt_precedes_every_translation(folders: Folders) -> None:
    backbone = load(folders("whisper"), prompt="a b", prompt_tokens=2)
    [start] = backbone.tokenizer.convert_tokens_to_ids(["<|startofprev|>"])
    constant = backbone.tokenizer.encode(" a b", add_special_tokens=False)
    session = opened(backbone, "de", "en", 16_000)
    assert backbone.context(session, Task.TRANSLATION) == [start, *constant]
    assert backbone.context(session, Task.TRANSCRIPTION) == []
    session.prefix_ids = torch.tensor([5, 6, 7])
    backbone.forget(session, Cut(tokens=3))
    assert backbone.context(session, Task.TRANSLATION) == [start, *constant, 6, 7]
    with pytest.raises(ZooError, match=r"backbone.prompt has \d+ tokens; .* at most 221 are"):
        load(folders("whisper"), prompt="a b " * 224, prompt_tokens=2)


def test_the_context_of_a_talk_precedes_every_text(folders: Folders) -> None:
    backbone = load(folders("whisper"), prompt="a b", prompt_tokens=2)
    [start] = backbone.tokenizer.convert_tokens_to_ids(["<|startofprev|>"])

    def written(text: str) -> list[int]:
        return list(backbone.tokenizer.encode(f" {text}", add_special_tokens=False))

    session = opened(backbone, "de", "en", 16_000)
    session.context = Context(text="a c", terms=(Term("a", "b"), Term("c", "c")))
    session.backbone_state = backbone.open(session)
    expected = [start, *written("a b"), *written("a c"), *written("b, c")]
    assert backbone.context(session, Task.TRANSLATION) == expected
    assert backbone.context(session, Task.TRANSCRIPTION) == [start, *written("a, c")]
    [hypothesis] = backbone.decode([session], [Request()], frozenset())
    assert hypothesis.prefix_length == 0

    session.context = Context(text="a c " * 200, terms=(Term("a", "<|endoftext|>"),))
    session.backbone_state = backbone.open(session)
    ids = backbone.context(session, Task.TRANSLATION)
    assert len(ids) == 1 + 223 - 2  # room for the two dropped tokens
    assert backbone.end not in ids
    session.context = Context(terms=tuple(Term(f"{n}", f"{n}") for n in range(200)))
    with pytest.raises(ZooError, match="Leave out terms"):
        backbone.open(session)
