"""Trainings of a tiny system under several strategies, one after another in the same processes.

``python tests/training/sharded_job.py FOLDER NAME [NAME ...]`` runs the named strategies in one of
the processes of a launch. Rank 0 writes the recorded facts to ``FOLDER/NAME``.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies import Strategy
from torch import Tensor, distributed
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from zoo.base.talks import Talk
from zoo.base.types import Instance
from zoo.config import Config, build, compose
from zoo.data.corpora import MiniTalks
from zoo.streaming.callback import StreamCallback
from zoo.training import sharding
from zoo.training.curriculum import Curriculum
from zoo.training.fsdp2 import FSDP2
from zoo.training.run import fit
from zoo.training.strategy import ZeRO

STRATEGIES: dict[str, Callable[[], Strategy | str]] = {
    "auto": lambda: "auto",
    "fsdp2": FSDP2,
    "fsdp2_offload": lambda: FSDP2(offload=True),
    "deepspeed_stage_2": ZeRO,
    "deepspeed_stage_2_offload": lambda: ZeRO(offload=True),
}
HALF = {"precision": "bf16-mixed"}  # the first stage freezes what the second trains
EVALUATED = ("fsdp2",)  # with sharded weights
STEPS = {"recognition": 2, "sentences": 2, "segments": 1}  # the second freezes the encoder
UNIFORM = {"segments": 3}  # one stage that trains all parts of the backbone
MIDDLE = 3  # step whose state is resumed, within the second stage
EVERY = 2  # steps between two evaluations; the first is of an objective with a head
STEP = 1e-3  # learning rate of all stages: about what one step moves a weight by
CLIPPED = 0.1  # maximum norm of the gradients, which all steps exceed
TALKS = 3  # of training and of development; two ranks cannot share the latter equally
SECONDS = 1.0  # of a development talk
TINY = [
    "device=cpu",
    "training.log_every_steps=1",
    "training.save_every_steps=1000",
    "training.evaluate_every_steps=1000",
    "training.evaluate_last=false",
    "training.data_workers=0",
    "backbone.max_tokens=4",
    *(f"training.curriculum.stages.{name}.steps={steps}" for name, steps in STEPS.items()),
    *(f"training.curriculum.stages.{name}.batch_seconds=12" for name in STEPS),
    *(f"training.curriculum.stages.{name}.warmup_steps=2" for name in STEPS),
    *(f"training.curriculum.stages.{name}.learning_rate={STEP}" for name in STEPS),
]


EXPERIMENTS = {
    "streamuni_qwen_minitalks": [
        "backbone.config.text_config.hidden_size=16",
        "backbone.config.text_config.intermediate_size=32",
        "backbone.config.text_config.num_hidden_layers=3",
        "backbone.config.text_config.num_attention_heads=2",
        "backbone.config.text_config.num_key_value_heads=2",
        "backbone.config.text_config.rope_parameters.mrope_section=[2,1,1]",
        "backbone.config.audio_config.d_model=16",
        "backbone.config.audio_config.encoder_layers=2",
        "backbone.config.audio_config.encoder_attention_heads=2",
        "backbone.config.audio_config.encoder_ffn_dim=32",
        "backbone.alignment.heads=null",
    ],
    "streamuni_phi4_minitalks": [  # its encoder runs as often as a batch has lengths
        "backbone.config.hidden_size=16",
        "backbone.config.intermediate_size=32",
        "backbone.config.num_attention_heads=2",
        "backbone.config.num_key_value_heads=2",
        "backbone.config.audio_config.hidden_size=16",
        "backbone.config.audio_config.intermediate_size=32",
        "backbone.config.audio_config.num_blocks=2",
        "backbone.config.audio_config.num_attention_heads=2",
        "backbone.config.audio_config.ext_pw_out_channel=16",
        "backbone.config.audio_config.depthwise_separable_out_channel=16",
        "backbone.config.audio_config.nemo_conv_channels=8",
        "backbone.alignment.heads=null",
    ],
}


class Facts(StreamCallback, Logger):
    """Records losses, the norm of the first moments, and the weights that streamed each talk.

    AdamW does not depend on the scale of the gradients, but its first moments do.
    """

    name, version = "facts", 0

    def __init__(self, saved: Path | None = None) -> None:
        super().__init__()
        self.saved = saved
        self.losses: dict[int, float] = {}
        self.development: dict[int, float] = {}  # losses of the development talks
        self.norms: dict[int, float] = {}
        self.talks: dict[str, float] = {}  # sum of the absolute weights, by step and talk
        self.searched: list[bool] = []  # whether DDP searched for unused parameters, by step

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        assert step is not None
        for key, value in metrics.items():
            if key.endswith("/loss"):
                losses = self.development if key.startswith("dev/") else self.losses
                losses[step] = value

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        return

    def on_talk_end(self, trainer: lightning.Trainer, system: Any, instance: Instance) -> None:
        weights = [weight.detach().double() for weight in system.backbone.parameters()]
        streamed = f"{trainer.global_step} {instance.talk}"
        self.talks[streamed] = float(sum(weight.abs().sum() for weight in weights))

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return
        optimizer: Any = trainer.optimizers[0]
        optimizer = getattr(optimizer, "optimizer", optimizer)  # DeepSpeed wraps the optimizer
        moments = [state["exp_avg"] for state in optimizer.state.values() if state]
        square = torch.stack([local(moment).double().square().sum() for moment in moments]).sum()
        wrapper = trainer.strategy.model
        if isinstance(wrapper, DistributedDataParallel):
            self.searched.append(wrapper.find_unused_parameters)
        elif trainer.world_size > 1:  # each rank has a part of the moments
            distributed.all_reduce(square)
        self.norms[trainer.global_step] = float(square) ** 0.5
        if self.saved is not None and trainer.global_step == MIDDLE:
            trainer.save_checkpoint(self.saved)


def local(tensor: Tensor) -> Tensor:
    """The part of a sharded tensor on this rank."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


