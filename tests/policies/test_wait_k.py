"""Words written for chunks, or for words of a transcript."""

from typing import Any

import torch

from tests.policies.decisions import FRAME, decide, hypothesis, session
from zoo.base.types import Capability, Cut, Hypothesis, Request, SpeechChunk, Task
from zoo.policies.wait_k import WaitK
from zoo.streaming.session import Session


def test_wait_k_asks_for_nothing_before_k_chunks() -> None:
    policy = WaitK(k=3, words_per_chunk=2)
    state = policy.open()
    answer = hypothesis("w.w.ww")
    decisions = [decide(policy, answer, session(), state) for _ in range(4)]
    assert [decision.write for _, decision in decisions] == [0, 0, 4, 4]
    assert [requests for requests, _ in decisions] == [
        [],
        [],
        [Request(max_words=2)],
        [Request(max_words=2)],
    ]


def test_wait_k_writes_fewer_words_when_fewer_are_whole() -> None:
    policy = WaitK(k=1, words_per_chunk=3)
    assert decide(policy, hypothesis("w.w."), session(), policy.open())[1].write == 2
    assert decide(policy, hypothesis("w.w.", finished=True), session(), policy.open())[1].write == 4


def transcript(*words: str) -> Hypothesis:
    """A transcript, one token per letter."""
    starts = [index == 0 for word in words for index in range(len(word))]
    return Hypothesis(
        torch.arange(len(starts)),
        torch.tensor(starts, dtype=torch.bool),
        transcript=" ".join(words),
    )


def by_words(
    policy: WaitK, state: Any, stream: Session, answers: list[Hypothesis]
) -> tuple[list[Request], int]:
    """Run one decision with these answers; all of them must be asked for."""
    asking, requests = policy.decide(stream, state), []
    try:
        request = next(asking)
        while True:
            requests.append(request)
            request = asking.send(answers.pop(0))
    except StopIteration as stop:
        assert not answers
        return requests, stop.value.write


def test_wait_k_by_words_writes_word_i_after_k_plus_i_minus_1_source_words() -> None:
    policy = WaitK(k=2, count="words")
    state, stream = policy.open(), session()
    transcribe = Request(task=Task.TRANSCRIPTION)
    assert by_words(policy, state, stream, [transcript()]) == ([transcribe], 0)
    # the last one may go on
    assert by_words(policy, state, stream, [transcript("one", "tw")]) == ([transcribe], 0)
    three = transcript("one", "two", "th")
    requests, write = by_words(policy, state, stream, [three, hypothesis("w.w")])
    assert (len(requests), requests[0], write) == (2, transcribe, 2)
    assert requests[1].max_words == 1
    assert torch.equal(requests[1].transcript_ids, three.token_ids)
    # no new word
    assert by_words(policy, state, stream, [transcript("one", "two", "three")]) == ([transcribe], 0)
    answers = [transcript("one", "two", "three", "four", "fi"), hypothesis("w.w.ww", prefix=2)]
    requests, write = by_words(policy, state, stream, answers)
    assert (requests[1].max_words, write) == (2, 3)
    assert state.num_written == 3


def test_wait_k_by_words_makes_up_for_words_that_were_not_whole() -> None:
    policy = WaitK(k=1, count="words")
    state = policy.open()
    [_, request], write = by_words(
        policy, state, session(), [transcript("a", "b", "c"), hypothesis("w.w.")]
    )
    assert (request.max_words, write) == (2, 2)
    [_, request], write = by_words(
        policy, state, session(), [transcript("a", "b", "c"), hypothesis("w.w.w", prefix=2)]
    )
    assert (request.max_words, write) == (1, 2)


def test_wait_k_by_words_remembers_words_whose_audio_was_cut() -> None:
    policy = WaitK(k=2, count="words")
    state, stream = policy.open(), session(8)
    by_words(policy, state, stream, [transcript("a", "b", "c", "d"), hypothesis("wwww")])
    assert (state.words, state.num_written) == (3, 2)
    stream.forget(Cut(frames=5))
    stream.receive(SpeechChunk(torch.zeros(4 * FRAME)))
    answers = [transcript("c", "d"), transcript("c", "d", "e"), hypothesis("wwww", prefix=2)]
    requests, write = by_words(policy, state, stream, answers)
    # the rest of the last transcript
    assert requests[0] == Request(task=Task.TRANSCRIPTION, audio_end=3)
    assert (state.forgotten, state.words, write) == (2, 4, 1)
    stream.receive(SpeechChunk(torch.zeros(4 * FRAME)))
    stream.forget(Cut(frames=8))  # and a frame behind it: nothing is left to transcribe
    requests, write = by_words(
        policy, state, stream, [transcript("f", "g"), hypothesis("wwww", prefix=2)]
    )
    assert (state.forgotten, state.words, write) == (4, 5, 1)
    assert len(requests) == 2


def test_wait_k_by_words_forgets_no_word_with_audio_before_the_first() -> None:
    policy = WaitK(k=9, count="words")
    state, stream = policy.open(), session(8)
    by_words(policy, state, stream, [transcript("a", "b", "c")])
    stream.forget(Cut(frames=1))
    by_words(policy, state, stream, [transcript("a", "b", "c"), transcript("a", "b", "c", "d")])
    assert (state.forgotten, state.words) == (0, 3)


def test_wait_k_needs_a_transcript_only_to_count_words() -> None:
    assert WaitK(k=1).needs == WaitK.needs == {Capability.PREFIX}
    assert WaitK(k=1, count="words").needs == {Capability.PREFIX, Capability.TRANSCRIPT}
