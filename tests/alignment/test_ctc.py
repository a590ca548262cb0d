"""Word times of the CTC aligner: against espeak-ng's times, and what it refuses."""

import statistics
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.alignment.recognisers.conftest import ctc_folder
from tests.fixtures import tiny_checkpoints
from zoo.alignment.recognisers.clean_speech import clean_line
from zoo.alignment.times.ctc import CTCTimes
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Word
from zoo.data.utterances import read_utterances

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = (
    "Julia hat das Geld ausgegeben.",
    "Jeden Tag verkauft sie acht Briefe.",
    "Er hat den Kranich am See gesehen.",
    "Wirft Peter den Brief weg?",
)


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Talk:
    """German sentences with gold word times, in a file that begins 1 s before the talk."""
    folder = tmp_path_factory.mktemp("talk")
    utterances = read_utterances(
        [clean_line(text, language("de")) for text in SENTENCES], cache=folder
    )
    pieces = [torch.zeros(16_000)]
    segments = []
    position = 0.0
    for place, text in enumerate(SENTENCES):
        samples = torch.from_numpy(utterances.speech(place))
        words = tuple(
            replace(word, start=position + word.start, end=position + word.end)
            for word in utterances.times(place)[0]
        )
        segments.append(Segment(position, len(samples) / 16_000, text, words))
        position += len(samples) / 16_000
        pieces.append(samples)
    audio.write(folder / "talk.wav", torch.cat(pieces))
    return Talk("talk", folder / "talk.wav", position, "de", tuple(segments), offset=1.0)


@pytest.fixture(scope="module")
def aligner() -> CTCTimes:
    aligner = CTCTimes(name=str(ROOT / "checkpoints/recogniser_minitalks_de"), language="de")
    aligner.load()
    return aligner


def errors(found: tuple[Word, ...], gold: tuple[Word, ...]) -> list[float]:
    """Absolute errors of starts and ends in seconds."""
    pairs = list(zip(found, gold, strict=True))
    return [abs(a.start - b.start) for a, b in pairs] + [abs(a.end - b.end) for a, b in pairs]


def test_words_have_the_times_of_the_synthesiser(aligner: CTCTimes, talk: Talk) -> None:
    results = aligner.times(talk, talk.segments)
    assert [result.problem for result in results] == [""] * len(SENTENCES)
    for result, segment in zip(results, talk.segments, strict=True):
        assert " ".join(word.text for word in result.words) == segment.source
        assert result.score is not None
        times = [time for word in result.words for time in (word.start, word.end)]
        assert times == sorted(times)
        assert segment.offset <= times[0] <= times[-1] <= segment.end
    wrong = [
        error
        for result, segment in zip(results, talk.segments, strict=True)
        for error in errors(result.words, segment.words)
    ]
    assert statistics.median(wrong) < 0.1


def test_another_transcript_has_a_lower_score(aligner: CTCTimes, talk: Talk) -> None:
    [right] = aligner.times(talk, talk.segments[:1])
    [other] = aligner.times(talk, [replace(talk.segments[0], source=SENTENCES[3])])
    assert right.score is not None
    assert other.score is not None
    assert other.score < right.score


def test_a_word_that_cannot_be_spelled_lies_between_its_neighbours(
    aligner: CTCTimes, talk: Talk
) -> None:
    gold = talk.segments[1]
    source = gold.source.replace("acht", "– 8")
    [result] = aligner.times(talk, [replace(gold, source=source)])
    assert [word.text for word in result.words] == source.split()
    assert max(errors(result.words[5:6], gold.words[4:5])) < 0.25


def test_segments_that_cannot_be_aligned_are_reported(aligner: CTCTimes, talk: Talk) -> None:
    first = talk.segments[0]
    short = CTCTimes(name=aligner.name, language="de", max_seconds=1)
    short.load()
    assert short.times(talk, [first])[0].problem.startswith("it lasts")
    results = aligner.times(
        talk,
        [
            replace(first, source="–"),
            replace(first, source="1984"),
            replace(first, duration=0.3),
            first,
        ],
    )
    assert [bool(result.words) for result in results] == [False, False, False, True]
    assert results[0].problem == "the transcript has no word"
    assert results[1].problem == "the recogniser's vocabulary spells no word"
    assert "too few" in results[2].problem


def test_lead_moves_starts_forward_up_to_the_previous_word(talk: Talk, aligner: CTCTimes) -> None:
    late = CTCTimes(name=aligner.name, language="de", lead=0.0)
    late.load()
    early = aligner.times(talk, talk.segments)
    for before, after in zip(early, late.times(talk, talk.segments), strict=True):
        for place, (one, other) in enumerate(zip(before.words, after.words, strict=True)):
            assert one.end == other.end
            previous = before.words[place - 1].end if place else 0.0
            assert one.start == pytest.approx(
                max(other.start - 0.04, previous, before.words[0].start)
            )


@pytest.mark.parametrize("group_norm", [False, True])
def test_a_wav2vec2_aligns_a_batch_as_one_by_one(
    tmp_path: Path, talk: Talk, group_norm: bool
) -> None:
    folder = ctc_folder(tmp_path, group_norm=group_norm)
    aligner = CTCTimes(name=str(folder), language="en", dtype="float64")
    aligner.load()
    segments = [replace(segment, source="Bad, bad cab 5 fade.") for segment in talk.segments]
    together = aligner.times(talk, segments)
    assert all(result.words for result in together)
    alone = [aligner.times(talk, [segment])[0] for segment in segments]
    assert [result.words for result in together] == [result.words for result in alone]


def test_missing_models_and_other_models_are_refused(tmp_path: Path) -> None:
    whisper = tmp_path / "whisper"
    tiny_checkpoints.KINDS["whisper"](whisper)
    with pytest.raises(ZooError, match="needs name"):
        CTCTimes(name=None, language="en").check()
    with pytest.raises(ZooError, match="is not a CTC recogniser but WhisperFor"):
        CTCTimes(name=str(whisper), language="en").check()
    with pytest.raises(ZooError):
        CTCTimes(name=str(tmp_path / "none"), language="en").check()
