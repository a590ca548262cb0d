"""Talks are claimed once, the longest first; a single process needs no process group."""

from pathlib import Path

from zoo.base.talks import Talk
from zoo.streaming.queue import TalkQueue
from zoo.streaming.ranks import Ranks

TALKS = [
    Talk(name, Path(f"{name}.wav"), duration, "en", ())
    for name, duration in (("a", 3.0), ("b", 9.0), ("c", 5.0), ("d", 9.0))
]


def claimed(queue: TalkQueue) -> list[tuple[int, str]]:
    return [(place, talk.name) for place, talk in queue]


def test_the_longest_talk_is_claimed_first() -> None:
    assert claimed(TalkQueue(TALKS)) == [(1, "b"), (3, "d"), (2, "c"), (0, "a")]


def test_two_readers_of_a_queue_share_its_talks() -> None:
    queue = TalkQueue(TALKS)
    first, second = iter(queue), iter(queue)
    names = [next(reader)[1].name for reader in (first, second, second, first)]
    assert names == ["b", "d", "c", "a"]
    assert list(first) == list(second) == []


def test_two_queues_of_the_same_talks_are_independent() -> None:
    assert claimed(TalkQueue(TALKS)) == claimed(TalkQueue(TALKS))


def test_finished_talks_are_skipped() -> None:
    queue = TalkQueue(TALKS)
    queue.finished = (1, 2)
    assert [place for place, _ in queue.unfinished()] == [0, 3]
    assert claimed(queue) == [(3, "d"), (0, "a")]


def test_a_queue_of_some_talks_keeps_their_positions() -> None:
    queue = TalkQueue(TALKS)
    assert len(claimed(queue)) == 4
    assert claimed(queue.only([0, 2])) == [(0, "a"), (2, "c")]


def test_a_process_without_a_group_is_the_only_rank() -> None:
    ranks = Ranks()
    assert (ranks.rank, ranks.count) == (0, 1)
    assert [ranks.add("x", 2), ranks.add("x", 0), ranks.add("y", 1)] == [2, 2, 1]
    ranks.finish("work")
    assert ranks.wait("work") == []
