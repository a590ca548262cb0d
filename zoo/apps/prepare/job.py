"""The job of ``python -m zoo prepare``: from a configuration to training data."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.apps.prepare.card import write_card
from zoo.apps.prepare.items import Item
from zoo.apps.prepare.output import write_split
from zoo.apps.prepare.pipeline import Pipeline, PipelineStage
from zoo.apps.prepare.settings import PrepareSettings, check_steps, in_order
from zoo.apps.prepare.steps.alignment import AlignmentSettings, AlignmentStep
from zoo.apps.prepare.steps.audio import AudioStep
from zoo.apps.prepare.steps.base import Step
from zoo.apps.prepare.steps.estimation import EstimationStep
from zoo.apps.prepare.steps.filters import FiltersStep
from zoo.apps.prepare.steps.prefixes import PrefixesStep
from zoo.apps.prepare.steps.recognition import RecognitionStep
from zoo.apps.prepare.steps.retranslation import RetranslationStep, count_retranslations
from zoo.apps.prepare.steps.trajectories import TrajectoriesStep
from zoo.apps.prepare.steps.words import WordsStep
from zoo.apps.prepare.store import WORK, Store, parts_of, states_of
from zoo.apps.prepare.texts import without_speakers
from zoo.base.disk.files import check_can_be_written, explained_disk
from zoo.base.errors import ZooError, shorten_list
from zoo.base.machine.cores import check_machine
from zoo.base.talks import Talk, of_one_name
from zoo.base.version import __version__
from zoo.config import (
    Config,
    build,
    check_values,
    is_multirun,
    machine,
    overrides,
    plain,
    run_folder,
)
from zoo.data.cache import lock_folder
from zoo.data.corpora import Aligned, Corpus
from zoo.runs import media
from zoo.runs.run import open_run
from zoo.runs.tracker import Tracker

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)


def prepare(cfg: Config) -> None:
    """Prepare the splits of a configuration.

    Raises:
        ZooError: bad input.
    """
    settings: PrepareSettings = build(cfg.prepare)
    if settings.folder is None or not settings.folder.strip():
        raise ZooError("A preparation needs prepare.folder, the folder that it writes to.")
    check_steps(cfg.steps)
    check_values(cfg.logger)
    check_machine(threads=cfg.threads, device=cfg.device)
    folder = Path(settings.folder)
    check_can_be_written(folder, "prepare.folder")
    corpus: Corpus = build(cfg.data)
    read = corpus.folder if isinstance(corpus, Aligned) else None
    if read is not None and folder.resolve() == Path(read).resolve():
        raise ZooError(f"prepare.folder is {folder}, as data.folder; choose another folder.")
    root = getattr(corpus, "root", None)
    if isinstance(root, str) and folder.resolve().is_relative_to(Path(root).resolve()):
        raise ZooError(
            f"prepare.folder is {folder}, within data.root={root}; choose a folder outside of the "
            "corpus."
        )
    stages = {split: stages_of(cfg, folder, split) for split in settings.splits}
    for stage in stages[settings.splits[0]]:
        stage.step.check()
    talks = {
        split: check_split(corpus.talks(split, limit=settings.talks), split, settings.targets)
        for split in settings.splits
    }
    if build(cfg.filters).strip_speakers:
        talks = {split: list(map(without_speakers, given)) for split, given in talks.items()}

    with explained_disk(folder):
        write_splits(cfg, settings, talks, stages, folder)


def write_splits(
    cfg: Config,
    settings: PrepareSettings,
    talks: Mapping[str, Sequence[Talk]],
    stages: Mapping[str, Sequence[PipelineStage]],
    folder: Path,
) -> None:
    """Prepare splits, write their manifests and cards, and log them to W&B if it is enabled.

    Args:
        cfg: configuration.
        settings: what is prepared.
        talks: talks of each split.
        stages: the steps of each split.
        folder: folder of the result.

    Raises:
        ZooError: a step cannot do its work, or no segment of a split can be used, which is written
            nevertheless, with the reasons.
    """
    device = machine(cfg)
    cards: dict[str, dict[str, Any]] = {}
    unusable: list[str] = []
    for split, split_talks in talks.items():
        items = prepare_split(split, split_talks, stages[split], settings, folder, device)
        if items is None:
            continue
        print(f"{folder / f'{split}.jsonl'}: {summary(items)}")
        if "card" in cfg.steps:
            names = [stage.step.name for stage in stages[split]]
            cards[split] = write_card(folder, split, items, facts_of(cfg), names)
            print(f"{folder / f'{split}.card.html'}: statistics and samples")
        unusable += unusable_split(folder, split, items)
    if cards:
        log_cards(cfg, folder, cards)
    if unusable:
        raise ZooError(" ".join(unusable))


def facts_of(cfg: Config) -> dict[str, str]:
    """Return the parts of a configuration on which the result depends, by name."""
    groups = {"words": "word_times", "alignment": "word_alignment", "recognition": "recogniser"}
    names = ("data", *(groups.get(step, step) for step in cfg.steps))
    return {
        name.replace("_", " "): ", ".join(
            f"{key.strip('_')}={value}" for key, value in _group_values(cfg, cfg[name]).items()
        )
        for name in names
        if name in cfg
    }


def log_cards(cfg: Config, folder: Path, cards: Mapping[str, Mapping[str, Any]]) -> None:
    """Log manifests and cards to W&B, if it is enabled, as an artifact for each split.

    Args:
        cfg: configuration.
        folder: folder of the prepared corpus.
        cards: statistics of each split.
    """
    run = open_run(run_folder(), kind="prepare", multirun=is_multirun())
    config = {**plain(cfg), "version": __version__}
    with Tracker(run, config=config, overrides=overrides(), settings=build(cfg.logger)) as tracker:
        for split, statistics in cards.items():
            page = folder / f"{split}.card.html"
            tracker.log_dataset(
                f"{folder.resolve().name}-{split}",
                [folder / f"{split}.{end}" for end in ("jsonl", "segments.tsv", "card.json")]
                + [page],
                metadata={key: value for key, value in statistics.items() if key != "quantities"},
            )
            tracker.log_media(f"{split}/card", partial(media.page, page))


def stages_of(cfg: Config, folder: Path, split: str) -> list[PipelineStage]:
    """Return the chosen steps in their order, without weights.

    Args:
        cfg: configuration.
        folder: folder of the result.
        split: name of the split.
    """
    alignment: AlignmentSettings = build(cfg.alignment)
    makers: dict[str, tuple[Any, Any]] = {
        "audio": (cfg.audio, lambda settings: AudioStep(settings, folder / "audio" / split)),
        "words": (cfg.word_times, lambda timer: WordsStep(timer, folder / "mfa")),
        "retranslation": (
            cfg.retranslation,
            lambda translator: RetranslationStep(translator, list(cfg.steps)),
        ),
        "prefixes": (cfg.prefixes, PrefixesStep),
        "alignment": (cfg.word_alignment, lambda aligner: AlignmentStep(aligner, alignment)),
        "trajectories": (None, lambda _: TrajectoriesStep()),
        "recognition": (cfg.recogniser, RecognitionStep),
        "estimation": (cfg.estimation, EstimationStep),
        "filters": (cfg.filters, FiltersStep),
    }
    stages = []
    for name in in_order(cfg.steps):
        if name in makers:
            node, make = makers[name]
            step: Step = make(None if node is None else build(node))
            refuses = name == "audio" and cfg.audio.damaged == "refuse"
            options = {} if node is None else _group_values(cfg, node)
            if name == "alignment":
                options = {**options, **alignment.changed()}
            # without files, keys are those of earlier versions
            states = states_of({key: value for key, value in options.items() if key != "_target_"})
            stages.append(
                PipelineStage(step, {**options, "_files_": states} if states else options, refuses)
            )
    if not stages:
        raise ZooError(f"A card needs another step: {', '.join(makers)}.")
    return stages


def _group_values(cfg: Config, node: Config) -> Mapping[str, Any]:
    """Return the values of a part of the configuration."""
    values: Mapping[str, Any] = plain(cfg)[str(node._key())]
    return values


def check_split(talks: Sequence[Talk], split: str, targets: Sequence[str] | None) -> list[Talk]:
    """Return the talks of a split with some of their translations.

    Args:
        talks: talks of the corpus.
        split: name of the split.
        targets: codes of the languages of the translations; None: all.

    Raises:
        ZooError: there is no talk, two talks have one name, or a segment lacks a translation.
    """
    if not talks:
        raise ZooError(f"The split {split!r} has no talks.")
    if same_name := of_one_name(talks):
        raise ZooError(f"Two talks of the split {split!r} have the name {same_name[0].name!r}.")
    return list(talks) if targets is None else [_into(talk, targets) for talk in talks]


def _into(talk: Talk, targets: Sequence[str]) -> Talk:
    """Return a talk with translations into some languages. Raises ZooError if one is missing."""
    segments = []
    for number, segment in enumerate(talk.segments):
        for code in targets:
            if code not in segment.targets:
                raise ZooError(
                    f"Segment {number} of talk {talk.name!r} has no translation into {code!r}; it "
                    f"has: {', '.join(segment.targets) or 'none'} (prepare.targets)."
                )
        segments.append(replace(segment, targets={code: segment.targets[code] for code in targets}))
    return replace(talk, segments=tuple(segments))


def prepare_split(
    split: str,
    talks: Sequence[Talk],
    stages: Sequence[PipelineStage],
    settings: PrepareSettings,
    folder: Path,
    device: "torch.device | None",
) -> list[Item] | None:
    """Prepare a split, or the shard of this job.

    Args:
        split: name of the split.
        talks: its talks.
        stages: the steps.
        settings: what is prepared.
        folder: folder of the result.
        device: device of the networks.

    Returns:
        The items; None if other shards have still work to do.

    Raises:
        ZooError: a step cannot do its work.
    """
    pipeline = Pipeline(
        Store(folder, split),
        stages,
        parts_of(talks, settings.part_seconds),
        workers=settings.workers,
        device=device,
        title=f"Preparing {split}",
    )
    shard, shards = settings.shard_numbers()
    if shards > 1:
        pipeline.run(shard, shards)
    if (missing := pipeline.missing()) and (shards > 1 or settings.merge):
        still = f"{len(missing)} of {len(pipeline.parts)} parts of the split {split!r}"
        if settings.merge:
            raise ZooError(
                f"The shards have not prepared {still} with these settings; start the missing "
                "ones, or leave out prepare.merge to do their work here."
            )
        logger.info("The last shard to end writes the result; others prepare %s.", still)
        return None
    with lock_folder(folder / WORK / split):
        pipeline.run()
        return write_split(folder, split, pipeline.items(), tar_megabytes=settings.tar_megabytes)


def unusable_split(folder: Path, split: str, items: Sequence[Item]) -> list[str]:
    """Return a sentence with the reasons if trainings can use no segment of a split.

    Args:
        folder: folder of the prepared corpus.
        split: name of the split.
        items: items after the last step.
    """
    notes = [note for item in items if not item.problem for note in item.notes]
    if not notes or not all(note.reason for note in notes):
        return []
    reasons = Counter(note.reason for note in notes).most_common()
    listed = ", ".join(f"{reason} {count}" for reason, count in reasons)
    table = folder / f"{split}.segments.tsv"
    sentence = f"Trainings can use none of the {len(notes)} segments of the split {split!r}"
    return [f"{sentence} ({listed}); {table} has the details."]


def summary(items: Sequence[Item]) -> str:
    """Return what was prepared, in one line."""
    talks = [item for item in items if not item.problem]
    usable = [
        segment.duration
        for item in talks
        for segment, usable in zip(item.talk.segments, item.usable, strict=True)
        if usable
    ]
    segments = sum(len(item.talk.segments) for item in talks)
    left_out = [item.talk.name for item in items if item.problem]
    lost = f"; left out: {shorten_list(left_out)}" if left_out else ""
    replaced = f", {count} translations replaced" if (count := count_retranslations(talks)) else ""
    return (
        f"{len(talks)} talks, {len(usable)} of {segments} segments usable "
        f"({sum(usable) / 3600:.2f} h){replaced}{lost}"
    )
