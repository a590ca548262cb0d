"""Spoken talks with references, and what the zoo writes for them."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from zoo.base.audio import files as audio
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import Instance
from zoo.evaluation.segments import segments_of, write_segment_files
from zoo.evaluation.talks import reference_segments
from zoo.extras.interop.live import loaded_system
from zoo.metrics.longform import score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.rules import find_rules
from zoo.runs.rows.files import write_files
from zoo.streaming.simulate import simulate
from zoo.streaming.sources import sources
from zoo.synthesizers.espeak import Espeak

SYSTEM = "streamatt"
OVERRIDES = ("policy.frames=2", "backbone.search.beams=1")
CHUNK_MS = 640
GERMAN = language("de")
TALKS = {
    "monday": {
        "Julia has seen the house.": "Julia hat das Haus gesehen.",
        "Does the woman know the bank?": "Kennt die Frau die Bank?",
    },
    "tuesday": {
        "When the man is tired, he reads a book.": "Wenn der Mann müde ist, liest er ein Buch.",
        "We have bought a flower.": "Wir haben eine Blume gekauft.",
    },
}


@dataclass(frozen=True)
class Spoken:
    """Audio files of talks.

    Attributes:
        talks: The talks with their reference segments.
        samples: (n,) of each talk, as its file has them.
        sources: Text file with the path of each talk.
        references: Text file with the reference of each talk.
    """

    talks: list[Talk]
    samples: list[Tensor]
    sources: Path
    references: Path

    def translated(self, *overrides: str) -> list[Instance]:
        """The streams of ``SYSTEM`` by the simulation of the zoo."""
        system = loaded_system(SYSTEM, [*OVERRIDES, *overrides], device="cpu")
        size = system.chunk_samples
        assert size == CHUNK_MS * 16
        return list(simulate(system, sources(self.talks, GERMAN, chunk_samples=size)))

    def row(self, folder: Path, instances: list[Instance]) -> list[list[ReferenceSegment]]:
        """Write the files of a row of an evaluation; return its references."""
        references = [reference_segments(talk, GERMAN) for talk in self.talks]
        scored = score_talks(instances, references, language=GERMAN)
        write_files(folder / "instances.log", instances, self.talks, [])
        rules = find_rules("zoo")
        segments = segments_of(self.talks, scored.segments, language=GERMAN, rules=rules)
        write_segment_files(folder, self.talks, segments)
        return references


@pytest.fixture(scope="session")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Spoken:
    folder = tmp_path_factory.mktemp("spoken")
    pause = torch.zeros(8000)
    voice = Espeak()
    talks: list[Talk] = []
    for name, sentences in TALKS.items():
        pieces = voice.synthesize_texts(list(sentences), language("en"))
        audio.write(folder / f"{name}.wav", torch.cat([torch.cat([p, pause]) for p in pieces]))
        segments, offset = [], 0.0
        for piece, (source, target) in zip(pieces, sentences.items(), strict=True):
            seconds = piece.numel() / 16_000
            segments.append(Segment(offset, seconds, source, targets={"de": Target(target)}))
            offset += seconds + 0.5
        path = folder / f"{name}.wav"
        talks.append(
            Talk(name, audio=path, duration=offset, source_language="en", segments=tuple(segments))
        )

    wavs, texts = folder / "sources.txt", folder / "references.txt"
    wavs.write_text("".join(f"{talk.audio}\n" for talk in talks))
    texts.write_text("".join(f"{' '.join(texts.values())}\n" for texts in TALKS.values()))
    return Spoken(talks, [audio.load(talk.file) for talk in talks], wavs, texts)


@pytest.fixture(scope="session")
def translated(spoken: Spoken) -> list[Instance]:
    """The streams of ``SYSTEM`` by the simulation of the zoo."""
    return spoken.translated()