@cache
def talks(split: str) -> list[Talk]:
    return MiniTalks().talks(split, limit=TALKS)


def configuration(experiment: str, *overrides: str) -> Config:
    return compose(
        "train", [f"experiment={experiment}", *EXPERIMENTS[experiment], *TINY, *overrides]
    )


def train(
    cfg: Config,
    folder: Path,
    trainer: Mapping[str, Any],
    *,
    every: int | None = None,
    steps: Mapping[str, int] = STEPS,
    saved: Path | None = None,
    resume: Path | None = None,
) -> dict[str, Any]:
    """Train and save the backbone to ``folder/export``; the recorded facts.

    Args:
        cfg: Configuration of the training.
        folder: Run folder.
        trainer: Further arguments of the Trainer.
        every: Number of steps between two evaluations. None evaluates never.
        steps: Number of steps of each stage.
        saved: Where to save the state of step ``MIDDLE``.
        resume: Checkpoint to resume from.
    """
    settings, system = build(cfg.training), build(cfg.system)
    stages = {stage.name: stage for stage in settings.curriculum.stages}
    settings = replace(
        settings,
        curriculum=Curriculum({name: replace(stages[name], steps=n) for name, n in steps.items()}),
        evaluate_every_steps=every or settings.evaluate_every_steps,
        evaluate_from_step=0,
    )
    facts = Facts(saved)
    fit(
        system=system,
        talks=talks("train"),
        dev=[replace(talk, duration=SECONDS, segments=talk.segments[:1]) for talk in talks("dev")],
        settings=settings,
        trainer_options={
            "accelerator": "cpu",
            "gradient_clip_val": CLIPPED,
            "enable_progress_bar": False,
            **trainer,
        },
        folder=folder,
        seed=cfg.seed,
        device=torch.device("cpu"),
        loggers=[facts],
        callbacks=[facts],
        resume=resume,
    )
    together = distributed.is_initialized()
    if not together or distributed.get_rank() == 0:
        system.backbone.save(folder / "export", torch.float32)
    every_rank = [facts.talks]
    if together:
        every_rank = [{}] * distributed.get_world_size()
        distributed.all_gather_object(every_rank, facts.talks)
    return {
        "losses": facts.losses,
        "development": facts.development,
        "norms": facts.norms,
        "talks": [(name, value) for talks in every_rank for name, value in talks.items()],
        "searched": facts.searched,
    }


def main(folder: Path, names: Sequence[str]) -> None:
    """Train with each strategy, resume from the state of ``MIDDLE``, and write the facts.

    The resumed training begins an evaluation for which rank 1 has no memory.
    """
    torch.set_num_threads(1)
    cfg, uneven = (
        configuration(experiment, f"backbone.tokenizer={folder / experiment / 'tokenizer'}")
        for experiment in EXPERIMENTS
    )
    rank = int(os.environ["RANK"])
    free_memory = sharding.free_memory
    for name in names:
        place = folder / name
        every = EVERY if name in ("auto", *EVALUATED) else None
        facts = {}
        for run in ("whole", "resumed"):
            is_whole = run == "whole"
            sharding.free_memory = lambda device: free_memory(device) if rank == 0 else 0.0
            if is_whole:
                sharding.free_memory = free_memory
            facts[run] = train(
                cfg,
                place / run,
                two(name),
                every=every,
                saved=place / "middle.ckpt" if is_whole else None,
                resume=None if is_whole else place / "middle.ckpt",
            )
        if rank == 0:
            (place / "facts.json").write_text(json.dumps(facts))
    others = {
        "uniform": train(cfg, folder / "uniform", two("auto"), steps=UNIFORM),
        "uneven": train(uneven, folder / "uneven", two("fsdp2")),
        "half": train(cfg, folder / "half", two("fsdp2_offload") | HALF),
    }
    for name, found in others.items():
        if rank == 0:
            (folder / name / "facts.json").write_text(json.dumps(found))


def two(name: str) -> dict[str, Any]:
    """Arguments of the Trainer for two processes with a strategy of ``STRATEGIES``."""
    return {"devices": 2, "strategy": STRATEGIES[name]()}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
