"""Mixtures of corpora and directions for one training of one model (StreamUni, section 4.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import Language, language
from zoo.base.talks import LazyTalks, Share, Talk
from zoo.data.corpora import Corpus, StoredCorpus, training_talks
from zoo.data.lazy_mixture import MixedTalks, SharedTalks
from zoo.data.sampling import EncodeTalks, Example, Pass, Sampler

Direction = tuple[Language, Language]  # source and target language


@dataclass(frozen=True, kw_only=True)
class MixtureEntry:
    """One corpus of a mixture, in one direction.

    Attributes:
        corpus: corpus of the talks.
        source_language: code of the source language.
        target_language: code of the target language.
        hours: hours of audio in a pass, by kind of example; other kinds are not drawn. If the talks
            have too few, all kinds of the entry have proportionally less in a pass and are repeated
            more often: shares of the audio are as the hours of all entries.
    """

    corpus: Corpus
    source_language: str
    target_language: str
    hours: Mapping[str, float]


@dataclass(kw_only=True, eq=False)
class Mixture:
    """Talks of several corpora, each in the direction of its entry, for one training.

    A corpus may have several entries. An evaluation has one direction and streams its talks only.

    Args:
        entries: corpora by the names of their entries.
        name: name of the corpus.

    Raises:
        ZooError: an entry has no hours, or hours not above 0, or a language is unknown.
    """

    entries: Mapping[str, MixtureEntry]
    name: str = "mixture"

    def __post_init__(self) -> None:
        for name, entry in self.entries.items():
            language(entry.source_language)
            language(entry.target_language)
            if not entry.hours:
                raise ZooError(
                    f"data.entries.{name} needs hours, such as hours={{non_streaming: 100}}."
                )
            hours = {f"hours.{kind}": number for kind, number in entry.hours.items()}
            check_numbers(f"data.entries.{name}", above=0, **hours)

    @property
    def directions(self) -> list[Direction]:
        """Source and target languages, each direction once, in the order of the entries."""
        directions = [
            (language(entry.source_language), language(entry.target_language))
            for entry in self.entries.values()
        ]
        return list(dict.fromkeys(directions))

    @property
    def lazy(self) -> bool:
        """Whether the corpus of an entry is lazy; see ``StoredCorpus``."""
        corpora = [entry.corpus for entry in self.entries.values()]
        return any(isinstance(corpus, StoredCorpus) and corpus.lazy for corpus in corpora)

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the talks of all entries; ``limit`` holds for each entry. See ``Corpus``.

        Raises:
            ZooError: there is no entry, a corpus raises it, or a corpus has a talk in another
                source language than its entry.
        """
        talks: list[Talk] = []
        for share, entry in self._shares():
            talks += _shared(entry.corpus.talks(split, limit=limit), share, entry)
        return talks

    def stored_talks(self, split: str) -> LazyTalks:
        """Return the talks of all entries, those of lazy corpora without decoding them.

        Raises:
            ZooError: as ``talks``; or a segment of a lazy corpus lacks a translation.
        """
        shares: list[tuple[Share, Sequence[Talk]]] = []
        for share, entry in self._shares():
            talks = training_talks(entry.corpus, split)
            if isinstance(talks, LazyTalks):
                talks.check(source=entry.source_language, target=entry.target_language)
                shares.append((share, SharedTalks(talks, share)))
            else:
                shares.append((share, _shared(talks, share, entry)))
        return MixedTalks(shares)

    def _shares(self) -> list[tuple[Share, MixtureEntry]]:
        """Return all entries with their shares. Raises ZooError if there is none."""
        if not self.entries:
            raise ZooError(
                "data=mixture needs data.entries, a corpus with its direction and hours for each "
                "name, as in conf/experiment/streamuni_paper_minitalks.yaml."
            )
        return [
            (Share(name, entry.target_language, entry.hours), entry)
            for name, entry in self.entries.items()
        ]


def _shared(talks: Sequence[Talk], share: Share, entry: MixtureEntry) -> list[Talk]:
    """Return the talks of an entry as those of its share.

    Raises:
        ZooError: a talk is in another source language than the entry.
    """
    for talk in talks:
        if talk.source_language != entry.source_language:
            raise ZooError(
                f"Talk {talk.name!r} of data.entries.{share.name} is spoken in "
                f"{talk.source_language!r}, not in {entry.source_language!r}."
            )
    return [share.talk(talk) for talk in talks]


