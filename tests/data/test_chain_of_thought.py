"""Chains of thought are pure functions of the generator: audio, transcript and translation."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data.chain_of_thought import (
    GRID,
    SpeechChainOfThought,
    SpeechChainOfThoughtConfig,
    SpeechChainsOfThought,
)
from zoo.training.schedule import Limits, Schedule

GERMAN = language("de")
CHUNK = 0.64
SEGMENT: dict[str, Any] = {
    "silence": 1.9,
    "missing": 0.8,
    "reach": 1.9,
    "settled": 0.12,
    "max_seconds": 18.0,
}
PREFIXES = {"mixture": {"streaming": 1.0}, **SEGMENT}
WHOLE = {"mixture": {"non_streaming": 1.0}, **SEGMENT}


def segment(offset: float, name: str) -> Segment:
    """Three source words in three seconds; target word 2 is aligned with the last source word."""
    texts = (f"{name}0", f"{name}1,", f"{name}2.")
    words = tuple(
        Word(text, offset + place, offset + place + 1) for place, text in enumerate(texts)
    )
    target = Target(
        f"{name}A {name}C {name}B.", (f"{name}A", f"{name}C", f"{name}B."), ((0,), (2,), (1,))
    )
    return Segment(offset, 3.0, " ".join(texts), words, {"de": target})


TALK = Talk(
    "talk",
    Path("talk.wav"),
    40.0,
    "en",
    tuple(segment(1 + 4 * k, name) for k, name in enumerate("pqrstuv")),
)
OFFSETS = [segment.offset for segment in TALK.segments]


def draw(
    steps: int = 60, seconds: float = 40.0, talks: tuple[Talk, ...] = (TALK,), **options: Any
) -> list[Any]:
    sampler = SpeechChainsOfThought(
        talks, GERMAN, SpeechChainOfThoughtConfig(**options), chunk_seconds=CHUNK
    )
    schedule = Schedule(sampler, Limits(seconds), steps=steps, batches=1, seed=[0])
    return [schedule.examples(step, 0) for step in range(steps)]


def draw_examples(**options: Any) -> list[SpeechChainOfThought]:
    return [example for batch in draw(**options) for example in batch]


def begun_segments(example: SpeechChainOfThought) -> list[Segment]:
    """Segments with at least one complete word."""
    return [
        s for s in TALK.segments if s.end > example.start and s.words[0].end <= example.end + 1e-6
    ]


def test_the_same_generator_draws_the_same_examples() -> None:
    assert draw(steps=5) == draw(steps=5)
    assert draw(steps=1)[0] != draw(steps=2)[1]


@pytest.mark.parametrize(
    "options", [{}, {"mixture": {"partial": 1.0, "non_streaming": 1.0}, **SEGMENT}]
)
def test_a_batch_has_one_kind_and_lengths_alike(options: dict[str, Any]) -> None:
    lengths = set()
    for batch in draw(steps=100, seconds=8.0, **options):
        assert len({example.kind for example in batch}) == 1
        longest = max(example.seconds for example in batch)
        assert len(batch) * longest <= 8 + longest * 0.75
        for example in batch:
            assert example.seconds / GRID == pytest.approx(round(example.seconds / GRID), abs=1e-6)
            assert example.start >= 0
            assert example.end <= TALK.duration + 1e-6
            lengths.add(round(example.seconds / GRID))
    assert len(lengths) > 20


def test_most_examples_of_a_batch_have_the_same_length() -> None:
    lengths = [[round(e.seconds / GRID) for e in batch] for batch in draw(steps=60, **PREFIXES)]
    same = [max(map(batch.count, batch)) for batch in lengths]
    assert sum(same) > 0.5 * sum(map(len, lengths))
    assert min(map(len, lengths)) > 1


def test_lengths_are_whole_chunks_but_for_a_share() -> None:
    def on_grid(off: float) -> float:
        chunks = [
            example.seconds / CHUNK
            for example in draw_examples(off_grid=off, steps=200, **PREFIXES)
        ]
        return sum(abs(count - round(count)) < 1e-6 for count in chunks) / len(chunks)

    assert on_grid(0.0) == 1
    assert 0.5 < on_grid(0.3) < 0.9


def test_default_examples_begin_with_their_sentence_and_end_anywhere() -> None:
    lengths = []
    for example in draw_examples(steps=400, seconds=0.1, mixture={"streaming": 1.0}):
        assert min(abs(example.start - offset) for offset in OFFSETS) < 1e-6
        assert example.seconds <= 3.0 + 1e-6
        lengths.append(example.seconds)
        names = [f"p{place}" for place in range(int(example.seconds / 3.0 * 3 + 1e-6))]
        assert len(example.transcript.split()) == len(names)
    assert np.mean(lengths) == pytest.approx(1.5, abs=0.2)  # uniform


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_pass_has_every_run_of_sentences_once(count: int) -> None:
    config = SpeechChainOfThoughtConfig(
        mixture={"streaming": 1.0}, sentences=[0.0] * (count - 1) + [1.0]
    )
    sampler = SpeechChainsOfThought([TALK, TALK], GERMAN, config, chunk_seconds=CHUNK)
    assert sampler.kinds == [1.0]
    seen = set()
    for seed in range(20):
        random = np.random.default_rng(seed)
        examples = sampler.examples(0, sampler.plan(0, random).positions, random)
        assert 2 * (7 // count) - 2 <= len(examples) <= 2 * (7 // count)
        starts = sorted(round(example.start) for example in examples)
        assert len(set(starts)) >= len(examples) / 2  # at most one run of each talk
        seen |= set(starts)
    assert len(seen) == 8 - count


def test_kinds_and_numbers_of_sentences_have_their_shares() -> None:
    config = SpeechChainOfThoughtConfig(
        mixture={"streaming": 3.0, "non_streaming": 1.0}, sentences=[0.6, 0.4]
    )
    sampler = SpeechChainsOfThought([TALK], GERMAN, config, chunk_seconds=CHUNK)
    assert sampler.kinds == pytest.approx([0.45, 0.3, 0.15, 0.1])


def test_a_prefix_has_the_words_that_ended_and_the_full_translation_of_begun_sentences() -> None:
    lengths = set()
    for example in draw_examples(steps=300, **PREFIXES):
        sentences = begun_segments(example)
        words = [word for s in sentences for word in s.words if word.end <= example.end + 1e-6]
        assert [word.text.strip(",.") for word in words] == [
            word.strip(",.") for word in example.transcript.split()
        ]
        assert example.translation == " ".join(s.targets["de"].text for s in sentences)
        lengths.add(len(words))
        if words:
            settled = words[-1].end + 0.12 <= example.end + 1e-6
            assert example.transcript.endswith(
                words[-1].text if settled else words[-1].text.strip(",.")
            )
            assert all(
                a == b.text for a, b in zip(example.transcript.split()[:-1], words, strict=False)
            )
    # 0: silence or an incomplete word; 4: with a word of the next sentence
    assert lengths == {0, 1, 2, 3, 4}


def test_a_partial_reference_covers_the_audio_received_so_far() -> None:
    counts = set()
    for example in draw_examples(steps=300, **{**PREFIXES, "mixture": {"partial": 1.0}}):
        for s in begun_segments(example):
            num_words = sum(word.end <= example.end + 1e-6 for word in s.words)
            # the second word waits for the last one
            allowed = s.targets["de"].words[: 3 if num_words == 3 else 1]
            assert all(word in example.translation.split() for word in allowed)
            assert len(
                [word for word in example.translation.split() if word[0] == s.source[0]]
            ) == len(allowed)
            counts.add(num_words)
    assert counts == {1, 2, 3}


def test_whole_sentences_have_no_audio_of_the_next_sentence() -> None:
    for example in draw_examples(steps=200, sentences=[0.0, 1.0], **WHOLE):
        whole = [s for s in TALK.segments if s.end > example.start and s.end <= example.end]
        assert len(whole) == 2
        assert example.transcript == " ".join(s.source for s in whole)
        assert example.translation == " ".join(s.targets["de"].text for s in whole)
        assert begun_segments(example) == whole
        assert example.end >= whole[-1].end + 0.12 - 1e-6


@pytest.mark.parametrize("options", [PREFIXES, WHOLE])
def test_an_example_begins_in_the_pause_or_in_the_first_word(options: dict[str, Any]) -> None:
    late = 0
    for example in draw_examples(steps=200, **options):
        previous = [s.end for s in TALK.segments if s.end <= example.start]
        following = next(s for s in TALK.segments if s.end > example.start)
        assert example.start <= following.offset + 0.8 + 1e-6
        assert example.start >= max([0.0, *previous, following.offset - 1.9]) - 1e-6
        late += example.start > following.offset
    assert late > 50


def test_several_sentences_end_in_the_last_of_them_or_after_it() -> None:
    shares = {1: 0, 2: 0, 3: 0}
    for batch in draw(steps=300, sentences=[0.5, 0.3, 0.2], **WHOLE):
        shares[len(batch[0].transcript.split()) // 3] += 1
    assert shares[1] > shares[2] > shares[3] > 30
    for example in draw_examples(steps=100, sentences=[0.0, 0.0, 1.0], **PREFIXES):
        assert (
            len([s for s in TALK.segments if s.end > example.start and s.end <= example.end + 1e-6])
            >= 2
        )
        assert example.end - example.start <= 18.0


def sentences_of(hours: dict[str, float | None], **options: Any) -> dict[str, set[int]]:
    """Numbers of the sentences of each kind in two talks of seven sentences of three seconds."""
    other = Talk("other", Path("talk.wav"), 40.0, "en", TALK.segments)
    found: dict[str, set[int]] = {}
    for batch in draw(steps=200, talks=(TALK, other), hours=hours, **options):
        for example in batch:
            first = min(range(7), key=lambda place: abs(OFFSETS[place] - example.start))
            found.setdefault(example.kind, set()).add(first + 7 * (example.talk.name == "other"))
    return found


@pytest.mark.parametrize(
    ("streaming", "non_streaming", "sentences"),
    [
        (6, None, (range(4), range(14))),  # seconds of audio: a cut sentence has half of its own
        (6, 9, (range(4), range(4, 7))),
        (None, 9, (range(14), range(3))),
        (1500, 1200, (range(10), range(10, 14))),  # more than there are: 5 sentences to 2
    ],
)
def test_hours_are_of_audio_and_of_different_sentences(
    streaming: float | None, non_streaming: float | None, sentences: tuple[range, range]
) -> None:
    hours = {"streaming": streaming, "non_streaming": non_streaming}
    limits = {kind: None if value is None else value / 3600 for kind, value in hours.items()}
    found = sentences_of(limits)
    assert [found["streaming"], found["non_streaming"]] == [set(kind) for kind in sentences]


def test_runs_stay_within_the_sentences_of_their_kind() -> None:
    hours = {"streaming": 6 / 3600, "non_streaming": 9 / 3600}
    found = sentences_of(hours, sentences=[0.0, 1.0])
    assert found == {"streaming": {0, 1, 2}, "non_streaming": {4, 5}}


def test_a_development_loss_has_all_sentences_of_each_kind() -> None:
    config = SpeechChainOfThoughtConfig(hours={"streaming": 0.001})
    assert config.for_development() == replace(config, hours={})


def test_examples_of_both_kinds_have_the_shares_of_their_audio() -> None:
    """As the paper's 50 and 50 hours: steps of 32 examples, though cut sentences are shorter."""
    talks = tuple(replace(TALK, name=f"talk {number}") for number in range(30))
    sampler = SpeechChainOfThoughtConfig().sampler(talks, target=GERMAN, chunk_seconds=CHUNK)
    schedule = Schedule(sampler, Limits(960.0, examples=32), steps=600, batches=1, seed=[0])
    audio_of = dict.fromkeys(("streaming", "non_streaming"), 0.0)
    for step in range(600):
        for example in schedule.examples(step, 0):
            audio_of[example.kind] += example.seconds
    assert audio_of["streaming"] / sum(audio_of.values()) == pytest.approx(0.5, abs=0.05)


