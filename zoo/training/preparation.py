"""What a training does before its first step: samplers, network, heads and encoded talks."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import Language, language
from zoo.base.talks import LazyTalks, Talk
from zoo.base.types import Seconds
from zoo.data.mixture import MixedSampler, by_share
from zoo.data.sampling import Sampler, Sampling, Stretches
from zoo.data.views import usable_parts
from zoo.data.windows import WindowedSampler
from zoo.systems.base import StreamingSystem
from zoo.training.curriculum import Stage
from zoo.training.encoded import EncodesTalks, encode_frozen
from zoo.training.settings import TrainingSettings

NORMALISATION_TALKS = 32  # maximum number of talks that feature statistics are estimated from

logger = logging.getLogger(__name__)


def make_samplers(
    system: StreamingSystem, talks: Sequence[Talk], settings: TrainingSettings
) -> dict[str, Sampler]:
    """Create the sampler of each stage.

    Args:
        system: System, which has the target language and the chunk duration.
        talks: Training talks.
        settings: Settings of the training.

    Returns:
        Samplers by name of the stage.

    Raises:
        ZooError: A talk lacks labels that the examples of a stage need.
    """
    return {stage.name: _sampler(system, talks, stage, settings) for stage in settings.stages()}


def development_samplers(
    system: StreamingSystem, dev: Sequence[Talk], settings: TrainingSettings
) -> dict[str, Sampler]:
    """Create samplers of the development talks for the stages whose examples the talks have.

    Args:
        system: System, which has the target language and the chunk duration.
        dev: Development talks.
        settings: Settings of the training.

    Returns:
        Samplers by name of the stage.
    """
    dev = usable_parts(list(dev))
    samplers: dict[str, Sampler] = {}
    for stage in settings.stages() if dev else ():
        try:
            samplers[stage.name] = _sampler(system, dev, stage, settings, development=True)
        except ZooError as error:
            logger.warning("no development loss in stage %s: %s", stage.name, error)
    return samplers


def _sampler(
    system: StreamingSystem,
    talks: Sequence[Talk],
    stage: Stage,
    settings: TrainingSettings,
    *,
    development: bool = False,
) -> Sampler:
    """Create a sampler of talks for a stage.

    The talks of a mixture have a sampler for each share, with the target language of the share.

    Args:
        system: System, which has the target language of other talks, and the chunk duration.
        talks: Talks.
        stage: Stage whose examples are sampled.
        settings: Settings of the training.
        development: Whether the examples are for the development loss.
    """
    samplers: list[Sampler] = []
    hours: list[float] = []
    for share, talks_of_share in by_share(talks):
        sampling = settings.sampling(stage)
        target = system.target_language
        if share is not None:
            sampling, target = sampling.for_share(share), language(share.target_language)
            hours.append(sum(share.hours.values()))
        if development:
            sampling = sampling.for_development()
        options = _Options(target, system.chunk_seconds, stage.stretches)
        if isinstance(talks_of_share, LazyTalks):
            samplers.append(WindowedSampler(talks_of_share, partial(options.sampler, sampling)))
        else:
            samplers.append(options.sampler(sampling, talks_of_share))
    return MixedSampler(samplers, hours) if hours else samplers[0]


@dataclass(frozen=True, slots=True)
class _Options:
    """Arguments of ``Sampling.sampler`` that the talks of all windows have in common."""

    target: Language
    chunk_seconds: Seconds
    stretches: Stretches

    def sampler(self, sampling: Sampling, talks: Sequence[Talk], windows: int = 1) -> Sampler:
        """Create the sampler of the talks of one of the windows of a pass."""
        return sampling.for_window(windows).sampler(
            talks,
            target=self.target,
            chunk_seconds=self.chunk_seconds,
            stretches=self.stretches,
        )


def prepare(
    system: StreamingSystem,
    talks: Sequence[Talk],
    settings: TrainingSettings,
    samplers: Mapping[str, Sampler],
    device: torch.device,
) -> None:
    """Create the network and the heads of the objectives, and encode talks for frozen encoders.

    Args:
        system: System whose network is created.
        talks: Training talks.
        settings: Settings of the training.
        samplers: Samplers by name of the stage.
        device: Device on which talks are encoded.

    Raises:
        ZooError: The backbone lacks a part that a stage trains, or cannot encode whole talks for a
            stage with encoded audio; or a talk lacks labels that an objective needs.
    """
    system.load()
    backbone = system.backbone
    interval = max(1, math.ceil(len(talks) / NORMALISATION_TALKS))
    backbone.fit_features(
        audio.load(talk.file, start=talk.offset, duration=talk.duration)
        for talk in talks[::interval]
    )

    for stage in settings.curriculum.stages:
        backbone.trainable(stage.trains)  # called for its error for an unknown part
    backbone.requires_grad_(True)
    system.train()  # loaded modules may be in eval mode, and Lightning does not change the mode

    for name in dict.fromkeys(stage.objective for stage in settings.stages()):
        objective_samplers = [
            samplers[stage.name] for stage in settings.stages() if stage.objective == name
        ]
        settings.objectives[name].prepare(talks, backbone, objective_samplers)
    encode(system, settings, samplers, device)


def encode(
    system: StreamingSystem,
    settings: TrainingSettings,
    samplers: Mapping[str, Sampler],
    device: torch.device,
) -> None:
    """Encode the talks of the stages with encoded audio.

    Args:
        system: System with a loaded network.
        settings: Settings of the training.
        samplers: Samplers by name of the stage.
        device: Device on which talks are encoded.

    Raises:
        ZooError: The backbone cannot encode whole talks.
    """
    backbone = system.backbone
    for stage in settings.stages():
        if stage.name in samplers and settings.sampling(stage).encoded:
            if not isinstance(backbone, EncodesTalks):
                raise ZooError(
                    f"Stage {stage.name!r} samples encoded audio, but {type(backbone).__name__} "
                    "encodes no whole talks; set encoded=false."
                )
            multipliers = stage.stretches.possible_multipliers
            samplers[stage.name].encode(
                partial(encode_frozen, backbone, multipliers=multipliers, device=device)
            )
