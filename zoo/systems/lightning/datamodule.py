"""Lightning DataModule with the talks of a corpus, shared by all systems."""

from collections.abc import Iterable
from typing import Any, get_args

from lightning import LightningDataModule
from torch.utils.data import DataLoader

from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.config import build, compose
from zoo.data.corpora import Corpus, training_talks
from zoo.data.views import View, talks_to_stream
from zoo.streaming.queue import OneBatch, TalkQueue


class TalksDataModule(LightningDataModule):
    """Talks for ``trainer.fit``, ``trainer.test``, ``trainer.validate`` and ``trainer.predict``.

    A training plan (``zoo.training_plan``) makes batches of examples from the training talks. In
    the other stages the only batch is a queue of talks: every rank claims the next talk when it is
    free.

    Args:
        corpus: A corpus, or the name of a file in ``conf/data`` such as ``minitalks``.
        train: Split of ``trainer.fit``.
        test: Split of ``trainer.test``.
        val: Split of ``trainer.validate``.
        predict: Split of ``trainer.predict``; its talks need no references.
        talks: Number of talks from the start of each split. None: all talks.
        view: ``talks`` streams whole recordings, ``segments`` their reference segments one by one.
        batch_size: Number of talks that one rank streams in lockstep.
        whole: Whether each talk is one chunk, for offline decoding.

    Raises:
        ZooError: The corpus is unknown, or a number is out of range.
    """

    def __init__(
        self,
        corpus: str | Corpus = "minitalks",
        *,
        train: str = "train",
        test: str = "tst",
        val: str = "dev",
        predict: str = "tst",
        talks: int | None = None,
        view: View = "talks",
        batch_size: int = 1,
        whole: bool = False,
    ) -> None:
        super().__init__()
        self.corpus: Corpus = corpus_named(corpus) if isinstance(corpus, str) else corpus
        self.splits = {"train": train, "test": test, "val": val, "predict": predict}
        check_choice("view", view, get_args(View))
        check_numbers("TalksDataModule", least=1, talks=talks, batch_size=batch_size)
        self.talks = talks
        self.view = view
        self.batch_size = batch_size
        self.whole = whole

    def setup(self, stage: str) -> None:
        """Give the training talks to the training plan of the system.

        Raises:
            ZooError: The system has no training plan, or the talks lack what its stages need.
        """
        if stage != "fit" or self.trainer is None:
            return
        system = self.trainer.lightning_module
        plan = getattr(system, "training_plan", None)
        if plan is None:
            raise ZooError(
                "The system has no training plan: system.training_plan = "
                "zoo.training_plan(EXPERIMENT)."
            )
        if not plan.is_ready:
            split = self.splits["train"]
            talks = training_talks(self.corpus, split, limit=self.talks)
            trainer = self.trainer
            batches = trainer.world_size * trainer.accumulate_grad_batches
            plan.setup(system, talks, trainer.strategy.root_device, batches=batches)

    def train_dataloader(self) -> Iterable[Any]:
        """Return the loader of the training plan."""
        assert self.trainer is not None
        loader: Iterable[Any] = self.trainer.lightning_module.train_dataloader()
        return loader

    def test_dataloader(self) -> DataLoader[TalkQueue]:
        """Return the queue of the test talks."""
        return self._loader("test")

    def val_dataloader(self) -> DataLoader[TalkQueue]:
        """Return the queue of the development talks."""
        return self._loader("val")

    def predict_dataloader(self) -> DataLoader[TalkQueue]:
        """Return the queue of the talks to translate."""
        return self._loader("predict")

    def _loader(self, stage: str) -> DataLoader[TalkQueue]:
        split = self.splits[stage]
        talks = self.corpus.talks(split, limit=self.talks)
        queue = TalkQueue(
            talks_to_stream(talks, self.view),
            corpus=self.corpus.name,
            split=split,
            whole=self.whole,
            batch_size=self.batch_size,
        )
        return DataLoader(OneBatch(queue), batch_size=None)


def corpus_named(name: str) -> Corpus:
    """Create the corpus of a file in ``conf/data``. Raises ZooError for an unknown name."""
    corpus: Corpus = build(compose("evaluate", [f"data={name}"]).data)
    return corpus
