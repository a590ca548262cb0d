"""Trajectories: what is written after each chunk, and how late it is (InfiniSST, section 3.3)."""

from collections.abc import Sequence
from dataclasses import replace

from zoo.apps.prepare.items import Item, Notes
from zoo.apps.prepare.steps.base import PlainStep
from zoo.apps.prepare.trajectories import trajectory
from zoo.base.languages import language
from zoo.base.talks import Segment
from zoo.data.views import sentences
from zoo.metrics.latency import LAAL, Timing
from zoo.metrics.rules import find_rules

# Names of scores, each with the code of the target language after it.
LAG, UNALIGNED = "LAAL ", "unaligned "


class TrajectoriesStep(PlainStep):
    """Scores the trajectory of each segment and translation.

    A training derives trajectories from word times and alignment, so nothing else is stored. The
    scores are the LAAL of the trajectory in seconds, with chunks of 0.96 s and the segment as a
    source of its own (Table 1), and the share of the target units without a source word, which
    are emitted with the next aligned unit.
    """

    name = "trajectories"

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """See ``Step``."""
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Item:
        """Return an item with the scores of its usable segments."""
        notes: dict[int, Notes] = {}
        for index, sentence in enumerate(sentences([item.talk])):
            [segment] = sentence.segments
            if not item.usable[index] or not is_aligned(segment):
                continue
            scores = dict(item.notes[index].scores)
            for code, target in segment.targets.items():
                stream = trajectory(0, sentence, language(code))
                length = find_rules("zoo").length(target.text, language(code).unit)
                lag = LAAL().score(Timing(stream.delays, stream.source_length, length))
                if lag is not None:
                    scores[f"{LAG}{code}"] = round(lag, 4)
                lost = sum(not sources for sources in target.alignment)
                scores[f"{UNALIGNED}{code}"] = round(lost / len(target.alignment), 4)
            notes[index] = replace(item.notes[index], scores=scores)
        return item.with_segments({}, notes)


def is_aligned(segment: Segment) -> bool:
    """Return whether a segment has word times, and all its translations are aligned."""
    return bool(segment.words and segment.targets) and all(
        target.words and len(target.alignment) == len(target.words)
        for target in segment.targets.values()
    )
