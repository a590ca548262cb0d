"""Training examples of StreamUni's released code: one JSON list with an object per example."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zoo.base.errors import ZooError
from zoo.base.languages import LANGUAGES, language
from zoo.base.talks import Talk
from zoo.data.readers.building import OVERHANG, build_talks
from zoo.data.readers.entries import Recording, SegmentEntry, required
from zoo.formats.checks import number_field, text_field
from zoo.formats.text import read_list, recording_name

logger = logging.getLogger(__name__)

INSTRUCTION = (
    "Transcribe the audio to text, and then translate the audio to {target}. "
    "Use <sep> as a separator between the original transcript and the translation."
)


@dataclass(kw_only=True, eq=False)
class StreamUni:
    """Audio files with transcripts and translations; each example is a talk of one segment.

    An example is trained on as it is. No field of the file distinguishes sentences from beginnings
    of sentences, whose audio and transcript the authors have cut.

    Args:
        root: JSON list of objects with ``audio``, ``asr``, ``translation``, ``instruction`` and
            ``duration`` (seconds), or a folder with ``<split>.json``; ``talks`` raises ZooError for
            None.
        source_language: code of the source language.
        target_language: code of the target language. Examples whose instruction names another
            language are left out.
        instruction: instruction of the examples, with {target} for the name of the target language;
            None: the published one. An example with another instruction is an error, because
            trainings prompt with the instruction of the backbone.
        name: name of the corpus.
    """

    root: str | None
    source_language: str
    target_language: str
    instruction: str | None = None
    name: str = "streamuni"

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the examples in the order of the file; see ``zoo.data.corpora.Corpus``.

        Relative paths of audio files start at the folder of the file, or at the current folder as
        in the released code.
        """
        what = "a JSON file of training examples, or the folder of <split>.json"
        root = required(self.root, corpus="streamuni", key="root", what=what)
        path = root / f"{split}.json" if root.is_dir() else root
        examples = list(self._examples(path))
        if not examples:
            name = language(self.target_language).name
            raise ZooError(f"{path} has no example whose instruction names {name}.")
        talks = build_talks(
            [recording for recording, _ in examples],
            source=self.source_language,
            target=self.target_language,
            limit=limit,
        )
        for talk, (recording, duration) in zip(talks, examples, strict=False):
            if abs(talk.duration - duration) > OVERHANG:
                raise ZooError(
                    f"{recording.where} has a duration of {duration:.2f} s, but {talk.audio} lasts "
                    f"{talk.duration:.2f} s."
                )
        return talks

    def _examples(self, path: Path) -> Iterator[tuple[Recording, float]]:
        """Yield the examples of the target language, and their durations in seconds."""
        template = self.instruction or INSTRUCTION
        codes = {template.replace("{target}", one.name): one.code for one in LANGUAGES.values()}
        expected = template.replace("{target}", language(self.target_language).name)
        others = 0
        for record in read_list(path):
            where = f"{path}, item {record.line}"
            file, source, target, instruction = (
                text_field(record, key, where)
                for key in ("audio", "asr", "translation", "instruction")
            )
            duration = number_field(record, "duration", where)
            if instruction not in codes:
                raise ZooError(
                    f"{where} has the instruction {instruction!r:.300} instead of {expected!r}; "
                    "data.instruction accepts another one, which the backbone's template must have."
                )
            if instruction != expected:
                others += 1
                continue
            beside, here = path.parent / file, Path(file)
            audio = here if here.is_file() and not beside.is_file() else beside
            entry = SegmentEntry(where, source=source, target=target)
            yield Recording(where, audio, recording_name(file), [entry]), duration
        if others:
            logger.warning("%s: %d examples of other target languages are left out", path, others)
