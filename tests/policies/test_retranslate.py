"""Translations of overlapping windows, joined by hand."""

from collections.abc import Sequence

import pytest
import torch

from tests.policies.decisions import decide, session
from zoo.base.errors import ZooError
from zoo.base.types import Decision, Hypothesis
from zoo.policies.retranslate import Retranslate
from zoo.streaming.session import Session


def output(
    policy: Retranslate, translations: Sequence[Sequence[int]], stream: Session | None = None
) -> list[list[int]]:
    """The emitted ids after each translation."""
    stream, state = stream or session(), policy.open()
    emitted: list[int] = []
    outputs = []
    for ids in translations:
        answer = Hypothesis(torch.tensor(ids, dtype=torch.long), torch.ones(len(ids)).bool())
        decision: Decision = decide(policy, answer, stream, state)[1]
        emitted = emitted[: len(emitted) - decision.delete]
        emitted += ids[decision.skip :][: decision.write]
        outputs.append(emitted)
        assert state.window == emitted[len(emitted) - len(state.window) :]
    return outputs


def test_a_translation_replaces_what_follows_the_longest_common_sequence() -> None:
    assert output(Retranslate(), [[1, 2, 3], [1, 2, 4, 5], [2, 4, 5, 6]]) == [
        [1, 2, 3],
        [1, 2, 4, 5],
        [1, 2, 4, 5, 6],
    ]


def test_tokens_before_that_sequence_are_final() -> None:
    """The last translation begins in mid-word: 9 differs from 2, and both 3 and 4 are common."""
    assert output(Retranslate(), [[1, 2, 3, 4], [9, 3, 4, 5]])[-1] == [1, 2, 3, 4, 5]


def test_a_translation_without_tokens_changes_nothing() -> None:
    assert output(Retranslate(), [[], [1, 2], [], [1, 2, 3]]) == [[], [1, 2], [1, 2], [1, 2, 3]]


def test_without_common_sequence_the_first_window_is_replaced_and_later_ones_continue() -> None:
    stream = session()
    assert output(Retranslate(), [[1, 2], [3, 4]], stream)[-1] == [3, 4]

    policy, state = Retranslate(), Retranslate().open()
    answers = [Hypothesis(torch.tensor(ids), torch.ones(2).bool()) for ids in ([1, 2], [3, 4])]
    decide(policy, answers[0], stream, state)
    stream.audio_start = 1  # audio has left the window
    assert decide(policy, answers[1], stream, state)[1] == Decision(write=2)
    state.window = [1, 2]
    overriding = Retranslate(override=True)
    assert decide(overriding, answers[1], stream, state)[1] == Decision(write=2, delete=2)


@pytest.mark.parametrize(("share", "expected"), [(0.5, [1, 2, 3, 4, 5]), (0.51, [2, 3, 4, 5])])
def test_a_short_common_sequence_is_not_used(share: float, expected: list[int]) -> None:
    """Two of four tokens are common."""
    outputs = output(Retranslate(match_share=share), [[1, 2, 3], [2, 3, 4, 5]])
    assert outputs[-1] == expected


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(ZooError, match="match_share"):
        Retranslate(match_share=1.1)
