"""Mixtures of corpora and directions for one training of one model (StreamUni, section 4.1)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from zoo.data.corpora import Corpus
from zoo.data.sampling import Example, Pass, Sampler, TalkEncoder
from zoo.data.talks import LazyTalks, Share, Talk
from zoo.errors import ZooError, check_numbers
from zoo.languages import Language, language

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
        found = [
            (language(entry.source_language), language(entry.target_language))
            for entry in self.entries.values()
        ]
        return list(dict.fromkeys(found))

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the talks of all entries; ``limit`` holds for each entry. See ``Corpus``.

        Raises:
            ZooError: there is no entry, a corpus raises it, or a corpus has a talk in another
                source language than its entry.
        """
        if not self.entries:
            raise ZooError(
                "data=mixture needs data.entries, a corpus with its direction and hours for each "
                "name, as in conf/experiment/streamuni_paper_minitalks.yaml."
            )
        found: list[Talk] = []
        for name, entry in self.entries.items():
            share = Share(name, entry.target_language, entry.hours)
            for talk in entry.corpus.talks(split, limit=limit):
                if talk.source_language != entry.source_language:
                    raise ZooError(
                        f"Talk {talk.name!r} of data.entries.{name} is spoken in "
                        f"{talk.source_language!r}, not in {entry.source_language!r}."
                    )
                found.append(replace(talk, name=f"{name}-{talk.name}", share=share))
        return found


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
        for sampler, own in zip(samplers, hours, strict=True):
            for kind, share in enumerate(sampler.kinds):
                self._kinds.append(share * own / sum(hours))
                self._samplers.append((sampler, kind))

    @property
    def kinds(self) -> Sequence[float]:
        """Share of the audio of each kind of each share; see ``Sampler``."""
        return self._kinds

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        """List the examples of one pass over a kind of a share; see ``Sampler``."""
        sampler, own = self._samplers[kind]
        return sampler.plan(own, random)

    def examples(
        self, kind: int, places: np.ndarray, random: np.random.Generator
    ) -> Sequence[Example]:
        """Make the examples of one batch; see ``Sampler``."""
        sampler, own = self._samplers[kind]
        return sampler.examples(own, places, random)

    def encode(
        self, encoder: TalkEncoder, *, multipliers: Collection[int], device: torch.device
    ) -> None:
        """Encode the talks of all shares; see ``Sampler``."""
        for sampler in dict.fromkeys(sampler for sampler, _ in self._samplers):
            sampler.encode(encoder, multipliers=multipliers, device=device)


def by_share(talks: Sequence[Talk]) -> Sequence[tuple[Share | None, Sequence[Talk]]]:
    """Group talks by their shares of a mixture; talks outside of mixtures are one group.

    Without talks there is one empty group.
    """
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
