"""Filters: segments that trainings should not use, with the reason of each.

A filtered segment stays in its talk, so that its audio is not taken for a pause.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from zoo.apps.prepare.items import Item, Notes
from zoo.apps.prepare.steps.base import PlainStep
from zoo.apps.prepare.steps.estimation import ESTIMATE
from zoo.apps.prepare.steps.recognition import WER
from zoo.apps.prepare.steps.trajectories import UNALIGNED
from zoo.apps.prepare.steps.words import SCORE
from zoo.apps.prepare.texts import find_speaker, find_tag, is_only_sounds
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import language
from zoo.base.talks import Segment
from zoo.base.types import Seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Limits of what trainings use; None: no limit.

    Attributes:
        sounds: whether segments that consist of descriptions of sounds, such as "(Laughter)", are
            filtered.
        tags: whether segments with such a description among the words are filtered.
        speakers: whether segments are filtered whose transcript begins with the name of a speaker,
            such as "CA: ".
        strip_speakers: whether such names are removed from transcripts and translations, before all
            steps.
        min_seconds: minimum duration.
        max_seconds: maximum duration.
        min_rate: minimum number of characters of the transcript per second, white space included.
        max_rate: maximum number of them.
        max_ratio: maximum ratio of the numbers of characters of transcript and translation, of the
            longer to the shorter. Each character of a language without spaces counts as three.
        ratio_slack: characters that are added to both numbers, so that the ratio of short texts
            matters less.
        max_unaligned: maximum share of the units of a translation that have no source word.
        min_score: minimum score of the aligner of word times, a mean log-probability per frame.
        max_wer: maximum WER of a recogniser in percent, if the step ``recognition`` has run.
        min_estimate: minimum estimated quality of a translation, if the step ``estimation`` has run
            (InfiniSST: 0.5, appendix A.1).

    Raises:
        ZooError: a limit is impossible.
    """

    sounds: bool = True
    tags: bool = True
    speakers: bool = True
    strip_speakers: bool = False
    min_seconds: Seconds | None = 0.3
    max_seconds: Seconds | None = 60.0
    min_rate: float | None = 1.0
    max_rate: float | None = 35.0
    max_ratio: float | None = 3.0
    ratio_slack: int = 15
    max_unaligned: float | None = 0.6
    min_score: float | None = None
    max_wer: float | None = None
    min_estimate: float | None = 0.5

    def __post_init__(self) -> None:
        check_numbers(
            "filters",
            least=0,
            min_seconds=self.min_seconds,
            max_seconds=self.max_seconds,
            min_rate=self.min_rate,
            max_rate=self.max_rate,
            ratio_slack=self.ratio_slack,
            max_wer=self.max_wer,
        )
        check_numbers("filters", least=1, max_ratio=self.max_ratio)
        check_numbers("filters", least=0, most=1, max_unaligned=self.max_unaligned)
        for name in ("seconds", "rate"):
            least, most = getattr(self, f"min_{name}"), getattr(self, f"max_{name}")
            if least is not None and most is not None and least > most:
                raise ZooError(f"filters.min_{name} is {least:g}, above filters.max_{name}.")


class FiltersStep(PlainStep):
    """Marks segments with the first filter that they do not pass.

    Args:
        filters: the limits.
    """

    name = "filters"

    def __init__(self, filters: Filters) -> None:
        self.filters = filters

    def __call__(self, items: Sequence[Item]) -> list[Item]:
        """See ``Step``."""
        return [self._one(item) for item in items]

    def _one(self, item: Item) -> Item:
        """Return an item with the reasons of its segments.

        What a text is takes precedence over what an aligner made of it.
        """
        changed = {}
        for index, (segment, note) in enumerate(zip(item.talk.segments, item.notes, strict=True)):
            finding = next(self._of_texts(segment), None)
            if finding is None and not note.reason:
                finding = next(self._of_numbers(segment, note, item.talk.source_language), None)
            if finding is not None and note.reason != "corpus":
                changed[index] = replace(note, reason=finding[0], detail=finding[1])
        return item.with_segments({}, changed)

    def _of_texts(self, segment: Segment) -> Iterator[tuple[str, str]]:
        """Yield reason and detail of the filters of texts."""
        texts = [segment.source, *(target.text for target in segment.targets.values())]
        if not segment.source.strip():
            yield "no transcript", ""
        if any(not text.strip() for text in texts[1:]):
            yield "no translation", ""
        if self.filters.sounds and is_only_sounds(segment.source):
            yield "only sounds", segment.source
        if self.filters.tags and (tag := next(filter(None, map(find_tag, texts)), None)):
            yield "tags", tag
        if self.filters.speakers and (name := find_speaker(segment.source)):
            yield "speaker's name", name

    def _of_numbers(self, segment: Segment, note: Notes, source: str) -> Iterator[tuple[str, str]]:
        """Yield reason and detail of the filters of numbers; ``source``: the source language."""
        limits = self.filters
        # The length of a description of a sound does not follow from the duration of the sound.
        rates = [] if is_only_sounds(segment.source) else [len(segment.source) / segment.duration]
        ratios = [
            _ratio(segment.source, target.text, (source, code), limits.ratio_slack)
            for code, target in segment.targets.items()
        ]
        unaligned = [value for name, value in note.scores.items() if name.startswith(UNALIGNED)]
        estimates = [value for name, value in note.scores.items() if name.startswith(ESTIMATE)]
        checks: Sequence[tuple[str, Sequence[float], float | None, float | None]] = (
            ("duration", [segment.duration], limits.min_seconds, limits.max_seconds),
            ("characters per second", rates, limits.min_rate, limits.max_rate),
            ("ratio of lengths", ratios, None, limits.max_ratio),
            ("unaligned words", unaligned, None, limits.max_unaligned),
            (SCORE, [note.scores[SCORE]] if SCORE in note.scores else [], limits.min_score, None),
            (WER, [note.scores[WER]] if WER in note.scores else [], None, limits.max_wer),
            ("estimated quality", estimates, limits.min_estimate, None),
        )
        for name, values, least, most in checks:
            for value in values:
                if (least is not None and value < least) or (most is not None and value > most):
                    yield name, f"{value:.2f}"


def _ratio(source: str, target: str, codes: tuple[str, str], slack: int) -> float:
    """Return the ratio of the lengths of two texts, of the longer to the shorter.

    Args:
        source: transcript.
        target: translation.
        codes: codes of their languages.
        slack: characters that are added to both.
    """
    lengths = [
        slack + len(text) * (3 if language(code).unit == "char" else 1)
        for text, code in zip((source, target), codes, strict=True)
    ]
    return max(lengths) / max(1, min(lengths))


def reasons_of(items: Sequence[Item]) -> Mapping[str, tuple[int, Seconds]]:
    """Return number and duration of the segments of each reason, the most frequent first."""
    totals: dict[str, tuple[int, Seconds]] = {}
    pairs = chain.from_iterable(zip(item.notes, item.talk.segments, strict=True) for item in items)
    for note, segment in pairs:
        if note.reason:
            count, seconds = totals.get(note.reason, (0, 0.0))
            totals[note.reason] = (count + 1, seconds + segment.duration)
    return dict(sorted(totals.items(), key=lambda pair: (-pair[1][0], pair[0])))
