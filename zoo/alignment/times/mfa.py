"""Word times by the Montreal Forced Aligner (McAuliffe et al., 2017), InfiniSST's aligner."""

import hashlib
import json
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from zoo.alignment.times.base import TimedWords
from zoo.alignment.times.textgrid import TextGridTimes
from zoo.base.audio import files as audio
from zoo.base.disk.files import atomic_folder, write_bytes, write_text
from zoo.base.disk.tar_members import last_change, size_of
from zoo.base.errors import ZooError, check_numbers
from zoo.base.talks import Segment, Talk

PROGRAM = "mfa"
PATTERN = "{talk}/{segment:05d}.TextGrid"
OPTIONS = ("--clean", "--final_clean", "--output_format", "long_textgrid")  # as in InfiniSST's code


class MFATimes(TextGridTimes):
    """The TextGrids that ``mfa align`` makes of all segments of a split.

    A WAV file and a text per segment are written to a folder of their own, with a folder for each
    talk, which is a speaker for MFA. Where ``mfa`` is on the path it is run once; otherwise an
    error names the command, and the next call reads what it has written. The folder is named after
    its content, so that other segments or settings have another one.

    Args:
        language: code of the language of the transcripts.
        acoustic_model: name or file of MFA's acoustic model; None: ``<language>_mfa``, such as
            ``english_mfa``.
        dictionary: name or file of MFA's dictionary; None: ``<language>_mfa``.
        jobs: number of MFA's processes.
        options: further options of ``mfa align``, such as ``--single_speaker``.
    """

    def __init__(
        self,
        *,
        language: str,
        acoustic_model: str | None = None,
        dictionary: str | None = None,
        jobs: int = 3,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(folder=None, language=language, pattern=PATTERN)
        check_numbers("word_times", least=1, jobs=jobs)
        published = f"{self.language.name.lower()}_mfa"
        self.acoustic_model = acoustic_model or published
        self.dictionary = dictionary or published
        self.jobs = jobs
        self.options = tuple(map(str, options))

    def check(self) -> None:
        """See ``WordTimer``; without MFA the segments are written for a run elsewhere."""

    def align_corpus(self, talks: Sequence[tuple[Talk, Sequence[Segment]]], folder: Path) -> None:
        """See ``CorpusTimer``."""
        talks = [(_with_file_name(talk), segments) for talk, segments in talks if segments]
        if not talks:
            return
        folder = folder.absolute() / self._key(talks)
        grids = folder / "textgrids"
        self.folder = str(grids)
        if any(grids.rglob("*.TextGrid")):
            return
        for talk, segments in talks:
            _write(talk, segments, folder / "corpus")
        command = [
            *(PROGRAM, "align", *OPTIONS, "--num_jobs", str(self.jobs), *self.options),
            *(str(folder / "corpus"), self.dictionary, self.acoustic_model),
        ]
        if shutil.which(PROGRAM) is None:
            raise ZooError(
                f"There is no command mfa here; run `{shlex.join([*command, str(grids)])}` where "
                "it is installed, then start this command again."
            )
        with atomic_folder(grids) as new:
            code = subprocess.run([*command, str(new)], check=False).returncode
            if code or not any(new.rglob("*.TextGrid")):
                raise ZooError(
                    f"mfa has written no TextGrids (exit code {code}; its messages are above): "
                    f"{shlex.join([*command, str(grids)])}"
                )

    def times(self, talk: Talk, segments: Sequence[Segment]) -> list[TimedWords]:
        """See ``WordTimer``; call ``align_corpus`` first."""
        return super().times(_with_file_name(talk), segments)

    def _key(self, talks: Sequence[tuple[Talk, Sequence[Segment]]]) -> str:
        """Return a hash of all that the TextGrids depend on."""
        content: list[object] = [self.acoustic_model, self.dictionary, self.options]
        for talk, segments in talks:
            content.append([talk.name, talk.offset, size_of(talk.file), last_change(talk.file)])
            content += [[one.offset, one.duration, one.source] for one in segments]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _with_file_name(talk: Talk) -> Talk:
    """Return a talk whose name is that of a folder."""
    name = talk.name.replace("%", "%25").replace("/", "%2F")
    return replace(talk, name=f"%{name}" if name.startswith(".") else name)


def _write(talk: Talk, segments: Sequence[Segment], folder: Path) -> None:
    """Write audio and transcript of each segment that is not written yet.

    Args:
        talk: talk of the segments.
        segments: some of its segments.
        folder: folder of the corpus.
    """
    numbers = {(one.offset, one.duration): number for number, one in enumerate(talk.segments)}
    for segment in segments:
        name = PATTERN.format(talk=talk.name, segment=numbers[segment.offset, segment.duration])
        path = (folder / name).with_suffix(".lab")
        if path.is_file():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = audio.load(
            talk.file, start=talk.offset + segment.offset, duration=segment.duration
        )
        write_bytes(path.with_suffix(".wav"), audio.wav(samples))
        write_text(path, segment.source)  # last, so that its audio is complete
