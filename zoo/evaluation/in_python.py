"""Evaluation of a loaded system from Python: ``zoo.evaluate``."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.corpora import Corpus
from zoo.data.readers.folder import Folder
from zoo.data.transcripts import with_transcripts
from zoo.data.views import talks_to_stream
from zoo.evaluation.runner import Evaluator
from zoo.evaluation.settings import Settings, knob_values
from zoo.evaluation.stream import ListedTalks
from zoo.evaluation.talks import TalkSets, check_talks
from zoo.runs.rows.tables import Results, read_results
from zoo.systems.base import StreamingSystem
from zoo.systems.lightning.datamodule import corpus_named

OUTPUTS = Path("outputs") / "python"


def evaluate(
    system: StreamingSystem,
    talks: str | Path | Corpus | Sequence[Talk] = "minitalks",
    *,
    knob_values: Sequence[float] | None = None,
    split: str = "tst",
    limit: int | None = None,
    offline: bool = False,
    folder: str | Path | None = None,
    trainer_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Results:
    """Evaluate a system on talks, with the scores of ``evaluate.py``.

    Target speech has its latency, and no scores of a recogniser.

    Args:
        system: A system of ``zoo.load``. Its weights are read if they are not.
        talks: The name of a file in ``conf/data``, a folder of audio files with texts beside them
            (docs/corpora.md) in the languages of the system, a corpus, or talks.
        knob_values: Values of the latency setting, one row each. None: the present setting.
        split: Split of the corpus.
        limit: Number of talks from the start of the split. None: all talks.
        offline: Whether to add a row that decodes each reference segment as a whole.
        folder: New folder of the run, which ``python -m zoo report`` and ``zoo.read_results``
            read. None: a folder below ``outputs/python``.
        trainer_options: Arguments of Lightning's Trainer, such as ``accelerator``. None: the CPU.
        **settings: Other settings of ``evaluation`` in the configuration, such as
            ``significance=["bootstrap"]``.

    Returns:
        The results: tables of rows and segments.

    Raises:
        ZooError: A value, talk or file does not fit, or the folder is not empty.

    Example:
        >>> system = zoo.load("infinisst_minitalks_en-de")
        >>> zoo.evaluate(system, limit=2, knob_values=[1, 2]).rows[["knob", "value", "BLEU"]]
    """
    corpus = _corpus(talks, system)
    before = system.knob_value
    values = [before] if knob_values is None and before is not None else knob_values
    try:
        configured = Settings(
            split=split,
            talks=limit,
            knob_values=values,
            upper_bound=offline,
            **{"oracle_k": (), **settings},
        )
    except TypeError as error:
        raise ZooError(f"zoo.evaluate: {error}.") from error
    read = TalkSets.of(corpus, configured)
    targets = [system.target_language.code]
    sets = TalkSets(
        with_transcripts(read.test, targets), with_transcripts(read.development, targets)
    )
    for found in sets.sets:
        _check(system, found, configured)
    place = _new_folder(folder)
    evaluator = Evaluator(
        corpus=corpus.name,
        talks=sets.test,
        development=sets.development,
        settings=configured,
        folder=place,
        trainer_options=trainer_options,
    )
    try:
        system.load()
        for _ in evaluator.run(system, weights=system.weights):
            pass  # each row is written to the folder
    finally:
        if before is not None:
            system.turn_knob(before)
    evaluator.scored.add_significance()
    return read_results(place)


def _corpus(talks: str | Path | Corpus | Sequence[Talk], system: StreamingSystem) -> Corpus:
    """Return the corpus that a name, a folder or talks stand for."""
    if isinstance(talks, str | Path):
        if Path(talks).is_dir():
            source, target = system.source_language.code, system.target_language.code
            return Folder(root=str(talks), source_language=source, target_language=target)
        if isinstance(talks, Path):
            raise ZooError(f"There is no folder {talks}.")
        return corpus_named(talks)
    if isinstance(talks, Sequence):
        return ListedTalks("talks", cast("Sequence[Talk]", talks))
    return talks


def _check(system: StreamingSystem, talks: Sequence[Talk], settings: Settings) -> None:
    """Check the talks and the latency settings. Raises ZooError for what does not fit."""
    for value in knob_values(system, settings):
        if value is not None:
            system.check_knob(value)
    check_talks(talks, source=system.source_language, target=system.target_language)
    if problem := system.talk_problem(talks_to_stream(talks, settings.view)):
        raise ZooError(problem)


def _new_folder(folder: str | Path | None) -> Path:
    """Return the folder of the run. Raises ZooError if it is not empty."""
    place = OUTPUTS / f"{datetime.now():%Y-%m-%d_%H-%M-%S-%f}" if folder is None else Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ZooError(f"{place} is not empty; choose another folder.")
    return place
