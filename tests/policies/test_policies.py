"""Each policy at the end of a source and with invalid options; policies without hypotheses."""

from typing import Any

import pytest
import torch

from tests.policies.decisions import FRAME, decide, hypothesis, session
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Cut, Decision, Request, SpeechChunk
from zoo.policies.alignatt import AlignAtt
from zoo.policies.base import Policy
from zoo.policies.edatt import EDAtt
from zoo.policies.local_agreement import LocalAgreement
from zoo.policies.read_all import ReadAll
from zoo.policies.turn_taking import TurnTaking
from zoo.policies.wait_k import WaitK


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
    stream.segment_end = 4 if flushed else None
    answer = hypothesis("w.ww.", prefix=1, attended=[0, 7, 7, 7, 7])
    assert decide(policy, answer, stream, policy.open())[1] == Decision(write=4)


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
    with pytest.raises(ZooError, match="min_start of at least 0, not -1"):
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
        lambda: EDAtt(alpha=0.1, last_frames=0),
        lambda: LocalAgreement(n=1),
        lambda: WaitK(k=0),
        lambda: WaitK(k=1, words_per_chunk=0),
        lambda: WaitK(k=1, count="tokens"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(ZooError, match=r"needs|choose one of"):
        make()
