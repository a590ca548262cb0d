"""train.py's work: from a configuration to a trained, exported model. Exact to resume."""

import contextlib
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from transformers import PreTrainedTokenizerBase

from zoo.backbones.cascade.prompt import Template as CascadeTemplate
from zoo.backbones.common.chain_of_thought.prompt import Template as ChainOfThoughtTemplate
from zoo.backbones.common.speech_llm.prompt import template_named
from zoo.backbones.common.text.tokenizer import SPECIAL_TOKENS, train_tokenizer
from zoo.backbones.seamless_m4t.network import train_pieces
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.backbones.wav2text.transcript import SourceWords
from zoo.callbacks.progress import progress_bar
from zoo.config import (
    Config,
    build,
    choices_unlike,
    is_multirun,
    machine,
    overrides,
    plain,
    run_folder,
    target_of,
)
from zoo.data.corpora import Corpus
from zoo.data.excerpts import Excerpt
from zoo.data.fingerprint import content_hash
from zoo.data.talks import Talk
from zoo.errors import ZooError, unknown_choice
from zoo.evaluation.sources import check_talks
from zoo.languages import language
from zoo.systems.base import StreamingSystem
from zoo.tracking.run import CARD, Run, RunIdentity, open_run, write_card
from zoo.tracking.tracker import Tracker, track
from zoo.training.export import DTYPES, evaluation, export, weights_key
from zoo.training.run import TrainingSettings, fit, last_checkpoint

# Overrides an evaluation must repeat begin so.
EVALUATED = ("backbone", "convention=", "source_language=", "target_language=", "data=", "data.")
TRAINED = (
    "backbone.lora",
    "backbone.gradient_checkpointing",
)  # but for these, which only a training needs
RESUMED = (
    "backbone",
    "data",
    "source_language",
    "target_language",
    "seed",
)  # what a resumed run must not change


def train(cfg: Config) -> None:
    """Train (or go on with ``resume=<run folder>``) and export. Raises ZooError on bad input, before long work."""
    if cfg.resume is not None and is_multirun():
        raise ZooError("resume=... continues one run; it cannot go with a multirun.")
    if cfg.export_dtype not in DTYPES:
        raise unknown_choice("export_dtype", cfg.export_dtype, DTYPES)
    resume = None if cfg.resume is None else Path(cfg.resume)
    options = build(cfg.trainer)
    checkpoint = None if resume is None else last_checkpoint(resume, options["strategy"])
    if resume is not None:
        check_same(resume, plain(cfg))
    device = machine(cfg)
    settings: TrainingSettings = build(cfg.training)
    corpus: Corpus = build(cfg.data)
    source, target = language(cfg.source_language), language(cfg.target_language)
    talks = corpus.talks(settings.train_split, limit=settings.train_talks)
    dev = corpus.talks(settings.dev_split, limit=settings.dev_talks)
    check_talks([*talks, *dev], source=source, target=target, streamed=False)
    run = open_run(run_folder(), kind="train", resume=resume, multirun=is_multirun())
    size = settings.vocabulary_size
    if (
        size is not None
        and cfg.backbone.tokenizer is None
        and cfg.backbone[weights_key(cfg.backbone)] is None
    ):
        cfg.backbone.tokenizer = str(tokenizer_folder(run, talks, cfg, settings, size))
    system: StreamingSystem = build(cfg.system)
    facts = {"corpus_hash": content_hash(talks), "train_talks": len(talks)}
    with track(
        run, config=plain(cfg), overrides=overrides(), facts=facts, settings=build(cfg.logger)
    ) as tracker:
        kept = fit(
            system=system,
            talks=talks,
            dev=dev,
            settings=settings,
            trainer_options=options,
            folder=run.folder,
            seed=cfg.seed,
            device=device,
            loggers=tracker.loggers(),
            callbacks=[RunIdentity(run), progress_bar()],
            resume=checkpoint,
        )
        if run.main:
            finish(system, kept, cfg, corpus, run, tracker)


