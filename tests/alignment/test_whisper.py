"""Word times by Whisper's cross-attention: the path, the parts of a text, and what is refused."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import GenerationConfig, WhisperForConditionalGeneration, WhisperTokenizer

from tests.fixtures import tiny_checkpoints
from zoo.alignment.times.monotonic import first_frames
from zoo.alignment.times.tokens import word_tokens
from zoo.alignment.times.whisper import WhisperTimes
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk

TEXTS = ("Is it far?", "The weather is good, the sea is far away!", "We go there by train.")
RATE = 16_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Whisper with random weights."""
    folder = tmp_path_factory.mktemp("whisper")
    tiny_checkpoints.whisper(folder)
    return folder


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Talk:
    """Three segments of noise of 2, 3 and 4 s, in a file that begins 1 s before the talk."""
    file = tmp_path_factory.mktemp("talk") / "talk.wav"
    generator = torch.Generator().manual_seed(0)
    audio.write(file, 0.1 * torch.randn(11 * RATE, generator=generator))
    offsets = (0.0, 2.0, 5.0, 9.0)
    segments = tuple(
        Segment(start, end - start, text)
        for (start, end), text in zip(itertools.pairwise(offsets), TEXTS, strict=True)
    )
    return Talk("talk", file, 10.0, "en", segments, offset=1.0)


def loaded(folder: Path, **options: object) -> WhisperTimes:
    timer = WhisperTimes(**{"name": str(folder), "language": "en", **options})  # type: ignore[arg-type]
    timer.check()
    timer.load()
    return timer


@pytest.mark.parametrize(("rows", "frames"), [(1, 1), (1, 4), (3, 3), (3, 7), (4, 8)])
def test_the_path_is_the_best_of_all(rows: int, frames: int) -> None:
    scores = torch.randn(rows, frames, generator=torch.Generator().manual_seed(rows * frames))

    def total(firsts: tuple[int, ...]) -> float:
        ends = (*firsts[1:], frames)
        return sum(
            float(scores[row, start:end].sum())
            for row, (start, end) in enumerate(zip(firsts, ends, strict=True))
        )

    paths = ((0, *rest) for rest in itertools.combinations(range(1, frames), rows - 1))
    assert first_frames(scores) == list(max(paths, key=total))


def test_there_is_no_path_with_more_rows_than_frames() -> None:
    assert first_frames(torch.zeros(3, 2)) is None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", "Today: sixty-eight  <|en|> trains – good!"),
        ("de", "Wir reden über das schöne Wetter."),
        ("zh", "今天谈谈天气，大海 Good！"),
    ],
)
def test_parts_are_those_of_the_text(folder: Path, code: str, text: str) -> None:
    tokenizer = WhisperTokenizer.from_pretrained(folder)
    spoken = language(code)
    tokens = word_tokens(tokenizer, text, spoken)
    assert spoken.units(spoken.join(tokens.texts)) == spoken.units(text)
    if spoken.separator:  # each word has tokens of its own
        assert list(tokens.texts) == text.split()
    assert max(tokens.ids) < tokenizer.vocab_size  # no control token
    for part, (first, end) in zip(
        tokens.texts, itertools.pairwise((*tokens.firsts, len(tokens.ids))), strict=True
    ):
        assert tokenizer.decode(tokens.ids[first:end]).strip() == part


