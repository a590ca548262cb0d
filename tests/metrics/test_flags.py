"""Flags of degenerate rows."""

from dataclasses import dataclass, replace

import torch

from zoo.base.types import SAMPLE_RATE, ChunkTime, Instance, SpeechOutput, StreamEvent
from zoo.metrics.flags import flags, longest_loop
from zoo.metrics.signature import Score


def stream(
    units: str, delays: list[float], elapsed: list[float] | None = None, reference: str = ""
) -> Instance:
    words = tuple(units.split())
    return Instance(
        0, "talk", 100.0, units, words, tuple(delays), tuple(elapsed or delays), reference
    )


UNFLAGGED = stream("a b c d", [10, 30, 60, 90], [11, 31, 61, 91], "a b c e")


def scores(**values: float | None) -> dict[str, Score]:
    return {name: Score(name, value, "") for name, value in values.items()}


def test_a_working_system_has_no_flags() -> None:
    assert flags([UNFLAGGED], scores(StreamLAAL=1.0, StreamLAAL_CA=1.2, BLEU=20.0)) == []


def test_silence() -> None:
    (silent, *_) = flags([UNFLAGGED, stream("", [])], {})
    assert silent == "writes nothing for 1 of 2 streams (talk)"


def test_too_little() -> None:
    assert "references have 20" in flags([stream("a", [10], reference="x " * 20)], {})[0]


def test_too_much() -> None:
    text = " ".join(f"w{i}" for i in range(9))
    assert "writes 9 units where the references have 4" in flags(
        [stream(text, [50.0] * 9, reference="a b c d")], {}
    )
    assert flags([stream(text, [50.0] * 9, reference="a b c d e")], {}) == []


def test_a_stream_of_two_chunks_has_nowhere_else_to_write() -> None:
    short = stream("a b", [100, 100])
    assert flags([replace(short, chunks=(ChunkTime(50, 1), ChunkTime(100, 1)))], {}) == []
    assert "at the end" in flags([replace(short, chunks=(ChunkTime(50, 1),) * 3)], {})[0]


def test_all_at_the_end() -> None:
    assert "at the end" in flags([stream("a b", [100, 100])], {})[0]
    assert flags([stream("a b", [90, 100])], {}) == []


def test_loops() -> None:
    looped = stream("a " + "b c " * 7, [10.0] * 15)
    assert "7 times" in flags([looped], {})[0]
    sentence = tuple("abcdefghijklmnopqrst")
    assert longest_loop(sentence * 6) == (sentence, 6)
    assert longest_loop(sentence * 5) is None
    assert longest_loop(("sehr",) * 5) is None
    assert longest_loop(("a",) * 12) == (("a",), 12)
    assert longest_loop(tuple("abcdefgh")) is None


def test_clocks_that_cannot_be() -> None:
    assert "elapsed below delay" in flags([stream("a b", [10, 20], [11, 19])], {})[0]
    assert "delays decrease" in flags([stream("a b", [20, 10])], {})[0]


def test_scores_that_cannot_be() -> None:
    assert "below StreamLAAL" in flags([UNFLAGGED], scores(StreamLAAL=2.0, StreamLAAL_CA=1.0))[0]
    # seen: a unit past the end left the mean
    assert flags([UNFLAGGED], scores(StreamLAAL=1.148, StreamLAAL_CA=1.142)) == []
    assert "negative" in flags([UNFLAGGED], scores(StreamLAAL=-0.5))[0]
    assert flags([UNFLAGGED], scores(StreamLAAL=0.0)) == []
    assert "not defined" in flags([UNFLAGGED], scores(StreamLAAL=None))[0]


def speaking(seconds: float, *, level: float = 0.5, text: str = "eins zwei drei vier") -> Instance:
    wave = torch.full((round(seconds * SAMPLE_RATE),), level)
    talk = stream(text, [10.0, 30.0, 60.0, 90.0])
    return replace(talk, speech=(SpeechOutput(wave, 10.0, 10.0, 0, text),) if seconds else ())