def test_audio_has_the_samples_of_its_length(tmp_path: Path) -> None:
    samples = torch.arange(48_000) / 48_000
    audio.write(tmp_path / "talk.wav", samples)
    talk = Talk("talk", tmp_path / "talk.wav", 2.0, "en", (), offset=1.0)
    loaded = SpeechChainOfThought(talk, 0.5, 0.5 + 2 * CHUNK, "", "", GERMAN, "streaming").samples()
    assert loaded.shape == (20_480,)
    torch.testing.assert_close(loaded, samples[24_000:44_480], atol=1e-4, rtol=0)
    padded = SpeechChainOfThought(talk, 1.5, 1.5 + CHUNK, "", "", GERMAN, "streaming").samples()
    assert padded.shape == (10_240,)
    assert padded[8_000:].abs().max() == 0  # after the end of the file


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mixture": {"nope": 1.0}},
            "Unknown kind of chain of thought 'nope'; choose one of: streaming, non_streaming",
        ),
        (
            {"mixture": {"streaming": 0.0}},
            r"mixture of chains of thought needs shares of at least 0, one above it",
        ),
        ({"sentences": []}, r"sentences of chains of thought needs shares .* not \[\]"),
        ({"missing": 1.5}, "needs missing from 0 to 1, not 1.5"),
        ({"silence": -1.0}, "needs silence of at least 0, not -1.0"),
        ({"hours": {"streaming": 0}}, r"needs hours\.streaming above 0, not 0"),
    ],
)
def test_an_error_is_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        SpeechChainOfThoughtConfig(**options)


