"""The tokenizer of a backbone that has none: trained on the training talks."""

from collections.abc import Sequence
from pathlib import Path

from zoo.backbones.base import Backbone, TokenizerCorpus
from zoo.base.disk.files import atomic_folder
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Talk
from zoo.config import Config, arguments_of, target_of
from zoo.runs.run import Run
from zoo.training.settings import TrainingSettings


def needs_tokenizer(cfg: Config, settings: TrainingSettings) -> bool:
    """Return whether a tokenizer must be trained.

    A tokenizer is trained if the configuration has a vocabulary size, and its backbone has neither
    a tokenizer nor weights.

    Raises:
        ZooError: it has a vocabulary size, and its backbone has the tokenizer of its weights.
    """
    if settings.vocabulary_size is None:
        return False
    if "tokenizer" not in cfg.backbone:
        raise ZooError(
            f"training.vocabulary_size={settings.vocabulary_size} has no effect: backbone "
            f"{backbone_class(cfg).__name__} has the tokenizer of its weights; leave it out."
        )
    if cfg.backbone.tokenizer is not None:
        return False
    return cfg.backbone[backbone_class(cfg).weights_key] is None


def trained_tokenizer(
    run: Run, cfg: Config, talks: Sequence[Talk], settings: TrainingSettings
) -> Path:
    """Train the tokenizer of the backbone, unless the run folder already has it.

    All ranks of a launch train the same tokenizer, and the tokenizer that is complete first is
    kept.

    Args:
        run: Run whose folder receives the tokenizer.
        cfg: Configuration of the training.
        talks: Training talks.
        settings: Settings of the training, with a vocabulary size.

    Returns:
        Folder of the tokenizer.
    """
    folder = run.folder / "tokenizer"
    if not folder.is_dir():
        with atomic_folder(folder, keep=True) as unfinished:
            train_tokenizer(unfinished, cfg, talks, settings)
    return folder


def train_tokenizer(
    folder: Path, cfg: Config, talks: Sequence[Talk], settings: TrainingSettings
) -> None:
    """Train the tokenizer of the backbone.

    Args:
        folder: Destination.
        cfg: Configuration of the training.
        talks: Training talks.
        settings: Settings of the training, with a vocabulary size.
    """
    assert settings.vocabulary_size is not None
    corpus = TokenizerCorpus(
        talks=talks,
        source=language(cfg.source_language),
        target=language(cfg.target_language),
        size=settings.vocabulary_size,
        multipliers=settings.curriculum.multipliers,
    )
    backbone_class(cfg).train_tokenizer(corpus, folder, arguments_of(cfg.backbone))


def backbone_class(cfg: Config) -> type[Backbone]:
    """Return the class of the configured backbone."""
    target = target_of(cfg.backbone)
    assert issubclass(target, Backbone)
    return target