def test_words_are_those_of_the_transcript_and_lie_in_their_segment(
    folder: Path, talk: Talk
) -> None:
    timer = loaded(folder)
    results = timer.times(talk, talk.segments)
    assert [result.problem for result in results] == [""] * 3
    for result, segment in zip(results, talk.segments, strict=True):
        assert " ".join(word.text for word in result.words) == segment.source
        times = [time for word in result.words for time in (word.start, word.end)]
        assert times == sorted(times)
        assert times[0] == segment.offset
        assert times[-1] <= segment.end
        assert result.score is not None
        assert result.score < 0
    alone = [timer.times(talk, [segment])[0] for segment in talk.segments]
    for one, other in zip(alone, results, strict=True):
        assert one.words == other.words
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_the_attention_is_that_of_transformers(folder: Path, talk: Talk) -> None:
    timer = loaded(folder)
    network = WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager")
    generation = network.generation_config
    opening = [
        generation.decoder_start_token_id,
        generation.lang_to_id["<|en|>"],
        generation.task_to_id["transcribe"],
        generation.no_timestamps_token_id,
    ]
    tokens = word_tokens(WhisperTokenizer.from_pretrained(folder), TEXTS[0], language("en"))
    wave = audio.load(talk.file, start=1.0, duration=2.0)
    with torch.inference_mode():
        [weights], [log_probs] = timer._attention.force([wave], [tokens.ids])
        inputs = timer._extractor(wave.numpy(), sampling_rate=RATE, return_tensors="pt")
        output = network(
            inputs.input_features,
            decoder_input_ids=torch.tensor([[*opening, *tokens.ids]]),
            output_attentions=True,
        )
    heads = generation.alignment_heads
    rows = torch.stack([output.cross_attentions[layer][0, head] for layer, head in heads]).mean(0)
    torch.testing.assert_close(weights, rows[len(opening) - 1 :], atol=1e-5, rtol=1e-3)
    scores = output.logits[0, len(opening) - 1 : -1].log_softmax(-1)
    expected = scores.gather(1, torch.tensor(tokens.ids)[:, None])[:, 0]
    torch.testing.assert_close(log_probs, expected, atol=1e-4, rtol=1e-4)


def test_segments_that_cannot_be_aligned_are_reported(folder: Path, talk: Talk) -> None:
    first = talk.segments[1]
    results = loaded(folder, max_seconds=3).times(
        talk,
        [
            replace(first, source="–"),
            replace(first, duration=3.5),
            replace(first, source=" ".join(["sea"] * 500)),
            replace(first, duration=0.05),
            first,
        ],
    )
    assert [bool(result.words) for result in results] == [False] * 4 + [True]
    assert results[0].problem == "the transcript has no word"
    assert results[1].problem == "it lasts 3.5 s, more than 3 s"
    assert results[2].problem.endswith("tokens are more than 444")
    assert "3 frames are too few for the" in results[3].problem


def test_models_and_languages_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="needs name, the hub id or folder of a Whisper"):
        WhisperTimes(name=None, language="en").check()
    with pytest.raises(ZooError, match=r"does not recognise Icelandic; choose word_times.language"):
        WhisperTimes(name=str(folder), language="is").check()
    tiny_checkpoints.speech_to_text(tmp_path / "other")
    with pytest.raises(ZooError, match="as Whisper it must be a 'whisper'"):
        WhisperTimes(name=str(tmp_path / "other"), language="en").check()
    tiny_checkpoints.whisper(tmp_path / "english", multilingual=False)
    with pytest.raises(ZooError, match=r"does not recognise German; .* from: en\."):
        WhisperTimes(name=str(tmp_path / "english"), language="de").check()
    WhisperTimes(name=str(tmp_path / "english"), language="en").check()
    with pytest.raises(ZooError, match="max_seconds"):
        WhisperTimes(name=str(folder), language="en", max_seconds=31)


def test_a_model_of_english_alone_has_no_tokens_of_languages(tmp_path: Path, talk: Talk) -> None:
    tiny_checkpoints.whisper(tmp_path, multilingual=False)
    timer = loaded(tmp_path)
    assert len(timer._start) == 2
    assert not timer.times(talk, talk.segments[:1])[0].problem


def test_alignment_heads_that_the_decoder_lacks_are_refused(tmp_path: Path) -> None:
    tiny_checkpoints.whisper(tmp_path)
    config = GenerationConfig.from_pretrained(tmp_path)
    config.alignment_heads = [[0, 1], [2, 0]]
    config.save_pretrained(tmp_path)
    with pytest.raises(ZooError, match=r"2 layers with 2 heads lacks: \[\(2, 0\)\]"):
        loaded(tmp_path)
    config.alignment_heads = None
    config.save_pretrained(tmp_path)
    assert loaded(tmp_path)._attention.heads == [(1, 0), (1, 1)]
