"""Prefixes on which consecutive hypotheses agree."""

from dataclasses import replace

import pytest
import torch

from tests.policies.decisions import decide, hypothesis, session
from zoo.base.types import Hypothesis
from zoo.policies.local_agreement import LocalAgreement


def test_local_agreement_writes_the_common_prefix_and_keeps_the_rest_of_the_hypothesis() -> None:
    policy = LocalAgreement(n=2)
    state = policy.open()

    def write(*ids: int, prefix: int = 0, finished: bool = False) -> int:
        ones = torch.ones(prefix + len(ids), dtype=torch.bool)
        answer = Hypothesis(
            torch.tensor(ids, dtype=torch.long), ones, prefix_length=prefix, finished=finished
        )
        return decide(policy, answer, session(), state)[1].write

    assert write(1, 2, 3) == 0  # nothing to agree with
    assert write(1, 2, 4, 5) == 2
    assert write(4, 6, prefix=2) == 1  # the last hypothesis, less what was written, was 4 5
    assert write(7, prefix=3) == 0
    assert write(7, prefix=3) == 0  # agreed, but the word may continue
    # ... and the previous hypothesis was not finished
    assert write(7, prefix=3, finished=True) == 0
    assert write(7, prefix=3, finished=True) == 1
    assert write(prefix=4) == 0


def test_local_agreement_of_three() -> None:
    policy = LocalAgreement(n=3)
    state = policy.open()
    writes = []
    for ids in ([1, 2, 3], [1, 2, 4], [1, 5, 4], [1, 5, 4]):
        remaining = ids[sum(writes) :]
        answer = Hypothesis(
            torch.tensor(remaining),
            torch.ones(3, dtype=torch.bool),
            prefix_length=sum(writes),
            finished=True,
        )
        writes.append(decide(policy, answer, session(), state)[1].write)
    assert writes == [0, 0, 1, 0]


def test_local_agreement_does_not_split_a_word() -> None:
    policy, state = LocalAgreement(), LocalAgreement().open()  # of two
    starts = torch.tensor([True, True, False, False])
    for ids, write in (([1, 2, 3, 4], 0), ([1, 2, 3, 5], 1)):
        assert (
            decide(policy, Hypothesis(torch.tensor(ids), starts), session(), state)[1].write
            == write
        )


def test_local_agreement_needs_agreement_on_where_a_word_ends() -> None:
    policy, state = LocalAgreement(n=2), LocalAgreement(n=2).open()
    ids = torch.tensor([1, 2, 3])
    longer = Hypothesis(ids, torch.tensor([True, False, True]))  # 1 2 is one word
    shorter = Hypothesis(torch.tensor([1, 3]), torch.tensor([True, True]))  # 1 is
    assert [
        decide(policy, answer, session(), state)[1].write for answer in (longer, shorter, shorter)
    ] == [0, 0, 1]


def test_local_agreement_goes_on_after_a_history_has_cut() -> None:
    policy = LocalAgreement(n=2)
    state = policy.open()
    ones = torch.ones(6, dtype=torch.bool)
    first = Hypothesis(torch.tensor([1, 2, 3, 4]), ones[:4])
    second = Hypothesis(torch.tensor([1, 2, 5]), ones[:3], finished=True)
    assert [decide(policy, answer, session(), state)[1].write for answer in (first, second)] == [
        0,
        2,
    ]
    # one of the two written tokens was forgotten
    third = Hypothesis(torch.tensor([5, 6]), ones[:3], prefix_length=1)
    assert decide(policy, third, session(), state)[1].write == 1


def test_local_agreement_on_nothing() -> None:
    policy, state = LocalAgreement(n=2), LocalAgreement(n=2).open()
    for answer in (
        hypothesis("", finished=True),
        hypothesis("", finished=True),
        hypothesis("ww", finished=True),
    ):
        assert decide(policy, answer, session(), state)[1].write == 0


@pytest.mark.parametrize(("new_source", "writes"), [(False, [0, 2, 0]), (True, [0, 0, 1])])
def test_hypotheses_of_the_same_transcript(new_source: bool, writes: list[int]) -> None:
    policy = LocalAgreement(new_source=new_source)
    state = policy.open()
    answers = [
        replace(hypothesis("ww", finished=True), transcript="we"),
        replace(hypothesis("ww", finished=True), transcript="we"),
        replace(
            hypothesis("ww", finished=True), transcript="we go", token_ids=torch.tensor([0, 7])
        ),
    ]
    if not new_source:  # both tokens are written after the second answer
        answers[2] = replace(
            answers[2], prefix_length=2, token_ids=torch.tensor([], dtype=torch.long)
        )
    decisions = [decide(policy, answer, session(), state)[1].write for answer in answers]
    assert decisions == writes


def test_without_transcripts_every_source_is_new() -> None:
    policy = LocalAgreement(new_source=True)
    state = policy.open()
    for write in (0, 2):
        answer = hypothesis("ww", finished=True)
        assert decide(policy, answer, session(), state)[1].write == write