class MixedSampler(Sampler):
    """Sampler of a mixture: the kinds of the samplers of all its shares, one after the other.

    All examples of a batch are of one kind, so they have one direction.

    Args:
        samplers: sampler of each share.
        hours: hours of audio of each share, which determine its share of the audio.
    """

    def __init__(self, samplers: Sequence[Sampler], hours: Sequence[float]) -> None:
        self._kinds: list[float] = []
        self._samplers: list[tuple[Sampler, int]] = []  # by kind: sampler, and its own kind
        for sampler, corpus_hours in zip(samplers, hours, strict=True):
            for kind, share in enumerate(sampler.kinds):
                self._kinds.append(share * corpus_hours / sum(hours))
                self._samplers.append((sampler, kind))

    @property
    def kinds(self) -> Sequence[float]:
        """Share of the audio of each kind of each share; see ``Sampler``."""
        return self._kinds

    @property
    def parts(self) -> Sequence[Sampler]:
        """Samplers of all shares; see ``Sampler``."""
        return list(dict.fromkeys(sampler for sampler, _ in self._samplers))

    def windows(self, kind: int) -> int:
        """Return the number of windows of a pass over a kind of a share; see ``Sampler``."""
        sampler, corpus_kind = self._samplers[kind]
        return sampler.windows(corpus_kind)

    def window(self, number: int) -> Sampler:
        """Return the sampler of one window of each share; see ``Sampler``.

        Passes over large and small shares have different numbers of windows, so window 3 may be in
        the first pass over one share and in the third over another.
        """
        return _MixedWindow(self, number)

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        """List the examples of one pass over a kind of a share; see ``Sampler``."""
        sampler, corpus_kind = self._of(kind)
        return sampler.plan(corpus_kind, random)

    def examples(
        self, kind: int, positions: np.ndarray, random: np.random.Generator
    ) -> Sequence[Example]:
        """Make the examples of one batch; see ``Sampler``."""
        sampler, corpus_kind = self._of(kind)
        return sampler.examples(corpus_kind, positions, random)

    def _of(self, kind: int) -> tuple[Sampler, int]:
        """Return the sampler of the share of a kind, and its own kind."""
        return self._samplers[kind]

    def encode(self, encode_talks: EncodeTalks) -> None:
        """Encode the talks of all shares; see ``Sampler``."""
        for sampler in self.parts:
            sampler.encode(encode_talks)


class _MixedWindow(MixedSampler):
    """One window of each share of a mixture, whose samplers are made when they are needed.

    Args:
        whole: sampler of the mixture.
        number: number of the window, over all passes.
    """

    def __init__(self, whole: MixedSampler, number: int) -> None:
        self._samplers = whole._samplers
        self._kinds = whole._kinds
        self._number = number
        self._made: dict[Sampler, Sampler] = {}

    def _of(self, kind: int) -> tuple[Sampler, int]:
        """Return the sampler of the window of a kind's share, and its own kind."""
        sampler, corpus_kind = self._samplers[kind]
        if sampler not in self._made:
            self._made[sampler] = sampler.window(self._number)
        return self._made[sampler], corpus_kind


def by_share(talks: Sequence[Talk]) -> Sequence[tuple[Share | None, Sequence[Talk]]]:
    """Group talks by their shares of a mixture; talks outside of mixtures are one group.

    Without talks there is one empty group.
    """
    if isinstance(talks, MixedTalks):
        return talks.shares
    if isinstance(talks, LazyTalks):
        return [(None, talks)]
    groups: dict[str | None, list[Talk]] = {}
    for talk in talks:
        groups.setdefault(talk.share.name if talk.share else None, []).append(talk)
    return [(group[0].share, group) for group in groups.values()] or [(None, [])]


def by_direction(talks: Sequence[Talk], default: Direction) -> dict[Direction, list[Talk]]:
    """Group talks by direction, in the order of the talks.

    Args:
        talks: talks.
        default: direction of the system, which talks outside of mixtures have.
    """
    groups: dict[Direction, list[Talk]] = {}
    for talk in talks:
        direction = default
        if talk.share is not None:
            direction = language(talk.source_language), language(talk.share.target_language)
        groups.setdefault(direction, []).append(talk)
    return groups
