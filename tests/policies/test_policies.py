"""Each policy, asked by hand: what it requests and what it decides."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from zoo.errors import ZooError
from zoo.languages import language
from zoo.policies.alignatt import AlignAtt
from zoo.policies.base import Policy
from zoo.policies.edatt import EDAtt
from zoo.policies.local_agreement import LocalAgreement
from zoo.policies.read_all import ReadAll
from zoo.policies.turn_taking import TurnTaking
from zoo.policies.wait_k import WaitK
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream
from zoo.types import Capability, Cut, Decision, Hypothesis, Request, SpeechChunk, Stage

FRAME = 10


def session(frames: int = 8, *, ended: bool = False) -> Session:
    """A stream that has heard so many frames."""
    text = TextStream(decode=lambda ids: "", separator=" ")
    made = Session(talk="talk", source=language("en"), target=language("de"), frame_samples=FRAME, text=text)
    made.receive(SpeechChunk(torch.zeros(frames * FRAME), final=ended))
    return made


def hypothesis(
    starts: str, *, prefix: int = 0, finished: bool = False, attended: Sequence[int] = (), frames: int = 8
) -> Hypothesis:
    """``starts``: per token of prefix and hypothesis "w" where a word begins, "." where it goes on."""
    return Hypothesis(
        token_ids=torch.arange(prefix, len(starts)),
        word_starts=torch.tensor([start == "w" for start in starts], dtype=torch.bool),
        prefix=prefix,
        finished=finished,
        alignment=torch.eye(frames)[list(attended)] if attended else None,
    )


def weighed(starts: str, rows: Sequence[Sequence[float]], *, prefix: int = 0, finished: bool = True) -> Hypothesis:
    """A hypothesis with these rows of attention."""
    answer = hypothesis(starts, prefix=prefix, finished=finished)
    return replace(answer, alignment=torch.tensor(rows, dtype=torch.float32).reshape(len(starts), -1))


def decide(policy: Policy, answer: Hypothesis, stream: Session, state: Any = None) -> tuple[list[Request], Decision]:
    """Run one decision, answering every request alike."""
    asking, requests = policy.decide(stream, state), []
    try:
        request = next(asking)
        while True:
            requests.append(request)
            request = asking.send(answer)
    except StopIteration as stop:
        return requests, stop.value


@pytest.mark.parametrize(
    ("starts", "attended", "finished", "write"),
    [
        ("www", [0, 3, 6], True, 2),  # the third token looks at one of the last two of eight frames
        ("www", [0, 3, 5], True, 3),  # none does, and the sentence is closed
        ("www", [0, 3, 5], False, 2),  # none does, but the last word may go on
        ("ww.", [0, 3, 6], True, 1),  # the stop would split the second word
        ("www", [7, 0, 0], True, 0),  # the first token stops everything behind it
        ("w..", [0, 1, 2], False, 0),  # one word that may go on
    ],
)
def test_alignatt_stops_at_the_first_token_that_attends_to_the_last_frames(
    starts: str, attended: list[int], finished: bool, write: int
) -> None:
    answer = hypothesis(starts, attended=attended, finished=finished)
    assert decide(AlignAtt(frames=2), answer, session()) == ([Request()], Decision(write=write))


def test_alignatt_reads_the_rows_of_new_tokens_only() -> None:
    answer = hypothesis("wwww", prefix=2, attended=[7, 7, 1, 2], finished=True)
    assert decide(AlignAtt(frames=2), answer, session())[1].write == 2


def test_alignatt_counts_frames_from_the_end_of_what_is_heard() -> None:
    answer = hypothesis("ww", attended=[0, 4], frames=5, finished=True)
    assert decide(AlignAtt(frames=1), answer, session(frames=5))[1].write == 1


@pytest.mark.parametrize("policy", [AlignAtt(frames=2), EDAtt(alpha=0.1)], ids=["alignatt", "edatt"])
def test_a_guided_policy_with_nothing_new_writes_nothing(policy: Policy) -> None:
    for prefix in (0, 2):
        answer = replace(hypothesis("w" * prefix, prefix=prefix, finished=True), alignment=torch.zeros(prefix, 3))
        assert decide(policy, answer, session())[1].write == 0


@pytest.mark.parametrize(
    ("starts", "attended", "write"),
    [
        ("wwww", [0, 3, 1, 2], 4),  # going back is no reason to wait
        ("wwww", [6, 0, 1, 2], 0),  # but what follows an unstable token waits, wherever it looks
        ("wwww", [7, 7, 7, 7], 0),  # all unstable
        ("w", [0], 1),  # one row, safe
        ("w", [7], 0),  # one row, unstable
        ("w...", [0, 1, 2, 7], 0),  # the only word in part
        (".ww", [0, 1, 7], 2),  # the hypothesis goes on with the written word
    ],
)
def test_alignatt_on_hand_made_alignments(starts: str, attended: list[int], write: int) -> None:
    answer = hypothesis(starts, attended=attended, finished=True)
    assert decide(AlignAtt(frames=2), answer, session())[1].write == write


def test_characters_are_written_one_by_one_and_their_bytes_together() -> None:
    # Four characters without a space between them; the last has three bytes, a token each.
    answer = hypothesis("wwww..", attended=[0, 1, 2, 3, 3, 7], finished=True)
    assert decide(AlignAtt(frames=1), answer, session())[1].write == 3
    assert decide(AlignAtt(frames=1), replace(answer, alignment=torch.eye(8)[:6]), session())[1].write == 6


@pytest.mark.parametrize(
    ("starts", "attended", "write"),
    [
        ("w.ww", [0, 1, 2, 3], 3),  # nothing is unstable and the sentence is closed: the last word waits all the same
        ("w.ww", [0, 1, 2, 7], 2),  # the stop stands behind a whole word
        ("w.w.", [0, 1, 2, 7], 2),  # ... or within one
        ("w...", [0, 1, 2, 3], 0),
        ("..w.", [0, 1, 2, 3], 2),  # the end of the written word
        ("....", [0, 1, 2, 3], 0),  # no word begins
        ("w", [7], 0),
    ],
)
def test_a_dropped_last_word_always_waits(starts: str, attended: list[int], write: int) -> None:
    answer = hypothesis(starts, attended=attended, finished=True)
    assert decide(AlignAtt(frames=1, last_word="dropped"), answer, session())[1].write == write
    assert decide(AlignAtt(frames=1, last_word="dropped"), answer, session(ended=True))[1].write == len(starts)


@pytest.mark.parametrize(
    ("attended", "prefix", "write"),
    [
        ([0, 3, 1, 4], 0, 4),  # two frames back are allowed
        ([0, 4, 1, 4], 0, 0),  # three make the look void, the tokens before them too
        ([4, 1, 2, 3], 1, 0),  # back from the last written token
        ([5, 1, 2, 3], 2, 2),  # among written tokens it is too late
    ],
)
def test_a_rewind_voids_the_look(attended: list[int], prefix: int, write: int) -> None:
    answer = hypothesis("wwww", attended=attended, prefix=prefix, finished=True)
    assert decide(AlignAtt(frames=1, rewind=2), answer, session())[1].write == write


# Rows of length 1 (3-4-5) over six frames: the last two hold .0, .6, .8, 1.4.
EARLY, LATE, LATER, BOTH = [1, 0, 0, 0, 0, 0], [0.8, 0, 0, 0, 0.6, 0], [0.6, 0, 0, 0, 0, 0.8], [0, 0, 0, 0, 0.8, 0.6]


@pytest.mark.parametrize(
    ("rows", "alpha", "write"),
    [
        ([EARLY, LATE, LATER, BOTH], 0.59, 1),
        ([EARLY, LATE, LATER, BOTH], 0.61, 2),
        ([EARLY, LATE, LATER, BOTH], 1.0, 3),  # a sum of length-1 rows may exceed 1
        ([EARLY, LATE, LATER, BOTH], 1.5, 4),
        ([BOTH, EARLY, EARLY, EARLY], 1.0, 0),  # the first token stops everything behind it
        ([LATER] * 4, 0.1, 0),  # all unstable
    ],
)
def test_edatt_stops_at_the_first_token_with_too_much_attention_on_the_last_frames(
    rows: list[list[float]], alpha: float, write: int
) -> None:
    assert decide(EDAtt(alpha=alpha), weighed("wwww", rows), session()) == ([Request()], Decision(write=write))
    scaled = weighed("wwww", [[3 * weight for weight in row] for row in rows])
    assert decide(EDAtt(alpha=alpha), scaled, session())[1].write == write


def test_edatt_stops_at_alpha_itself_and_counts_lambda_frames() -> None:
    answer = weighed("www", [[1, 0, 0, 0], [0, 0.75, 0.25, 0], [0, 0, 0, 1]])
    plain = {frames: EDAtt(alpha=0.25, frames=frames, l2_norm=False) for frames in (1, 2, 3, 9)}
    writes = {frames: decide(policy, answer, session())[1].write for frames, policy in plain.items()}
    assert writes == {1: 2, 2: 1, 3: 1, 9: 0}  # more frames than were heard: all of them


def test_edatt_waits_longer_the_smaller_alpha_is() -> None:
    generator = torch.Generator().manual_seed(5)
    answer = weighed("w" * 12, torch.rand(12, 20, generator=generator).softmax(dim=1).tolist())
    writes = [decide(EDAtt(alpha=alpha), answer, session())[1].write for alpha in (0.6, 0.5, 0.45, 0.4, 0.2, 0.03)]
    assert writes == sorted(writes, reverse=True)
    assert writes[0] > writes[-1] == 0


def test_edatt_of_tokens_without_any_attention_divides_by_nothing() -> None:
    assert decide(EDAtt(alpha=0.1), weighed("ww", [[0, 0, 0], [0, 0, 0]]), session())[1].write == 2
    one = weighed("w", [[0.3]])  # a single frame holds everything
    assert decide(EDAtt(alpha=0.6), one, session())[1].write == 0


def test_edatt_reads_the_rows_of_new_tokens_and_splits_no_word() -> None:
    answer = weighed("www.", [LATER, EARLY, EARLY, LATER], prefix=1)
    assert decide(EDAtt(alpha=0.5), answer, session())[1].write == 1
    assert decide(EDAtt(alpha=0.5, last_word="dropped"), answer, session())[1].write == 1
    assert decide(EDAtt(alpha=0.9, last_word="dropped"), answer, session())[1].write == 1
    assert decide(EDAtt(alpha=0.9), answer, session())[1].write == 3


def test_a_guided_policy_needs_the_alignment_it_asked_for() -> None:
    for policy in (AlignAtt(frames=1), EDAtt(alpha=0.1)):
        with pytest.raises(ValueError, match="without the alignment"):
            decide(policy, hypothesis("ww"), session())


def test_read_all_asks_once_at_the_end() -> None:
    answer = hypothesis("w.ww", prefix=1)
    assert decide(ReadAll(), answer, session()) == ([], Decision(write=0))
    assert decide(ReadAll(), answer, session(ended=True)) == ([Request()], Decision(write=3))


@pytest.mark.parametrize(
    "policy",
    [
        AlignAtt(frames=8, rewind=1),
        EDAtt(alpha=0.01, last_word="dropped"),
        LocalAgreement(n=3),
        WaitK(k=9),
        WaitK(k=9, count="words"),
        ReadAll(),
        TurnTaking(),
    ],
    ids=lambda policy: type(policy).__name__,
)
@pytest.mark.parametrize("flushed", [False, True])
def test_everything_is_written_at_the_end(policy: Policy, flushed: bool) -> None:
    stream = session(ended=not flushed)
    stream.horizon = 4 if flushed else None
    answer = hypothesis("w.ww.", prefix=1, attended=[0, 7, 7, 7, 7])
    assert decide(policy, answer, stream, policy.open())[1] == Decision(write=4)


def test_local_agreement_writes_the_common_prefix_and_keeps_the_rest_of_what_was_said() -> None:
    policy = LocalAgreement(n=2)
    state = policy.open()

    def said(*ids: int, prefix: int = 0, finished: bool = False) -> int:
        ones = torch.ones(prefix + len(ids), dtype=torch.bool)
        answer = Hypothesis(torch.tensor(ids, dtype=torch.long), ones, prefix=prefix, finished=finished)
        return decide(policy, answer, session(), state)[1].write

    assert said(1, 2, 3) == 0  # nothing to agree with
    assert said(1, 2, 4, 5) == 2
    assert said(4, 6, prefix=2) == 1  # the last hypothesis, less what was written, was 4 5
    assert said(7, prefix=3) == 0
    assert said(7, prefix=3) == 0  # agreed, but the word may go on
    assert said(7, prefix=3, finished=True) == 0  # ... as the look before said
    assert said(7, prefix=3, finished=True) == 1
    assert said(prefix=4) == 0


def test_local_agreement_of_three() -> None:
    policy = LocalAgreement(n=3)
    state = policy.open()
    writes = []
    for ids in ([1, 2, 3], [1, 2, 4], [1, 5, 4], [1, 5, 4]):
        remaining = ids[sum(writes) :]
        answer = Hypothesis(torch.tensor(remaining), torch.ones(3, dtype=torch.bool), prefix=sum(writes), finished=True)
        writes.append(decide(policy, answer, session(), state)[1].write)
    assert writes == [0, 0, 1, 0]


def test_local_agreement_does_not_split_a_word() -> None:
    policy, state = LocalAgreement(n=2), LocalAgreement(n=2).open()
    starts = torch.tensor([True, True, False, False])
    for ids, write in (([1, 2, 3, 4], 0), ([1, 2, 3, 5], 1)):
        assert decide(policy, Hypothesis(torch.tensor(ids), starts), session(), state)[1].write == write


def test_local_agreement_needs_agreement_on_where_a_word_ends() -> None:
    policy, state = LocalAgreement(n=2), LocalAgreement(n=2).open()
    ids = torch.tensor([1, 2, 3])
    longer = Hypothesis(ids, torch.tensor([True, False, True]))  # 1 2 is one word
    shorter = Hypothesis(torch.tensor([1, 3]), torch.tensor([True, True]))  # 1 is
    assert [decide(policy, answer, session(), state)[1].write for answer in (longer, shorter, shorter)] == [0, 0, 1]


def test_local_agreement_goes_on_after_a_history_has_cut() -> None:
    policy = LocalAgreement(n=2)
    state = policy.open()
    ones = torch.ones(6, dtype=torch.bool)
    first = Hypothesis(torch.tensor([1, 2, 3, 4]), ones[:4])
    second = Hypothesis(torch.tensor([1, 2, 5]), ones[:3], finished=True)
    assert [decide(policy, answer, session(), state)[1].write for answer in (first, second)] == [0, 2]
    third = Hypothesis(torch.tensor([5, 6]), ones[:3], prefix=1)  # one of the two written tokens was forgotten
    assert decide(policy, third, session(), state)[1].write == 1


def test_local_agreement_on_nothing() -> None:
    policy, state = LocalAgreement(n=2), LocalAgreement(n=2).open()
    for answer in (hypothesis("", finished=True), hypothesis("", finished=True), hypothesis("ww", finished=True)):
        assert decide(policy, answer, session(), state)[1].write == 0


def test_wait_k_asks_for_nothing_before_k_chunks() -> None:
    policy = WaitK(k=3, words_per_chunk=2)
    state = policy.open()
    answer = hypothesis("w.w.ww")
    looks = [decide(policy, answer, session(), state) for _ in range(4)]
    assert [decision.write for _, decision in looks] == [0, 0, 4, 4]
    assert [requests for requests, _ in looks] == [[], [], [Request(max_words=2)], [Request(max_words=2)]]


def test_wait_k_writes_fewer_words_when_fewer_are_whole() -> None:
    policy = WaitK(k=1, words_per_chunk=3)
    assert decide(policy, hypothesis("w.w."), session(), policy.open())[1].write == 2
    assert decide(policy, hypothesis("w.w.", finished=True), session(), policy.open())[1].write == 4


def heard(*words: str) -> Hypothesis:
    """A transcript, one token per letter."""
    starts = [index == 0 for word in words for index in range(len(word))]
    return Hypothesis(torch.arange(len(starts)), torch.tensor(starts, dtype=torch.bool), transcript=" ".join(words))


def by_words(policy: WaitK, state: Any, stream: Session, answers: list[Hypothesis]) -> tuple[list[Request], int]:
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
    transcribe = Request(stage=Stage.TRANSCRIPT)
    assert by_words(policy, state, stream, [heard()]) == ([transcribe], 0)
    assert by_words(policy, state, stream, [heard("one", "tw")]) == ([transcribe], 0)  # the last one may go on
    three = heard("one", "two", "th")
    requests, write = by_words(policy, state, stream, [three, hypothesis("w.w")])
    assert (len(requests), requests[0], write) == (2, transcribe, 2)
    assert requests[1].max_words == 1
    assert torch.equal(requests[1].transcript, three.token_ids)
    assert by_words(policy, state, stream, [heard("one", "two", "three")]) == ([transcribe], 0)  # no new word
    answers = [heard("one", "two", "three", "four", "fi"), hypothesis("w.w.ww", prefix=2)]
    requests, write = by_words(policy, state, stream, answers)
    assert (requests[1].max_words, write) == (2, 3)
    assert state.written == 3


def test_wait_k_by_words_makes_up_for_words_that_were_not_whole() -> None:
    policy = WaitK(k=1, count="words")
    state = policy.open()
    [_, request], write = by_words(policy, state, session(), [heard("a", "b", "c"), hypothesis("w.w.")])
    assert (request.max_words, write) == (2, 2)
    [_, request], write = by_words(policy, state, session(), [heard("a", "b", "c"), hypothesis("w.w.w", prefix=2)])
    assert (request.max_words, write) == (1, 2)


def test_wait_k_by_words_remembers_words_whose_audio_was_cut() -> None:
    policy = WaitK(k=2, count="words")
    state, stream = policy.open(), session(8)
    by_words(policy, state, stream, [heard("a", "b", "c", "d"), hypothesis("wwww")])
    assert (state.words, state.written) == (3, 2)
    stream.forget(Cut(frames=5))
    stream.receive(SpeechChunk(torch.zeros(4 * FRAME)))
    answers = [heard("c", "d"), heard("c", "d", "e"), hypothesis("wwww", prefix=2)]
    requests, write = by_words(policy, state, stream, answers)
    assert requests[0] == Request(stage=Stage.TRANSCRIPT, audio_end=3)  # what is left of the last look
    assert (state.forgotten, state.words, write) == (2, 4, 1)
    stream.forget(Cut(frames=7))  # nothing is left of it: no more to ask
    stream.receive(SpeechChunk(torch.zeros(4 * FRAME)))
    requests, write = by_words(policy, state, stream, [heard("f", "g"), hypothesis("wwww", prefix=2)])
    assert (state.forgotten, state.words, write) == (4, 5, 1)
    assert len(requests) == 2


def test_wait_k_needs_a_transcript_only_to_count_words() -> None:
    assert WaitK(k=1).needs == WaitK.needs == {Capability.PREFIX}
    assert WaitK(k=1, count="words").needs == {Capability.PREFIX, Capability.TRANSCRIPT}


def test_turn_taking_reads_until_it_may_start() -> None:
    policy = TurnTaking(min_start=25 * FRAME / 16_000)
    stream = session(20)
    assert decide(policy, hypothesis("ww"), stream) == ([], Decision(write=0))
    stream.receive(SpeechChunk(torch.zeros(5 * FRAME)))
    assert decide(policy, hypothesis("ww"), stream) == ([Request()], Decision(write=2))
    stream.forget(Cut(frames=25))
    stream.receive(SpeechChunk(torch.zeros(FRAME)))
    assert decide(policy, hypothesis("ww"), stream)[1] == Decision(write=2)
    assert decide(policy, hypothesis("ww"), session(20, ended=True))[1] == Decision(write=2)
    with pytest.raises(ZooError, match="min_start of at least 0 seconds, not -1"):
        TurnTaking(min_start=-1)


def test_turn_taking_writes_the_turn() -> None:
    assert TurnTaking.needs == {Capability.TURNS}
    assert decide(TurnTaking(), hypothesis("ww."), session()) == ([Request()], Decision(write=3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: AlignAtt(frames=0),
        lambda: AlignAtt(frames=1, rewind=0),
        lambda: AlignAtt(frames=1, last_word="kept"),  # type: ignore[arg-type]
        lambda: EDAtt(alpha=0),
        lambda: EDAtt(alpha=0.1, frames=0),
        lambda: LocalAgreement(n=1),
        lambda: WaitK(k=0),
        lambda: WaitK(k=1, words_per_chunk=0),
        lambda: WaitK(k=1, count="tokens"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(ZooError, match="needs"):
        make()
