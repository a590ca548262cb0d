"""Talks of a mixture of corpora of which some are decoded when they are needed."""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from zoo.base.talks import LazyTalks, Share, Talk
from zoo.data.fingerprint import content_hash
from zoo.data.views import usable_parts

SECONDS = 3600  # seconds per hour


class SharedTalks(LazyTalks):
    """Talks of a lazy corpus as those of a share of a mixture.

    Args:
        talks: talks of the corpus.
        share: the share.
    """

    def __init__(self, talks: LazyTalks, share: Share) -> None:
        self._talks = talks
        self._share = share
        self.content_hash = talks.content_hash
        self.hours = talks.hours

    def __len__(self) -> int:
        return len(self._talks)

    def item(self, index: int) -> Talk:
        """Return a talk, whose segments are not decoded yet."""
        return self._share.talk(self._talks[index])

    def check(self, *, source: str, target: str) -> None:
        """Check the languages of all talks; see ``LazyTalks``."""
        self._talks.check(source=source, target=target)


class MixedTalks(LazyTalks):
    """Talks of all shares of a mixture, one share after the other.

    Args:
        shares: each share with its talks, which are in the direction of the share.

    Attributes:
        shares: each share with the usable parts of its talks; shares without talks are left out.
    """

    def __init__(self, shares: Sequence[tuple[Share, Sequence[Talk]]]) -> None:
        self.decoded = [
            talk for _, talks in shares if not isinstance(talks, LazyTalks) for talk in talks
        ]
        usable = [(share, usable_parts(talks)) for share, talks in shares]
        self.shares = [(share, talks) for share, talks in usable if talks]
        self.hours = sum(_hours(talks) for _, talks in self.shares)
        self._ends = list(accumulate(len(talks) for _, talks in self.shares))
        hashes = [f"{share.name}:{_hash(talks)}" for share, talks in shares]
        self.content_hash = hashlib.sha256("\n".join(hashes).encode()).hexdigest()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def item(self, index: int) -> Talk:
        """Return a talk; one of a lazy corpus is not decoded yet."""
        share = bisect_right(self._ends, index)
        talks = self.shares[share][1]
        return talks[index - self._ends[share] + len(talks)]

    def check(self, *, source: str, target: str) -> None:
        """The mixture has checked each lazy corpus in the direction of its entry."""


def _hours(talks: Sequence[Talk]) -> float:
    """Return the duration of talks in hours."""
    if isinstance(talks, LazyTalks):
        return talks.hours
    return sum(talk.duration for talk in talks) / SECONDS


def _hash(talks: Sequence[Talk]) -> str:
    """Return the hash of the contents of talks."""
    return talks.content_hash if isinstance(talks, LazyTalks) else content_hash(talks)
