"""Reference segments of talks, and the checks of talks before an evaluation."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.talks import Talk, of_one_name
from zoo.data.corpora import Corpus
from zoo.evaluation.settings import Settings
from zoo.metrics.references import ReferenceSegment, first_blank


@dataclass(frozen=True, slots=True)
class TalkSets:
    """The talks of an evaluation.

    Attributes:
        test: talks of the split to evaluate.
        development: talks of another split, which set the latency regime of a row; may be empty.
    """

    test: Sequence[Talk]
    development: Sequence[Talk] = ()

    @classmethod
    def of(cls, corpus: Corpus, settings: Settings) -> "TalkSets":
        """Read the talks that the settings of an evaluation name.

        Raises:
            ZooError: the corpus does not have a split, or both splits have talks of one name.
        """
        split, other = settings.split, settings.development
        test = corpus.talks(split, limit=settings.talks)
        if other is None or other == split:
            return cls(test)
        development = corpus.talks(other, limit=settings.talks)
        names = {talk.name for talk in test}
        if both := next((talk.name for talk in development if talk.name in names), None):
            raise ZooError(
                f"evaluation.split={split} and evaluation.development={other} both have the talk "
                f"{both!r}; the regime is set on other talks: choose two splits, write {{split}} "
                "in the paths of data=iwslt, or evaluate the development talks alone with "
                f"evaluation.split={other}."
            )
        return cls(test, development)

    @property
    def sets(self) -> list[Sequence[Talk]]:
        """The sets that have talks; the test set even if it has none."""
        return [self.test, *([self.development] if self.development else [])]

    @property
    def all(self) -> list[Talk]:
        """All talks, those of the test set first."""
        return [*self.test, *self.development]


def reference_segments(talk: Talk, target: Language) -> list[ReferenceSegment]:
    """Return the reference segments of a talk. Raises ZooError for a missing translation."""
    return [
        ReferenceSegment.of(segment, target=target.code, talk=talk.name)
        for segment in talk.segments
    ]


def has_references(talks: Sequence[Talk]) -> bool:
    """Return whether a segment of the talks has a translation, into any language."""
    return any(segment.targets for talk in talks for segment in talk.segments)


def of_directions(
    talks: Sequence[Talk], directions: Collection[tuple[Language, Language]]
) -> list[Talk]:
    """Return the talks without those of a mixture that have other directions.

    Args:
        talks: talks of a corpus.
        directions: source and target languages of the systems to evaluate.
    """
    codes = {(source.code, target.code) for source, target in directions}
    return [
        talk
        for talk in talks
        if talk.share is None or (talk.source_language, talk.share.target_language) in codes
    ]


def check_talks(
    talks: Sequence[Talk], *, source: Language, target: Language, streamed: bool = True
) -> None:
    """Check all talks before long work.

    Talks may have segments without any translation. Then no talk may have one, and scores that need
    references are left out.

    Args:
        talks: talks to evaluate, at least one.
        source: source language of the system.
        target: target language of the system.
        streamed: whether the audio is streamed. The audio of each talk is then read once, so that
            a damaged file is found here.

    Raises:
        ZooError: there is no talk, two talks have one name, or a talk is in another source
            language, has no segments, lacks references that other talks have, or has audio that
            cannot be read.
    """
    if not talks:
        raise ZooError("There is no talk to evaluate.")
    _check_names(talks)
    with_references = has_references(talks) or not all(talk.segments for talk in talks)
    for talk in talks:
        if talk.source_language != source.code:
            raise ZooError(
                f"Talk {talk.name!r} is spoken in {talk.source_language!r}, not in {source.code!r}."
            )
        if with_references:
            _check_references(talk, target)
        if streamed:
            # a slow import, which a recorded log does not need
            from zoo.base.audio import files as audio

            # raises ZooError for audio that cannot be read
            samples = audio.load(talk.file, start=talk.offset, duration=talk.duration)
            audio.warn_of_silence(samples, talk.file)
    if with_references:
        blank = first_blank([reference_segments(talk, target) for talk in talks])
        if blank is not None:
            raise ZooError(
                f"Talk {talks[blank].name!r} has no reference in {target.code!r}: all its segments "
                "are empty."
            )


def _check_names(talks: Sequence[Talk]) -> None:
    """Raise ZooError if two talks have one name, under which logs and reports list them."""
    if found := of_one_name(talks):
        other, talk = found
        files = "" if talk.audio is None else f", in {other.audio} and {talk.audio}"
        raise ZooError(f"Two talks have the name {talk.name!r}{files}; rename one of them.")


def _check_references(talk: Talk, target: Language) -> None:
    """Raise ZooError if a talk has no reference in a language."""
    if target.code not in _reference_languages(talk):
        blank = sum(not segment.source.strip() for segment in talk.segments)
        if target.code == talk.source_language and blank:
            raise ZooError(
                f"Talk {talk.name!r} has no transcript of {blank} of its {len(talk.segments)} "
                f"segments, which are the references of systems that transcribe ({target.code!r})."
            )
        languages = ", ".join(_reference_languages(talk)) or "no reference"
        raise ZooError(
            f"Talk {talk.name!r} has no reference in {target.code!r}; it has: {languages}."
        )


def _reference_languages(talk: Talk) -> list[str]:
    """Return the codes of the languages into which all segments of a talk are translated."""
    if not talk.segments:
        return []
    codes = set(talk.segments[0].targets)
    for segment in talk.segments:
        codes &= set(segment.targets)
    return sorted(codes)
