"""StreamUni on hand-made transcripts: requests, decisions and cuts, chunk by chunk."""

from collections.abc import Callable, Iterator

import pytest
import torch

from tests.policies.scripted_transcriber import (
    CHUNK,
    CHUNK_SECONDS,
    growing,
    scripted_system,
    streamed,
)
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Cut, Frames, Hypothesis, SpeechChunk
from zoo.history.base import History
from zoo.history.reference_segments import ReferenceSegments
from zoo.policies.transcript_wait_k import TranscriptWaitK
from zoo.streaming.session import Session


def paper(k: int = 1, **options: object) -> TranscriptWaitK:
    return TranscriptWaitK(k=k, **options)  # type: ignore[arg-type]


def released(k: int = 1, **options: object) -> TranscriptWaitK:
    return TranscriptWaitK(k=k, convention="released", **options)  # type: ignore[arg-type]


def test_the_translation_stays_k_words_behind_the_transcript() -> None:
    script = growing("", "a", "a b c", "a b c", "a b c d", "a b c d e f")
    stream = streamed(paper(k=2), script)
    assert stream.run(6) == ["", "", "A", "", "B", "C D"]
    translations = [(text, most) for *_, text, most in stream.asked if text is not None]
    assert translations == [("a b c", 1), ("a b c d", 1), ("a b c d e f", 2)]  # O = C - k - written
    assert stream.cut == 0


@pytest.mark.parametrize(("k", "texts"), [(1, ["", "A - B", ""]), (3, ["", "", ""])])
def test_a_mark_alone_is_no_word(k: int, texts: list[str]) -> None:
    assert streamed(paper(k=k), growing("a", "a - b c", "a - b , c")).run(3) == texts


def test_two_empty_transcripts_are_no_silence() -> None:
    assert streamed(paper(k=2), growing("a", "", "")).run(3, final=True) == ["", "", "A"]
    assert streamed(paper(k=2), growing("a", "", "", "")).run(4, final=True)[-1] == ""


def test_source_words_of_chinese_are_those_of_jieba() -> None:
    script = growing("我们", "我们今天", "我们今天讨论，")
    assert streamed(paper(k=2, truncate=False), script, source="zh").run(3) == [
        "",
        "",
        "我们今天讨论，",
    ]


def test_three_equal_transcripts_are_finished_and_cut() -> None:
    script = {**growing("a b", "a b c", "a b c", "a b c"), **growing("d e", cut=4)}
    stream = streamed(paper(k=2), script)
    assert stream.run(4) == ["", "A", "", "B C"]
    assert stream.asked[-2:] == [(0, 4, None, None), (0, 4, "a b c", None)]
    assert (stream.cut, stream.session.prefix_ids.numel()) == (4, 0)
    stream.step()
    assert stream.asked == [(4, 5, None, None)]  # dropped audio is neither transcribed nor counted


def test_leading_silence_is_dropped_without_a_word() -> None:
    script = {**growing("", "", ""), **growing("", "a b c", cut=3)}
    stream = streamed(paper(), script)
    assert stream.run(3) == ["", "", ""]
    assert stream.cut == 3
    assert stream.run(2) == ["", "A B"]
    assert [text for *_, text, _ in stream.asked if text] == ["a b c"]


def test_words_absent_from_three_hypotheses_count_as_spoken_only_after_a_write() -> None:
    lost = {**growing("a b", "", "", ""), **growing("c", cut=4)}
    stream = streamed(paper(k=3), lost)
    assert [*stream.run(4), stream.step(final=True)] == ["", "", "", "", "C"]
    stream = streamed(paper(k=1), lost)
    assert [*stream.run(4), stream.step(final=True)] == ["A", "", "", "B", "C"]
    # translated from their own transcript, and all four chunks are dropped
    assert (0, 1, "a b", None) in stream.asked


def test_a_sentence_is_cut_one_chunk_back_and_the_tail_is_decoded_again() -> None:
    script = {**growing("A b", "A b c.", "A b c. D"), **growing("D", "D e f", cut=2)}
    stream = streamed(paper(k=2), script)
    assert stream.run(2) == ["", "A"]
    assert len(stream.asked) == 3
    assert stream.step() == "B C."
    assert stream.asked == [
        (0, 3, None, None),  # x(n) has begun another sentence
        (0, 2, "A b c.", None),  # x(l) is finished
        (2, 3, None, None),  # x(l+1) to x(n) are generated again; O = 1 - 2
    ]
    assert (stream.cut, stream.session.prefix_ids.numel()) == (2, 0)
    assert stream.step() == "D"
    assert stream.asked == [(2, 4, None, None), (2, 4, "D e f", 1)]  # nothing is counted twice