def check_same(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise ZooError when the run in ``folder`` was started with another network, data, languages or seed."""
    path = folder / "config.yaml"
    try:
        before = yaml.safe_load(path.read_text())
        before = {name: before[name] for name in RESUMED}
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ZooError(f"{path} is missing or damaged; the run cannot be resumed.") from error
    for name in RESUMED:
        here, there = config[name], before[name]
        if name == "backbone":  # the tokenizer may lie in the run folder, which may have moved
            here, there = {**here, "tokenizer": None}, {**there, "tokenizer": None}
        if here != there:
            raise ZooError(
                f"The run in {folder} was started with another {name}; resume it with the same overrides."
            )


def finish(
    system: StreamingSystem,
    kept: Sequence[Path],
    cfg: Config,
    corpus: Corpus,
    run: Run,
    tracker: Tracker,
) -> None:
    """Export the last weights, hand the kept checkpoints to the tracker and say how to evaluate."""
    folder = run.folder / "export"
    key = weights_key(cfg.backbone)
    repeated = choices_unlike("evaluate", ("system", "backbone"))
    left_out = (f"backbone.{key}", *TRAINED)
    repeated += [
        item for item in overrides() if item.startswith(EVALUATED) and not item.startswith(left_out)
    ]
    repeated = list(dict.fromkeys(repeated))
    if not (folder / CARD).is_file():  # a finished run that was resumed has nothing new to say
        shutil.rmtree(
            folder, ignore_errors=True
        )  # the card comes last: what lacks it was cut short
        export(
            system,
            folder,
            config=plain(cfg),
            corpus=corpus.name,
            trained=overrides(),
            evaluated=repeated,
            dtype=cfg.export_dtype,
        )
        write_card(run, folder)
    tracker.log_checkpoints([folder, *kept], best=kept[0] if kept else None)
    print(f"exported: {folder}\nevaluate: {evaluation(system, repeated, f'{key}={folder}')}")


def tokenizer_folder(
    run: Run, talks: Sequence[Talk], cfg: Config, settings: TrainingSettings, size: int
) -> Path:
    """Train the target tokenizer into the run folder, once; beside it lie the source words, for transcripts.

    Ranks of one launch train the same tokenizer; whoever is first puts it in place.
    """
    folder = run.folder / "tokenizer"
    if folder.is_dir():
        return folder
    target = language(cfg.target_language)
    texts = [segment.targets[target.code].text for talk in talks for segment in talk.segments]
    if issubclass(target_of(cfg.backbone), SeamlessM4TSpeech):
        put(
            run,
            folder,
            train_pieces(texts, size=size, source=cfg.source_language, target=target.code),
        )
        return folder
    special = list(SPECIAL_TOKENS)
    template = cfg.backbone.get("template")
    asked = build(template) if isinstance(template, Config) else template
    if isinstance(asked, ChainOfThoughtTemplate | CascadeTemplate):
        names = {"source": language(cfg.source_language).name, "target": target.name}
        instruction = asked.instruction.format(
            **names, transcript="", translation=""
        )  # part of whatever is read
        texts += [
            text
            for talk in talks
            for segment in talk.segments
            for text in (segment.source, instruction)
        ]
        special = list(dict.fromkeys([*SPECIAL_TOKENS, *asked.tokens]))
    elif template is not None:
        special = special_tokens(template, settings.curriculum.multipliers)
    tokenizer = train_tokenizer(
        texts, vocabulary_size=size, unit=target.unit, special_tokens=special
    )
    spoken = (word.text for talk in talks for segment in talk.segments for word in segment.words)
    put(run, folder, tokenizer, SourceWords.of(spoken) if settings.stages(Excerpt) else None)
    return folder


def put(
    run: Run, folder: Path, tokenizer: PreTrainedTokenizerBase, words: SourceWords | None = None
) -> None:
    """Write tokenizer and source words to ``folder`` in one go, unless another rank was first."""
    with tempfile.TemporaryDirectory(dir=run.folder) as made:
        tokenizer.save_pretrained(Path(made) / "tokenizer")
        if words is not None:
            words.write(Path(made) / "tokenizer")
        with contextlib.suppress(OSError):
            (Path(made) / "tokenizer").rename(folder)


def special_tokens(template: str | Config, multipliers: Collection[int]) -> list[str]:
    """Those of every tokenizer trained here, then what else the template needs for the multipliers of a training."""
    needed = template_named(
        template if isinstance(template, str) else build(template)
    ).special_tokens(max(multipliers))
    return list(dict.fromkeys([*SPECIAL_TOKENS, *needed]))