def test_only_partial_examples_need_a_word_alignment() -> None:
    targets = {"de": Target("pA pC pB.", (), ())}
    talk = replace(TALK, segments=(replace(TALK.segments[0], targets=targets),))
    for mixture in ({"streaming": 1.0}, {"non_streaming": 1.0}):
        (batch,) = draw(steps=1, talks=(talk,), mixture=mixture)
        assert {example.translation for example in batch} <= {"pA pC pB.", ""}
    with pytest.raises(ZooError, match="lacks word times or a word alignment"):
        draw(talks=(talk,), mixture={"partial": 1.0})


def test_partial_examples_can_have_translations_of_prefixes() -> None:
    def translated(one: Segment) -> Segment:
        name = one.source[0]
        prefixes = (f"{name}1", f"{name}2")
        return replace(one, targets={"de": Target(f"{name}3", prefixes=prefixes)})

    talk = replace(TALK, segments=tuple(map(translated, TALK.segments)))
    options = {**PREFIXES, "mixture": {"partial": 1.0}, "partial_translations": "prefixes"}
    counts = set()
    for batch in draw(talks=(talk,), **options):
        for example in batch:
            ended = [
                (s.source[0], sum(word.end <= example.end + 1e-6 for word in s.words))
                for s in begun_segments(example)
            ]
            assert example.translation == " ".join(f"{name}{count}" for name, count in ended)
            counts |= {count for _, count in ended}
    assert counts == {1, 2, 3}
    with pytest.raises(ZooError, match=r"'p0 p1, p2\.' has 0 of the 2 German translations of its"):
        draw(**options)
    with pytest.raises(ZooError, match="Unknown partial_translations 'words'; choose one of: alig"):
        SpeechChainOfThoughtConfig(partial_translations="words")  # type: ignore[arg-type]