def test_the_generation_policy_goes_on_with_the_tail_at_once() -> None:
    script = {**growing("Yes.", "Yes. B c d"), **growing("B c d", cut=1)}
    stream = streamed(paper(), script)
    assert stream.run(2) == ["", "YES. B C"]
    assert stream.asked[-2:] == [(1, 2, None, None), (1, 2, "B c d", 2)]


def test_a_sentence_is_cut_two_chunks_back_and_both_later_hypotheses_are_decoded_again() -> None:
    script = {**growing("A b.", "A b", "A b. C d"), **growing("C", "C d", "C d", "C d", cut=1)}
    stream = streamed(paper(k=5), script)
    assert stream.run(3) == ["", "", "A B."]
    assert stream.asked[2:] == [
        (0, 3, None, None),
        (0, 1, "A b.", None),
        (1, 2, None, None),
        (1, 3, None, None),
    ]
    assert [transcript.text for transcript in stream.session.policy_state.transcripts] == [
        "C",
        "C d",
    ]
    assert (stream.run(1), stream.cut) == ([""], 1)
    assert (stream.run(1), stream.cut) == (["C D"], 5)  # repeated transcripts count for silence


def test_a_second_truncation_in_the_same_chunk_comes_to_an_end() -> None:
    script = {
        **growing("A b.", "A b", "A b. C d. E"),
        **growing("C d.", "C d. E", cut=1),
        **growing("E", cut=2),
    }
    stream = streamed(paper(k=3), script)
    assert stream.run(3) == ["", "", "A B. C D."]
    assert stream.asked[-3:] == [(1, 3, None, None), (1, 2, "C d.", None), (2, 3, None, None)]
    assert stream.cut == 2


def test_a_sentence_that_ends_between_two_hypotheses_is_not_cut_even_when_relaxed() -> None:
    for policy in (paper(k=9), paper(k=9, relaxed=True)):
        stream = streamed(policy, growing("A", "A b", "A b. C"))
        assert (stream.run(3), stream.cut) == (["", "", ""], 0)


def test_relaxed_cuts_where_words_of_the_sentence_were_revised() -> None:
    script = {**growing("A b.", "A x. C"), **growing("C", cut=1)}
    assert streamed(paper(k=9), script).run(2) == ["", ""]
    assert streamed(paper(k=9, relaxed=True), script).run(2) == ["", "A B."]


def test_abbreviations_and_decimals_do_not_truncate() -> None:
    script = growing("I met mr.", "I met mr. Fig. 3.", "I met mr. Fig. 3.5 times")
    assert streamed(paper(k=9, abbreviations=["fig"]), script).run(3) == ["", "", ""]


def test_chinese_sentences_truncate() -> None:
    script = {**growing("我走了。", "我走了。你"), **growing("你", cut=1)}
    assert streamed(paper(k=9), script, source="zh").run(2) == ["", "我走了。"]


def test_a_segment_longer_than_its_cap_is_cut_where_it_stands() -> None:
    script = {**growing("a", "a b", "a b c", "a b c d"), **growing("e", cut=4)}
    stream = streamed(paper(k=2, max_seconds=3 * CHUNK_SECONDS), script)
    assert stream.run(3) == ["", "", "A"]
    assert stream.cut == 0
    assert (stream.run(1), stream.cut) == (["B C D"], 4)
    assert stream.step(final=True) == "E"


def test_the_cap_of_the_paper_is_30_seconds() -> None:
    assert TranscriptWaitK(k=1).max_seconds == 30.0


def test_everything_is_written_when_the_source_ends() -> None:
    stream = streamed(paper(k=9), growing("a", "a b", "a b c"))
    assert stream.run(3, final=True) == ["", "", "A B C"]


def test_truncations_still_apply_when_the_source_ends() -> None:
    script = {**growing("A b.", "A b. C"), **growing("C d", cut=1)}
    stream = streamed(paper(k=9), script)
    assert stream.run(2, final=True) == ["", "A B. C D"]
    assert stream.asked[-3:] == [(0, 1, "A b.", None), (1, 2, None, None), (1, 2, "C d", None)]
    assert streamed(paper(k=9), growing("a", "a", "a")).run(3, final=True) == ["", "", "A"]
    assert streamed(paper(k=9), growing("", "", "")).run(3, final=True) == ["", "", ""]