def test_speech_that_is_empty() -> None:
    assert flags([speaking(1.2)], {}, with_speech=True) == []
    for mute in (speaking(0.0), speaking(1.2, level=1e-4)):
        assert flags([speaking(1.2), mute], {}, with_speech=True) == [
            "has no audible speech for 1 of 2 streams (talk)"
        ]
    assert flags([speaking(0.0)], {}) == [], "a system that does not speak"


def test_speech_that_does_not_fit_its_text() -> None:
    """16 characters take 0.32 to 4 s; the speech may be one second longer."""
    assert flags([speaking(4.9)], {}, with_speech=True) == []
    assert flags([speaking(5.1)], {}, with_speech=True) == [
        "has 5.1 s of speech for a text of 16 characters (talk)"
    ]
    assert flags([speaking(0.3)], {}, with_speech=True) == [
        "has 0.3 s of speech for a text of 16 characters (talk)"
    ]
    chinese = replace(speaking(5.1), unit="char")
    assert flags([chinese], {}, with_speech=True) == []


def test_a_recogniser_with_errors_on_clean_speech_is_flagged() -> None:
    assert flags([UNFLAGGED], scores(ASR_WER=10.0)) == []
    assert "makes 12 % word errors on clean speech" in flags([UNFLAGGED], scores(ASR_WER=12.0))[0]


def test_compute_can_close_gaps() -> None:
    assert flags([UNFLAGGED], scores(DiscontinuitySum=5.0, DiscontinuitySum_CA=1.0)) == []
    assert "below EndOffset" in flags([UNFLAGGED], scores(EndOffset=5.0, EndOffset_CA=1.0))[0]


def test_units_that_stopped_at_their_maximum_are_counted() -> None:
    limit = StreamEvent("unit_limit", 1.0)
    speech = (SpeechOutput(torch.ones(SAMPLE_RATE), 10.0, 11.0, 0, "a b c d"),)
    spoken = replace(UNFLAGGED, speech=speech, events=(StreamEvent("cut", 1.0, tokens=1),))
    cut_short = replace(spoken, talk="other", events=(limit, *spoken.events, limit))
    assert flags([spoken], {}, with_speech=True) == []
    assert flags([spoken, cut_short, spoken], {}, with_speech=True) == [
        "units stopped at the maximum length in 2 emissions of 1 of 3 streams (other)"
    ]


def test_long_speech_without_output_is_counted() -> None:
    silent = StreamEvent("no_output", 14.0, reason="10 s of speech")
    lost = replace(UNFLAGGED, events=(StreamEvent("cut", 1.0), silent, silent))
    assert flags([UNFLAGGED, lost], {}) == [
        "emits nothing during 10 s of speech, 2 times (talk, before 14.0 s)"
    ]


@dataclass(frozen=True)
class Translated:
    """A reference segment and its translation."""

    talk: str
    offset: float
    reference: str
    hypothesis: str


def test_sentences_without_a_translation() -> None:
    def found(*hypotheses: str) -> list[str]:
        references = ["a b c d e f", "g h i j k", "l m", "n o p q r s"]
        talks = ["one", "one", "one", "two"]
        segments = [
            Translated(talk, 10.0 * index, reference, hypothesis)
            for index, (talk, reference, hypothesis) in enumerate(
                zip(talks, references, hypotheses, strict=True)
            )
        ]
        return flags([UNFLAGGED], {}, segments=segments)

    assert found("a b c d e f", "g h i j", "l", "n o p q") == []
    assert found("a b c d e f", "g h i j", "", "n o p q") == []  # two words
    assert found("a b c d e f g h i j", "", "l m", "n o p q") == []  # assigned to its neighbour
    assert found("a b c d e f", "", "l m", "n o p") == [
        "writes no translation for 1 of 4 segments (one at 10.0 s)"
    ]
    assert found("", "g h i j k", "l m", "n") == [
        "writes no translation for 2 of 4 segments (one at 0.0 s)"
    ]
