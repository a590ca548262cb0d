"""Each policy, asked by hand: what it requests and what it decides."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from zoo.errors import ZooError
from zoo.languages import language
from zoo.policies.alignatt import AlignAtt
from zoo.policies.base import Policy
from zoo.policies.local_agreement import LocalAgreement
from zoo.policies.turn_taking import TurnTaking
from zoo.policies.wait_k import WaitK
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream
from zoo.types import Capability, Cut, Decision, Hypothesis, Request, SpeechChunk

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


def test_alignatt_with_nothing_new_writes_nothing() -> None:
    answer = hypothesis("ww", prefix=2, attended=[1, 2], finished=True)
    assert decide(AlignAtt(frames=2), answer, session())[1].write == 0


@pytest.mark.parametrize(
    "policy",
    [AlignAtt(frames=8), LocalAgreement(n=3), WaitK(k=9), TurnTaking()],
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
        lambda: LocalAgreement(n=1),
        lambda: WaitK(k=0),
        lambda: WaitK(k=1, words_per_chunk=0),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(ZooError, match="needs"):
        make()