def test_an_empty_last_transcript_loses_nothing() -> None:
    for policy in (paper(k=2), released(k=3)):
        stream = streamed(policy, growing("a", "a b c", ""))
        assert stream.run(3, final=True) == ["", "A", "B C"], policy.convention
        assert stream.asked[-1] == (0, 2, "a b c", None)
        assert streamed(policy, growing("", "")).run(2, final=True) == ["", ""]


def test_an_end_without_new_audio_causes_no_new_hypothesis() -> None:
    stream = streamed(paper(k=3), growing("a", "a"))
    assert stream.run(2) == ["", ""]
    assert stream.step(0, final=True) == "A"
    assert stream.asked[2:] == [(0, 2, "a", None)]


def test_an_empty_tail_is_asked_for_nothing_more() -> None:
    script = {**growing("A b.", "A b. C"), **growing("", cut=1)}
    stream = streamed(paper(k=9), script)
    assert stream.run(2, final=True) == ["", "A B."]
    assert stream.asked[-1] == (1, 2, None, None)


def test_without_truncation_nothing_is_cut() -> None:
    script = growing("A b.", "A b. C", "A b. C", "A b. C", "A b. C d e")
    stream = streamed(paper(k=3, truncate=False, max_seconds=CHUNK_SECONDS), script)
    assert stream.run(5, final=True) == ["", "", "", "", "A B. C D E"]
    assert stream.cut == 0
    assert sum(text is not None for *_, text, _ in stream.asked) == 1


@pytest.mark.parametrize("truncate", [True, False])
def test_segments_of_a_history_are_flushed_and_the_next_begins_afresh(truncate: bool) -> None:
    script = {**growing("a", "a b"), **growing("c d", "c d e", "c d e", cut=2)}
    stream = streamed(
        paper(k=2, truncate=truncate), script, ReferenceSegments(), segments=[0, 2, 2, 5]
    )
    assert stream.run(5) == ["", "A B", "", "C", "D E"]
    assert stream.session.policy_state.transcripts == []


def test_a_flush_uses_no_audio_after_its_boundary() -> None:
    halves = {(0, 0): "a", (0, 1): "b"}  # complete chunks received of each half of the only chunk
    assert (
        streamed(paper(k=9), halves, ReferenceSegments(), segments=[0, 0.5, 0.5, 1]).step() == "A B"
    )


class Trimming(History):
    """Drops the first chunk and the first word after the third chunk."""

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        frames: Frames = 2 if session.received_samples == 3 * CHUNK else 0
        return Cut(tokens=1, frames=frames) if frames else Cut()


def test_a_cut_by_the_history_discards_earlier_hypotheses_and_the_words_it_removed() -> None:
    script = {**growing("a", "a b", "a b c"), (1, 2): "b", (1, 3): "b c", (1, 4): "b c d"}
    stream = streamed(paper(), script, Trimming())
    assert stream.run(3) == ["", "A", "B"]
    assert stream.session.prefix_ids.numel() == 1
    assert stream.run(1) == ["C"]  # "b c d", of which B is written
    assert [transcript.text for transcript in stream.session.policy_state.transcripts] == [
        "b",
        "b c",
        "b c d",
    ]
    stream = streamed(paper(truncate=False), script, Trimming())
    assert stream.run(4) == ["", "A", "B", "C"]
    # no earlier transcript is reused
    assert stream.asked[-2:] == [(1, 4, None, None), (1, 4, "b c d", 1)]
    assert len(stream.session.policy_state.transcripts) == 1


def batches(size: int) -> Iterator[list[str]]:
    """The words of two talks with this batch size."""
    scripts = {
        "one": {**growing("A b", "A b c.", "A b c. D"), **growing("D", "D e", "D e f", cut=2)},
        "two": {**growing("", "", ""), **growing("G h", "G h i", cut=3)},
    }
    system = scripted_system(paper(k=2), scripts)
    talks = list(scripts)
    for begin in range(0, len(talks), size):
        sessions = [system.open(talk) for talk in talks[begin : begin + size]]
        texts: list[list[str]] = [[] for _ in sessions]
        for chunk in range(5):
            chunks = [SpeechChunk(torch.zeros(CHUNK), final=chunk == 4) for _ in sessions]
            for text, action in zip(texts, system.step(sessions, chunks), strict=True):
                text.append(action.text)
        yield from texts


