"""AlignAtt and EDAtt on hand-made attention."""

from dataclasses import replace

import pytest
import torch

from tests.policies.decisions import decide, hypothesis, session, with_attention
from zoo.base.errors import ZooError
from zoo.base.types import Decision, Request
from zoo.policies.alignatt import AlignAtt
from zoo.policies.attention import AttentionGuided
from zoo.policies.base import Policy
from zoo.policies.edatt import EDAtt


@pytest.mark.parametrize(
    ("starts", "attended", "finished", "write"),
    [
        # the third token attends to one of the last two of eight frames
        ("www", [0, 3, 6], True, 2),
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
    policy = AlignAtt(frames=2)
    expected = [Request(stop_at=policy.attends_to_newest)], Decision(write=write)
    assert decide(policy, answer, session()) == expected


def test_alignatt_reads_the_rows_of_new_tokens_only() -> None:
    answer = hypothesis("wwww", prefix=2, attended=[7, 7, 1, 2], finished=True)
    assert decide(AlignAtt(frames=2), answer, session())[1].write == 2


def test_alignatt_counts_frames_from_the_end_of_the_received_audio() -> None:
    answer = hypothesis("ww", attended=[0, 4], frames=5, finished=True)
    assert decide(AlignAtt(frames=1), answer, session(frames=5))[1].write == 1


@pytest.mark.parametrize(
    "policy", [AlignAtt(frames=2), EDAtt(alpha=0.1)], ids=["alignatt", "edatt"]
)
def test_a_guided_policy_with_nothing_new_writes_nothing(policy: Policy) -> None:
    for prefix in (0, 2):
        answer = replace(
            hypothesis("w" * prefix, prefix=prefix, finished=True), alignment=torch.zeros(prefix, 3)
        )
        assert decide(policy, answer, session())[1].write == 0


@pytest.mark.parametrize(
    ("starts", "attended", "write"),
    [
        ("wwww", [0, 3, 1, 2], 4),  # going back is no reason to wait
        ("wwww", [6, 0, 1, 2], 0),  # but tokens after an unstable token wait, wherever they attend
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
    assert (
        decide(AlignAtt(frames=1), replace(answer, alignment=torch.eye(8)[:6]), session())[1].write
        == 6
    )


@pytest.mark.parametrize(
    ("starts", "attended", "write"),
    [
        # nothing is unstable and the sentence is closed: the last word waits all the same
        ("w.ww", [0, 1, 2, 3], 3),
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
    assert decide(AlignAtt(frames=1, last_word="dropped"), answer, session(ended=True))[
        1
    ].write == len(starts)


def test_without_a_flush_the_end_of_the_source_is_like_any_other_moment() -> None:
    for attended, write in (([0, 3, 7], 2), ([0, 3, 5], 3)):
        answer = hypothesis("www", attended=attended, finished=True)
        assert (
            decide(AlignAtt(frames=2, flush=False), answer, session(ended=True))[1].write == write
        )
        assert decide(AlignAtt(frames=2), answer, session(ended=True))[1].write == 3


@pytest.mark.parametrize(
    ("attended", "prefix", "write"),
    [
        ([0, 3, 1, 4], 0, 4),  # two frames back are allowed
        ([0, 4, 1, 4], 0, 0),  # three frames back: all tokens are unstable, also the earlier ones
        ([4, 1, 2, 3], 1, 0),  # back from the last written token
        ([5, 1, 2, 3], 2, 2),  # among written tokens it is too late
        ([0, 7, 1, 7], 0, 1),  # behind the first token that stops writing nothing counts
        ([0, 1, 7, 1], 0, 2),  # behind a token that stops writing nothing counts
    ],
)
def test_a_rewind_discards_the_hypothesis(attended: list[int], prefix: int, write: int) -> None:
    answer = hypothesis("wwww", attended=attended, prefix=prefix, finished=True)
    assert decide(AlignAtt(frames=1, rewind=2), answer, session())[1].write == write


# Rows over six frames, of which the last two are the newest. The masses on the accessible and on
# the newest frames are 0.25 and 0; 0.125 and 0.25; 0.25 and 0.125; 0 and 0.5.
SURE, EDGE, SPREAD, AHEAD = (
    [0, 0.25, 0, 0, 0, 0],
    [0.125, 0, 0, 0, 0.25, 0],
    [0.0625, 0.125, 0.0625, 0, 0.125, 0],
    [0, 0, 0, 0, 0, 0.5],
)


@pytest.mark.parametrize(
    ("rows", "options", "write"),
    [
        ([SURE, EDGE, SPREAD, AHEAD], {}, 1),  # the second token attends most to frame 4
        ([SURE, EDGE, SPREAD, AHEAD], {"border_margin": 1}, 3),  # the fourth to frame 5
        ([SURE, EDGE, SPREAD, AHEAD], {"border_margin": 2}, 4),
        ([SURE, SPREAD, SURE, SURE], {"min_source_mass": 0.25}, 4),  # equal is enough
        ([SURE, SPREAD, SURE, SURE], {"min_source_mass": 0.3}, 0),
        # the mass on the accessible frames is that without the margin
        ([SURE, EDGE, SPREAD, AHEAD], {"border_margin": 2, "min_source_mass": 0.125}, 3),
        ([SURE, EDGE, SPREAD, AHEAD], {"border_margin": 2, "min_source_mass": 0.2}, 1),
        # attention to a newest frame stops writing only if there is enough of it
        ([SURE, EDGE, SPREAD, AHEAD], {"min_newest_mass": 0.25}, 1),
        ([SURE, EDGE, SPREAD, AHEAD], {"min_newest_mass": 0.3}, 3),
        ([SURE, EDGE, SPREAD, AHEAD], {"min_newest_mass": 0.6}, 4),
        ([SURE, EDGE, SPREAD, AHEAD], {"min_newest_mass": 0.6, "min_source_mass": 0.1}, 3),
        ([AHEAD, SURE, SURE, SURE], {"min_source_mass": 0.1, "min_newest_mass": 0.6}, 0),
    ],
)
def test_alignatt_with_masses(
    rows: list[list[float]], options: dict[str, float], write: int
) -> None:
    """The acceptance rule of AlignAtt4LLM."""
    policy = AlignAtt(frames=2, **options)  # type: ignore[arg-type]
    answer = with_attention("wwww", rows)
    assert decide(policy, answer, session())[1].write == write
    padded = torch.nn.functional.pad(torch.tensor(rows), (0, 3), value=9)
    alone = policy.attends_to_newest(torch.tensor(rows), torch.tensor([6] * 4))
    assert policy.attends_to_newest(padded, torch.tensor([6] * 4)).tolist() == alone.tolist()


def test_without_accessible_frames_no_mass_is_enough() -> None:
    answer = with_attention("w", [[0.5, 0.5]])
    assert decide(AlignAtt(frames=2, border_margin=2), answer, session())[1].write == 1
    policy = AlignAtt(frames=2, border_margin=2, min_source_mass=0.01)
    assert decide(policy, answer, session())[1].write == 0


@pytest.mark.parametrize(
    "options", [{"border_margin": -1}, {"min_source_mass": -0.1}, {"min_newest_mass": 1.1}]
)
def test_masses_and_margins_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ZooError, match=next(iter(options))):
        AlignAtt(frames=2, **options)  # type: ignore[arg-type]


# Rows of length 1 (3-4-5) over six frames: the last two hold .0, .6, .8, 1.4.
EARLY, LATE, LATER, BOTH = (
    [1, 0, 0, 0, 0, 0],
    [0.8, 0, 0, 0, 0.6, 0],
    [0.6, 0, 0, 0, 0, 0.8],
    [0, 0, 0, 0, 0.8, 0.6],
)


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
    policy = EDAtt(alpha=alpha)
    assert decide(policy, with_attention("wwww", rows), session()) == (
        [Request(stop_at=policy.attends_to_newest)],
        Decision(write=write),
    )
    scaled = with_attention("wwww", [[3 * weight for weight in row] for row in rows])
    assert decide(EDAtt(alpha=alpha), scaled, session())[1].write == write


def test_edatt_stops_at_alpha_itself_and_counts_lambda_frames() -> None:
    answer = with_attention("www", [[1, 0, 0, 0], [0, 0.75, 0.25, 0], [0, 0, 0, 1]])
    plain = {
        frames: EDAtt(alpha=0.25, last_frames=frames, l2_norm=False) for frames in (1, 2, 3, 9)
    }
    writes = {
        frames: decide(policy, answer, session())[1].write for frames, policy in plain.items()
    }
    assert writes == {1: 2, 2: 1, 3: 1, 9: 0}  # more frames than were received: all of them


def test_edatt_waits_longer_the_smaller_alpha_is() -> None:
    generator = torch.Generator().manual_seed(5)
    answer = with_attention(
        "w" * 12, torch.rand(12, 20, generator=generator).softmax(dim=1).tolist()
    )
    writes = [
        decide(EDAtt(alpha=alpha), answer, session())[1].write
        for alpha in (0.6, 0.5, 0.45, 0.4, 0.2, 0.03)
    ]
    assert writes == sorted(writes, reverse=True)
    assert writes[0] > writes[-1] == 0


def test_edatt_of_tokens_without_any_attention_divides_by_nothing() -> None:
    assert (
        decide(EDAtt(alpha=0.1), with_attention("ww", [[0, 0, 0], [0, 0, 0]]), session())[1].write
        == 2
    )
    one = with_attention("w", [[0.3]])  # a single frame holds everything
    assert decide(EDAtt(alpha=0.6), one, session())[1].write == 0


def test_edatt_reads_the_rows_of_new_tokens_and_splits_no_word() -> None:
    answer = with_attention("www.", [LATER, EARLY, EARLY, LATER], prefix=1)
    assert decide(EDAtt(alpha=0.5), answer, session())[1].write == 1
    assert decide(EDAtt(alpha=0.5, last_word="dropped"), answer, session())[1].write == 1
    assert decide(EDAtt(alpha=0.9, last_word="dropped"), answer, session())[1].write == 1
    assert decide(EDAtt(alpha=0.9), answer, session())[1].write == 3


def test_a_guided_policy_needs_the_alignment_it_asked_for() -> None:
    for policy in (AlignAtt(frames=1), EDAtt(alpha=0.1)):
        with pytest.raises(ValueError, match="no alignment"):
            decide(policy, hypothesis("ww"), session())


@pytest.mark.parametrize(
    "policy",
    [
        AlignAtt(frames=2),
        AlignAtt(frames=3, border_margin=1, min_source_mass=0.4, min_newest_mass=0.5),
        EDAtt(alpha=0.4, last_frames=2),
    ],
)
def test_rows_of_several_streams_are_late_as_alone(policy: AttentionGuided) -> None:
    """A batch pads the rows of streams with fewer frames."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 9, (200,), generator=generator)
    rows = [torch.rand(1, int(length), generator=generator) for length in lengths]
    padded = torch.cat(
        [torch.nn.functional.pad(row, (0, 9 - row.shape[1]), value=9) for row in rows]
    )
    alone = [bool(policy.attends_to_newest(row, torch.tensor([row.shape[1]]))) for row in rows]
    assert policy.attends_to_newest(padded, lengths).tolist() == alone
    assert set(alone) == {True, False}
