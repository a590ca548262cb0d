"""One training of one model on two corpora and three directions: minitalks, and a folder."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch import Callback

from tests.training.test_chain_of_thought import PHI4, STAGES
from tests.training.test_observing import Logger
from zoo.base.talks import LazyTalks, Talk
from zoo.config import build, compose
from zoo.data import manifest
from zoo.data.corpora import Aligned, MiniTalks, training_talks
from zoo.data.mixture import Mixture, MixtureEntry
from zoo.data.views import sentences
from zoo.runs.run import open_run
from zoo.systems.base import StreamingSystem
from zoo.training.callbacks.development import DevelopmentEvaluation
from zoo.training.curriculum import EvaluationSteps
from zoo.training.run import fit, last_checkpoint
from zoo.training.tokenizer import trained_tokenizer

HOURS = {
    "de": {"non_streaming": 1.0},
    "es": {"non_streaming": 1.0},
    "zh": {"streaming": 0.5, "non_streaming": 0.5},
}
NAMES = {"de": "German", "es": "Spanish", "zh": "Chinese"}
STEPS = 12
OPTIONS = [
    "experiment=streamuni_paper_minitalks",
    *PHI4,
    "backbone.max_tokens=3",  # an untrained model does not end its answers
    "training.log_every_steps=1",
    "training.save_every_steps=4",
    f"training.evaluate_every_steps={STEPS}",
    "training.data_workers=0",
    f"{STAGES}.recognition.steps=0",
    f"{STAGES}.segments.steps=0",
    f"{STAGES}.sentences.steps={STEPS}",
    f"{STAGES}.sentences.batch_seconds=12",
    f"{STAGES}.sentences.trains=[encoder,projector,decoder]",
]


class Sentences(MiniTalks):
    """The first sentences of the built-in corpus, each a talk of its own."""

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        whole = super().talks(split, limit=1)
        return sentences(whole)[: limit or 12]


class Interrupted(Exception):
    """The end of a process, after a step."""


@dataclass
class Rows(Callback):
    """Keeps prompt and answer of every row of every batch; stops after ``last`` steps."""

    last: int = STEPS
    rows: list[list[str]] = field(default_factory=list)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *given: Any) -> None:
        tokenizer = module.backbone.tokenizer
        self.rows.append([tokenizer.decode(row) for row in given[0].content.input_ids])
        if trainer.global_step == self.last < STEPS:
            raise Interrupted


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Mixture:
    folder = tmp_path_factory.mktemp("aligned")
    for split in ("train", "dev"):
        manifest.write(folder / f"{split}.jsonl", Sentences().talks(split))
    aligned = Aligned(folder=str(folder), lazy=True)
    return Mixture(
        entries={
            f"to_{code}": MixtureEntry(
                corpus=aligned if code == "es" else Sentences(),
                source_language="en",
                target_language=code,
                hours=hours,
            )
            for code, hours in HOURS.items()
        }
    )


@dataclass
class Trained:
    """A training: its rows, its logged values by step, and its best checkpoints."""

    rows: Rows
    logged: dict[int, dict[str, float]]
    best: dict[Path, float]


def train(folder: Path, corpus: Mixture, *, last: int = STEPS, resume: bool = False) -> Trained:
    """Train in ``folder``; stop after ``last`` steps as a killed process does."""
    cfg = compose("train", OPTIONS)
    settings = build(cfg.training)
    talks, dev = training_talks(corpus, "train"), corpus.talks("dev", limit=1)
    assert isinstance(talks, LazyTalks)  # one of the corpora is lazy
    run = open_run(folder, kind="train", resume=folder if resume else None)
    cfg.backbone.tokenizer = str(trained_tokenizer(run, cfg, talks, settings))
    logger, rows = Logger(), Rows(last)
    best: dict[Path, float] = {}
    with contextlib.suppress(Interrupted):
        best = fit(
            system=build(cfg.system),
            talks=talks,
            dev=dev,
            settings=settings,
            trainer_options={
                "accelerator": "cpu",
                "precision": "32-true",
                "enable_progress_bar": False,
            },
            folder=folder,
            seed=0,
            device=build(cfg.system).device,
            loggers=[logger],
            callbacks=[rows],
            resume=last_checkpoint(folder) if resume else None,
        )
    return Trained(rows, logger.logged, best)


@pytest.fixture(scope="module")
def whole(corpus: Mixture, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(tmp_path_factory.mktemp("whole"), corpus)


def references(corpus: Mixture) -> dict[str, set[str]]:
    """The translations of the training talks, by target language."""
    return {
        code: {
            segment.targets[code].text
            for talk in corpus.talks("train")
            if talk.target_language("") == code
            for segment in talk.segments
        }
        for code in HOURS
    }


def test_prompts_and_answers_of_a_batch_are_of_one_direction(
    whole: Trained, corpus: Mixture
) -> None:
    texts = references(corpus)
    seen = set()
    for batch in whole.rows.rows:
        [code] = {code for code, name in NAMES.items() if f"to {name}." in batch[0]}
        seen.add(code)
        for row in batch:
            assert f"translate the audio to {NAMES[code]}." in row
            translation = row.rpartition("<sep>")[2].partition("<|end|>")[0].strip()
            assert translation in {*texts[code], ""}, row
    assert seen == set(HOURS)


def test_every_direction_is_scored_and_the_mean_ranks_the_checkpoints(whole: Trained) -> None:
    scores = whole.logged[STEPS]
    values = [scores[f"dev/en-{code}/BLEU"] for code in HOURS]
    assert scores["dev/mean/BLEU"] == pytest.approx(sum(values) / len(values))
    assert list(whole.best.values()) == [pytest.approx(scores["dev/mean/BLEU"])]


def test_interrupted_and_resumed_equals_uninterrupted(
    whole: Trained, corpus: Mixture, tmp_path: Path
) -> None:
    train(tmp_path / "run", corpus, last=6)
    resumed = train(tmp_path / "run", corpus, resume=True)
    first = STEPS - len(resumed.rows.rows)
    assert first == 4  # the last saved step
    assert resumed.rows.rows == whole.rows.rows[first:]
    for step in range(first, STEPS):
        name = "train/sentences/loss"
        assert resumed.logged[step][name] == pytest.approx(whole.logged[step][name], abs=1e-5)


def test_an_evaluation_streams_each_direction_with_its_languages(
    corpus: Mixture, tmp_path: Path
) -> None:
    class Scripted(DevelopmentEvaluation):
        """Scores every direction by its number of talks, without streaming."""

        def _streamed(
            self, trainer: Any, system: StreamingSystem, talks: Sequence[Talk]
        ) -> dict[str, float]:
            name = f"dev/{system.direction}"
            assert system.open("talk").target_language is system.target_language
            return {f"{name}/BLEU": float(len(talks)), f"{name}/StreamLAAL": 1.0}

    dev = corpus.talks("dev", limit=2)[:-1]
    cfg = compose("train", [*OPTIONS, "backbone.tokenizer=somewhere"])
    system = build(cfg.system)
    system.backbone.open = lambda session: None
    system.backbone.arrange = lambda: None
    evaluation = Scripted(
        talks=dev,
        loss=None,
        steps=EvaluationSteps(1),
        folder=tmp_path,  # type: ignore[arg-type]
    )
    scores = evaluation.evaluate(None, system, 1)  # type: ignore[arg-type]
    assert {name: value for name, value in scores.items() if name.endswith("BLEU")} == {
        "dev/en-de/BLEU": 2.0,
        "dev/en-es/BLEU": 2.0,
        "dev/en-zh/BLEU": 1.0,
        "dev/mean/BLEU": pytest.approx(5 / 3),
    }
    assert evaluation.monitor(system) == "dev/mean/BLEU"
    assert system.direction == "en-de"
