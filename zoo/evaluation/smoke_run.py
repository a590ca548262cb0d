"""The job of evaluate.py with ``smoke=true``: a smoke test of each system, without files."""

import sys

import torch

from zoo.base.errors import ZooError
from zoo.base.progress import wide_console
from zoo.base.types import SAMPLE_RATE
from zoo.config import plain
from zoo.data.corpora import Corpus
from zoo.data.transcripts import with_transcripts
from zoo.evaluation import smoke
from zoo.evaluation.loaded import Choices
from zoo.evaluation.runner import has_speech
from zoo.evaluation.settings import Settings, knob_values
from zoo.evaluation.talks import check_talks
from zoo.systems.base import StreamingSystem

FAILED = 1  # exit code of a smoke test with a failed check


def smoke_test(
    choices: Choices,
    corpus: Corpus,
    settings: Settings,
    *,
    device: torch.device,
    seed: int,
) -> None:
    """Stream a few sentences through each system and print its checks; no file is written.

    Args:
        choices: configuration of each system.
        corpus: source of the sentences.
        settings: settings of the evaluation; the split and the first knob value are used.
        device: device on which the networks run.
        seed: seed of randomly initialised weights.

    Raises:
        ZooError: a setting, a talk or a recorded system does not fit.
        SystemExit: a system fails a check; the exit code is 1.
    """
    torch.manual_seed(seed)
    systems = [system for system in choices if isinstance(system, StreamingSystem)]
    if len(systems) < len(choices):
        raise ZooError(
            "smoke=true streams a few sentences through the zoo's systems; a recorded log has "
            "nothing to stream, and the parts of another tool's agent are not known."
        )
    for system in systems:
        value = knob_values(system, settings)[0]
        if value is not None:
            system.turn_knob(value)
    talks = with_transcripts(
        smoke.pick_sentences(corpus, settings.split),
        {system.target_language.code for system in systems},
    )
    for source, target in dict.fromkeys(
        (system.source_language, system.target_language) for system in systems
    ):
        check_talks(talks, source=source, target=target)

    passed = True
    for system in systems:
        system.configure_model()
        print(smoke.title(system.to(device), plain(choices[system])["backbone"].get("checkpoint")))
        outputs = smoke.translate(system, talks)
        step = system.chunk_samples / SAMPLE_RATE
        checks = [
            smoke.check_weights(system),
            *smoke.check_outputs(
                outputs, system.target_language, step, with_speech=has_speech(system)
            ),
        ]
        smoke.show(outputs, checks, wide_console())
        passed = passed and all(check.ok for check in checks)
        system.cpu()
    if not passed:
        sys.exit(FAILED)