def test_a_batch_writes_the_words_of_each_stream_alone() -> None:
    assert (
        list(batches(2))
        == list(batches(1))
        == [["", "A", " B C.", "", " D E F"], ["", "", "", "", "G H I"]]
    )


def test_released_writes_one_word_more() -> None:
    assert streamed(released(k=2), growing("a", "a b", "a b c")).run(3) == ["", "A", "B"]


@pytest.mark.parametrize(("policy", "writes"), [(paper, 8), (released, 9)])
def test_max_words_writes_nothing_where_more_words_may_be_written(
    policy: Callable[..., TranscriptWaitK], writes: int
) -> None:
    words = "a b c d e f g h i"
    text = words[: 2 * writes - 1].upper()
    assert streamed(policy(k=1), growing(words)).run(1) == [text]
    assert streamed(policy(k=1, max_words=writes), growing(words)).run(1) == [text]
    guarded = policy(k=1, max_words=writes - 1)
    assert streamed(guarded, growing(words)).run(1) == [""]
    assert streamed(guarded, growing(words)).run(1, final=True) == [words.upper()]  # none is lost


def test_released_keeps_leading_silence_up_to_the_cap() -> None:
    script = growing("", "", "", "", "a b")
    stream = streamed(released(), script)
    assert (stream.run(5), stream.cut) == (["", "", "", "", "A B"], 0)
    stream = streamed(released(max_seconds=3 * CHUNK_SECONDS), script)
    assert (stream.run(4), stream.cut) == (["", "", "", ""], 4)


def test_released_silence_ignores_case_and_empty_hypotheses_and_keeps_the_newest_chunk() -> None:
    script = {**growing("a B", "", "A b", "", "a b"), **growing("", cut=4)}
    stream = streamed(released(k=9), script)
    assert stream.run(5) == ["", "", "", "", "A B"]
    assert stream.asked[-3:] == [(0, 5, None, None), (0, 3, "A b", None), (4, 5, None, None)]
    assert stream.cut == 4


def test_released_cuts_two_looks_before_another_sentence_or_within_it() -> None:
    script = {**growing("a", "a b", "a b. C"), **growing("b.", "b. C", cut=1)}
    stream = streamed(released(k=9), script)
    assert (stream.run(3), stream.cut) == (["", "", "A"], 1)
    assert stream.asked[-3:] == [(0, 1, "a", None), (1, 2, None, None), (1, 3, None, None)]
    late = {**growing("a", "a b: C", "a b: C d"), **growing("d", cut=2)}
    stream = streamed(released(k=9), late)
    assert (stream.run(3), stream.cut) == (["", "", "A B: C"], 2)
    for each in (script, late):
        stream = streamed(paper(k=9), each)
        assert (stream.run(3), stream.cut) == (["", "", ""], 0)


def test_released_looks_at_the_cap_first() -> None:
    script = {**growing("a", "a", "a"), **growing("", cut=2), **growing("", cut=3)}
    for seconds, cut in ((3 * CHUNK_SECONDS, 2), (2 * CHUNK_SECONDS, 3)):
        stream = streamed(released(k=9, max_seconds=seconds), script)
        assert (stream.run(3), stream.cut) == (["", "", "A"], cut)


def test_released_writes_everything_at_the_end_of_a_segment_too() -> None:
    script = {**growing("a", ""), **growing("b", cut=2)}
    stream = streamed(released(k=9), script, ReferenceSegments(), segments=[0, 2, 2, 4])
    assert stream.run(3, final=True) == ["", "A", "B"]


def test_it_needs_to_cut_only_where_it_truncates() -> None:
    needs = {Capability.TRANSCRIPT, Capability.PREFIX}
    assert TranscriptWaitK.needs == paper().needs == needs | {Capability.AUDIO_TRIMMING}
    assert paper(truncate=False).needs == needs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k of at least 1"),
        ({"k": 1, "max_words": 0}, "max_words of at least 1"),
        ({"k": 1, "max_seconds": 0.0}, "max_seconds above 0"),
        (
            {"k": 1, "convention": "mine"},
            "Unknown convention of TranscriptWaitK 'mine'; choose one of: paper, released",
        ),
        (
            {"k": 1, "convention": "released", "relaxed": True},
            "relaxed=true needs convention=paper",
        ),
        (
            {"k": 1, "convention": "released", "abbreviations": ["fig"]},
            "abbreviations needs convention=paper",
        ),
    ],
)
def test_values_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        TranscriptWaitK(**options)  # type: ignore[arg-type]
