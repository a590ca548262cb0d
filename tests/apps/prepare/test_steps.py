"""The steps by themselves: what each changes, and which segments it marks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from zoo.alignment.times.base import TimedWords
from zoo.apps.prepare.items import Item, Notes, decode, encode, new_item
from zoo.apps.prepare.pipeline import Pipeline, PipelineStage
from zoo.apps.prepare.steps.alignment import AlignmentSettings, AlignmentStep, GivenAlignment
from zoo.apps.prepare.steps.audio import AudioSettings, AudioStep
from zoo.apps.prepare.steps.filters import Filters, FiltersStep
from zoo.apps.prepare.steps.trajectories import TrajectoriesStep
from zoo.apps.prepare.steps.words import GivenTimes, WordsStep
from zoo.apps.prepare.store import Store, parts_of
from zoo.base.talks import Segment, Talk, Target, Word

WORDS = (Word("Good", 0.5, 1.0), Word("cats.", 1.0, 1.5))
TARGET = Target("Gute Katzen.", ("Gute", "Katzen."), ((0,), (1,)))
SEGMENT = Segment(0.5, 1.0, "Good cats.", WORDS, {"de": TARGET})


def item(*segments: Segment, **fields: object) -> Item:
    talk = Talk("t", Path("/a/t.wav"), 6.0, "en", segments or (SEGMENT,))
    return new_item(replace(talk, **fields))  # type: ignore[arg-type]


def reasons(step: Callable[[Sequence[Item]], list[Item]], *segments: Segment) -> list[str]:
    [found] = step([item(*segments)])
    return [note.reason for note in found.notes]


def write(path: Path, samples: np.ndarray, rate: int = 16000) -> Path:
    soundfile.write(path, samples, rate, subtype="FLOAT")
    return path


NOISE = np.sin(np.arange(16000 * 6)).astype(np.float32)


def test_clean_audio_stays_where_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "t.wav", NOISE)
    step = AudioStep(AudioSettings(), tmp_path / "out")
    [found] = step([item(audio=path)])
    assert (found, (tmp_path / "out").exists()) == (item(audio=path), False)
    [copied] = AudioStep(AudioSettings(copy="always"), tmp_path / "out")([item(audio=path)])
    assert copied.talk.file == tmp_path / "out" / "t.wav"


def test_a_part_of_a_file_is_written_as_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "long.wav", np.stack([np.repeat(NOISE, 2)] * 2, axis=1), 32000)
    step = AudioStep(AudioSettings(), tmp_path / "out")
    [found] = step([item(audio=path, offset=3.0, duration=2.0)])
    assert soundfile.info(found.talk.file).frames == 32000
    assert (found.talk.offset, found.talk.duration) == (0.0, 2.0)
    assert found.talk.segments == (SEGMENT,)


@pytest.mark.parametrize(
    ("samples", "change", "problem"),
    [
        (NOISE[:0], {}, "has no samples"),
        (0 * NOISE, {}, "Talk 't' has no sound: all samples of .*t.wav from 0.00 s on are 0"),
        (np.where(np.arange(len(NOISE)) == 9, np.nan, NOISE), {}, "NaN or infinite"),
        (NOISE, {"offset": 7.0}, "has no sample at 7.000 s; it lasts 6.000 s"),
        (NOISE, {"duration": 8.0}, "Talk 't' lasts 8.00 s, but .* has only 6.00 s of it"),
        (
            NOISE,
            {"segments": (SEGMENT, Segment(5.0, 2.0, "x")), "duration": 6.4},
            "Segment 1 of talk 't' lasts from 5.00 to 7.00 s, but the talk has 6.00 s of audio",
        ),
        (None, {}, "does not exist"),
    ],
)
def test_audio_that_cannot_be_used_is_named(
    tmp_path: Path, samples: np.ndarray | None, change: dict[str, object], problem: str
) -> None:
    path = tmp_path / "t.wav"
    if samples is not None:
        write(path, samples)
    [found] = AudioStep(AudioSettings(), tmp_path / "out")([item(audio=path, **change)])
    assert found.talk.segments == ()
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(found.problem)


def test_an_item_survives_the_disk() -> None:
    notes = (Notes("tags", "(Laughter)\n", {"LAAL de": 1.25}), Notes())
    later = replace(SEGMENT, offset=1.0)  # overlaps in part
    one = Item(Talk("a\x85b", Path("/a/t.wav"), 6.0, "en", (SEGMENT, later)), notes)
    assert decode(encode(one, folder=Path("/b")), folder=Path("/b")) == one


def test_finished_times_have_no_digits_of_arithmetic() -> None:
    segment = replace(SEGMENT, offset=0.1 + 0.2, duration=3 * 0.4)
    words = (Word("Good", 0.1 + 0.2, 1 / 3), Word("cats.", 1 / 3, 1.1 * 1.1))
    one = item(replace(segment, words=words), duration=2.2 * 3, labels={"phonemes": words})
    talk = one.finished()
    [found] = talk.segments
    assert (talk.duration, found.offset, found.duration) == (6.6, 0.3, 1.2)
    expected = (Word("Good", 0.3, 0.333333), Word("cats.", 0.333333, 1.21))
    assert (found.words, talk.labels["phonemes"]) == (expected, expected)


class Timer(GivenTimes):
    """An aligner that finds the words of "Good cats." only."""

    def times(self, talk: Talk, segments: Sequence[Segment]) -> list[TimedWords]:
        return [
            TimedWords(WORDS, score=-0.123456)
            if segment.source == "Good cats."
            else TimedWords(problem="too short")
            for segment in segments
        ]


def test_words_of_an_aligner_replace_those_of_the_corpus() -> None:
    other = replace(SEGMENT, source="Bad cats.", offset=2.0)
    sound = Segment(4.0, 1.0, "...")
    [found] = WordsStep(Timer())([item(replace(SEGMENT, words=()), other, sound)])
    assert found.talk.segments[0].words == WORDS
    assert found.talk.segments[0].targets["de"].alignment == ()  # it was of no words
    assert found.notes == (
        Notes(scores={"aligner score": -0.1235}),
        Notes("word times", "too short"),
        Notes(),
    )


def test_given_words_that_differ_in_case_keep_their_alignment() -> None:
    lower = tuple(replace(word, text=word.text.lower().strip(".")) for word in WORDS)
    [found] = WordsStep(GivenTimes())([item(replace(SEGMENT, words=lower))])
    assert found.talk.segments == (SEGMENT,)


class Reversed:
    """An aligner of all pairs at once: the last source word is the first target word's."""

    whole_corpus = True
    pairs: list[object]

    def check(self) -> None: ...

    def load(self, device: object = None) -> None:
        self.pairs = []

    def align(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[object]:
        self.pairs.append(pairs)
        return [tuple((len(pair[0]) - 1 - place,) for place in range(2)) for pair in pairs]


def test_each_language_is_aligned_by_itself(tmp_path: Path) -> None:
    targets = {"de": Target("Gute Katzen."), "zh": Target("好猫")}
    aligner = Reversed()
    step = AlignmentStep(aligner)  # type: ignore[arg-type]
    talks = [
        Talk(f"t{number}", write(tmp_path / f"{number}.wav", NOISE), 6.0, "en", (segment,))
        for number, segment in enumerate([replace(SEGMENT, targets=targets)] * 3)
    ]
    talks[1] = replace(talks[1], segments=(replace(talks[1].segments[0], usable=False),))
    pipeline = Pipeline(Store(tmp_path, "train"), [PipelineStage(step, {})], parts_of(talks, 7))
    pipeline.run(0, 2)
    assert not (tmp_path / "work").exists()  # a shard cannot do it
    pipeline.run()
    source = ["Good", "cats."]
    assert aligner.pairs == [[(source, ["Gute", "Katzen."])] * 3, [(source, ["好", "猫"])] * 3]
    found = [one.talk.segments[0].targets for one in pipeline.items()]
    aligned = {
        "de": Target("Gute Katzen.", ("Gute", "Katzen."), ((1,), (0,))),
        "zh": Target("好猫", ("好", "猫"), ((1,), (0,))),
    }
    assert found == [aligned, targets, aligned]
    pipeline.run()
    assert len(aligner.pairs) == 2  # nothing is done again


def test_words_of_jieba_are_aligned_and_their_characters_have_their_source_words() -> None:
    chinese = replace(SEGMENT, targets={"zh": Target("可爱的 猫。")})
    aligner = Reversed()
    aligner.load()
    aligner.align = lambda pairs: [((0,), (), (1,), ()) for _ in pairs]  # type: ignore[method-assign]
    [found] = AlignmentStep(aligner, AlignmentSettings(words="jieba"))([item(chinese)])  # type: ignore[arg-type]
    target = found.talk.segments[0].targets["zh"]
    assert target.words == ("可", "爱", "的", "猫", "。")
    assert target.alignment == ((0,), (0,), (), (1,), ())
    settings = AlignmentSettings(words="jieba", last_word="end")
    [found] = AlignmentStep(aligner, settings)([item(chinese)])  # type: ignore[arg-type]
    assert found.talk.segments[0].targets["zh"].alignment == ((0,), (0,), (), (1,), (1,))


def test_the_last_word_can_wait_for_the_last_source_word() -> None:
    settings = AlignmentSettings(last_word="end")
    crossed = replace(TARGET, alignment=((1,), (0,)))
    segment = replace(SEGMENT, targets={"de": crossed})
    [found] = AlignmentStep(GivenAlignment(), settings)([item(segment)])
    assert found.talk.segments[0].targets["de"].alignment == ((1,), (0, 1))
    [found] = AlignmentStep(GivenAlignment())([item(segment)])
    assert found.talk.segments[0] == segment
    assert AlignmentSettings().changed() == {}
    assert settings.changed() == {"last_word": "end"}


def test_a_translation_without_alignment_is_marked() -> None:
    without = replace(SEGMENT, targets={"de": Target("Gute Katzen.")})
    assert reasons(AlignmentStep(GivenAlignment()), SEGMENT, without) == ["", "word alignment"]


def test_trajectories_have_scores() -> None:
    late = replace(TARGET, alignment=((1,), ()))
    [found] = TrajectoriesStep()([item(SEGMENT, replace(SEGMENT, targets={"de": late}))])
    # both words of the first are emitted at 0.96 and 1.0 s; even writing has one at 0 and at 0.5 s
    assert found.notes[0].scores == {"LAAL de": 0.73, "unaligned de": 0.0}
    assert found.notes[1].scores == {"LAAL de": 1.0, "unaligned de": 0.5}


def with_texts(source: str, target: str = "Gute Katzen.") -> Segment:
    return replace(SEGMENT, source=source, targets={"de": replace(TARGET, text=target)})


@pytest.mark.parametrize(
    ("segment", "reason"),
    [
        (SEGMENT, ""),
        (with_texts("Note: cats are 3 (three)."), "tags"),
        (with_texts("(Laughter) (Applause)"), "only sounds"),
        (with_texts("♪ La la ♪"), "only sounds"),
        (with_texts("Good cats.", "Gute [unhörbar]."), "tags"),
        (with_texts("Chris Anderson: Good cats."), "speaker's name"),
        (with_texts("CA: Good cats."), "speaker's name"),
        (with_texts("It is 10:30, cats."), ""),
        (with_texts("He said: good cats."), ""),
        (with_texts(""), "no transcript"),
        (with_texts("Good cats.", " "), "no translation"),
        (replace(SEGMENT, duration=0.2), "duration"),
        (replace(SEGMENT, duration=61.0), "duration"),
        (replace(SEGMENT, duration=20.0), "characters per second"),
        (with_texts("Good cats. " * 4), "characters per second"),
        (with_texts("Good cats.", "Gute Katzen. " * 6), "ratio of lengths"),
    ],
)
def test_filters(segment: Segment, reason: str) -> None:
    assert reasons(FiltersStep(Filters()), segment) == [reason]


def test_filters_of_scores_and_filters_that_are_off() -> None:
    scores = {"aligner score": -2.0, "unaligned de": 0.7}
    one = replace(item(), notes=(Notes(scores=scores),))
    [found] = FiltersStep(Filters(max_unaligned=0.8, min_score=-1.0))([one])
    assert found.notes[0] == Notes("aligner score", "-2.00", scores)
    [found] = FiltersStep(Filters())([one])
    assert found.notes[0] == Notes("unaligned words", "0.70", scores)
    [found] = FiltersStep(Filters(max_unaligned=None))([one])
    assert found.notes[0].reason == ""
    off = Filters(sounds=False, tags=False, speakers=False)
    segments = (with_texts("(Laughter)"), with_texts("CA: Yes."))
    assert reasons(FiltersStep(off), *segments) == ["", ""]


def test_what_the_corpus_marks_stays_marked() -> None:
    assert reasons(FiltersStep(Filters()), replace(SEGMENT, usable=False)) == ["corpus"]