def test_transcripts_have_the_spelling_of_the_corpus() -> None:
    """An aligner's words have neither case nor punctuation; sentence ends must stay visible."""
    aligned = tuple(
        replace(s, words=tuple(replace(w, text=w.text.strip(",.").upper()) for w in s.words))
        for s in TALK.segments
    )
    talk = replace(TALK, segments=aligned)
    for options in (PREFIXES, WHOLE, {"mixture": {"partial": 1.0}, "sentences": [0.0, 1.0]}):
        expected, found = (draw(steps=100, talks=(each,), **options) for each in (TALK, talk))
        assert [e.transcript for batch in found for e in batch] == [
            e.transcript for batch in expected for e in batch
        ]
    assert any(e.transcript.endswith(".") for batch in found for e in batch)


def test_non_streaming_examples_need_no_word_times() -> None:
    """Adjacent sentences as in MuST-C, of any duration; an example has the audio of its own."""
    ends = [0.31, 2.47, 2.9, 6.13, 9.0]
    target = {"de": Target("Ja.")}
    spans = list(itertools.pairwise(ends))
    segments = tuple(
        Segment(start, end - start, f"So {start}.", (), target) for start, end in spans
    )
    talk = Talk("talk", Path("talk.wav"), 9.0, "en", segments)
    seen = set()
    for batch in draw(steps=60, talks=(talk,), mixture={"non_streaming": 1.0}):
        for example in batch:
            place = next(i for i, s in enumerate(segments) if s.source == example.transcript)
            start, end = spans[place]
            assert example.start == pytest.approx(start)
            assert end - 1e-6 <= example.end < end + GRID + 1e-6
            assert example.translation == "Ja."
            seen.add(place)
    assert len(seen) == len(segments)


def test_talks_without_suitable_sentences_are_refused() -> None:
    with pytest.raises(ZooError, match="no 8 consecutive sentences for streaming chains of"):
        SpeechChainsOfThought(
            [TALK], GERMAN, SpeechChainOfThoughtConfig(sentences=[0] * 7 + [1]), chunk_seconds=CHUNK
        )
    with pytest.raises(
        ZooError, match=r"no 1 consecutive .* for non_streaming .* that hours leaves"
    ):
        draw(
            talks=(replace(TALK, segments=TALK.segments[:1]),),
            hours={"streaming": 50.0, "non_streaming": 50.0},
        )
    bare = replace(TALK, segments=(Segment(1.0, 3.0, "so", (), TALK.segments[0].targets),))
    with pytest.raises(ZooError, match=r"'so' lacks word times.*mixture\.streaming=0"):
        SpeechChainsOfThought([bare], GERMAN, SpeechChainOfThoughtConfig(), chunk_seconds=CHUNK)
    with pytest.raises(ZooError, match="lacks word times or a word alignment"):
        draw(talks=(bare,), mixture={"non_streaming": 1.0, "partial": 1.0})
    with pytest.raises(ZooError, match="No 'es' translation"):
        SpeechChainsOfThought(
            [TALK], language("es"), SpeechChainOfThoughtConfig(), chunk_seconds=CHUNK
        )
