"""Files of a translation: text, subtitles, log, target speech and the report page."""

from collections.abc import Mapping
from pathlib import Path

from zoo.base.disk.files import write_text
from zoo.base.disk.run_folder import RESULTS
from zoo.base.errors import shorten_list
from zoo.base.talks import Talk
from zoo.base.types import Instance
from zoo.evaluation.scorer import Scorer
from zoo.evaluation.settings import Settings
from zoo.formats.simuleval import write_log
from zoo.formats.speech import without_samples
from zoo.formats.subtitles import srt, vtt
from zoo.report.page import write_report
from zoo.runs.rows.files import report_streams, write_files
from zoo.runs.rows.row import KnobValue, Row, write_rows
from zoo.runs.rows.settings import RowSettings
from zoo.systems.base import StreamingSystem

LOG = "log/instances.log"  # with the speech and what SimulEval reads in its folder
PAGE = "report.html"


class TranslationFolder:
    """The folder of a translation.

    Args:
        folder: existing folder.

    Attributes:
        instances: streams that are written.
        talks: talk of each stream.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.instances: list[Instance] = []
        self.talks: list[Talk] = []

    def add(self, instance: Instance, talk: Talk) -> None:
        """Write the text, the subtitles and the log of a stream that has ended."""
        self.instances.append(instance)
        self.talks.append(talk)
        texts = {"txt": f"{instance.text}\n", "srt": srt(instance), "vtt": vtt(instance)}
        for suffix, text in texts.items():
            write_text(self.folder / f"{talk.name}.{suffix}", text)
        (self.folder / LOG).parent.mkdir(exist_ok=True)
        write_log(self.folder / LOG, self.instances)

    def finish(self, system: StreamingSystem, context: Mapping[str, str]) -> Path:
        """Write the target speech and the report page.

        Args:
            system: system that has translated.
            context: provenance of the run by name.

        Returns:
            The path of the page.
        """
        write_files(self.folder / LOG, self.instances, self.talks, ())
        settings = Settings()
        with_speech = system.synthesizer is not None
        scored = Scorer(settings).streamed(
            self.instances, self.talks, system.target_language, with_speech=with_speech
        )
        knob, value = system.knob, system.knob_value
        row = Row(
            system.name,
            None if knob is None or value is None else KnobValue(knob.name, value),
            data="your audio",
            split="",
            source_language=system.source_language.code,
            target_language=system.target_language.code,
            scores={name: score.value for name, score in scored.scores.items()},
            signatures={name: score.signature for name, score in scored.scores.items()},
            instances=LOG,
            flags=scored.flags,
            settings=RowSettings(
                convention=settings.convention, talks=len(self.talks), references=False
            ),
        )
        write_rows([row], self.folder / RESULTS)
        silent = [without_samples(instance) for instance in self.instances]
        assert scored.segments is not None
        streams = list(report_streams(0, silent, self.talks, scored.segments))
        names = shorten_list(talk.name for talk in self.talks)
        page = self.folder / PAGE
        write_report(page, rows=[row], streams=streams, title=f"SimulZoo: {names}", context=context)
        return page
