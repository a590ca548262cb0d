"""Synthesizers alone, on reference texts (SimulU, Table 2).

``python -m zoo synthesis synthesizer=NAME [key=value ...]`` synthesises the reference of
every segment and prints word and character error rates of a recogniser's transcripts, and UTMOS
with ``evaluation.utmos``. The overrides are those of ``evaluate.py``.
"""

import argparse
from collections.abc import Sequence
from statistics import fmean, stdev

from torch import Tensor, nn

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.machine.hints import program
from zoo.base.progress import show_progress
from zoo.base.types import SAMPLE_RATE
from zoo.config import Config, build, machine, run_composed
from zoo.evaluation.settings import Settings
from zoo.evaluation.speech import SpeechModels
from zoo.evaluation.talks import reference_segments
from zoo.metrics.asr import speech_errors
from zoo.synthesizers.cascade import Cascade
from zoo.systems.base import StreamingSystem

BATCH = 8  # texts that are synthesised together


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores of the synthesizer that the command line names.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(prog=program("synthesis"), description=__doc__)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as of evaluate.py")
    given = parser.parse_args(arguments)
    run_composed(given.overrides, lambda cfg: print(report(cfg)))


def report(cfg: Config) -> str:
    """Synthesise all references, and return one line with the scores of their speech.

    Args:
        cfg: configuration of ``evaluate.py``, of which synthesizer, corpus, split, limit of talks,
            target language, recogniser and UTMOS are used.

    Raises:
        ZooError: the synthesizer speaks no texts or not the language, or a model is missing.
    """
    system = build(cfg.system)
    if not isinstance(system, StreamingSystem):
        raise ZooError(f"{system.name} has no synthesizer; choose another system.")
    target, settings = system.target_language, build(cfg.evaluation)
    synthesizer = cascade(system)
    models = speech_models(settings, target)
    talks = build(cfg.data).talks(settings.split, limit=settings.talks)
    texts = [
        segment.text.strip()
        for talk in talks
        for segment in reference_segments(talk, target)
        if any(map(str.isalnum, segment.text))
    ]

    device = machine(cfg)
    synthesizer.load(system.backbone)
    if isinstance(synthesizer, nn.Module):
        synthesizer.eval().to(device)
    waves = synthesise_texts(synthesizer, texts, target)
    models.load(device)
    recogniser = models.recognisers[target.code]
    transcripts = recogniser.transcribe(waves)
    scores = speech_errors(transcripts, texts, language=target, recogniser=recogniser.name)
    rates = ", ".join(
        f"{name.removeprefix('Speech')} {score.value:.2f} %"
        for name, score in scores.items()
        if score.value is not None
    )
    return (
        f"{type(synthesizer).__name__}, {target.name}, {len(texts)} sentences: {rates}"
        f"{naturalness(models, waves)}"
    )


def cascade(system: StreamingSystem) -> Cascade:
    """Return the synthesizer of a system. Raises ZooError if it does not speak texts alone."""
    if not isinstance(system.synthesizer, Cascade):
        name = type(system.synthesizer).__name__ if system.synthesizer else "none"
        raise ZooError(
            f"The synthesizer ({name}) cannot speak a text alone; choose synthesizer=espeak, "
            "synthesizer=seamless_tts or synthesizer=xtts."
        )
    return system.synthesizer


def speech_models(settings: Settings, target: Language) -> SpeechModels:
    """Return recogniser and UTMOS. Raises ZooError without a recogniser of the language."""
    models = SpeechModels.available(
        {target.code: settings.recogniser},
        settings.utmos,
        utmos_trusted=settings.utmos_trusted,
    )
    if target.code not in models.recognisers:
        raise ZooError(
            f"{' '.join(models.notes)} Choose recogniser=named and recogniser.name=<hub id or "
            "folder>."
        )
    return models


def synthesise_texts(synthesizer: Cascade, texts: Sequence[str], target: Language) -> list[Tensor]:
    """Return the (samples,) speech of each text at 16 kHz."""
    batches = [texts[first : first + BATCH] for first in range(0, len(texts), BATCH)]
    spoken = (synthesizer.synthesize_texts(batch, target) for batch in batches)
    title = "Synthesising references"
    return [
        wave.float().cpu()
        for batch in show_progress(spoken, total=len(batches), title=title)
        for wave in batch
    ]


def naturalness(models: SpeechModels, waves: Sequence[Tensor]) -> str:
    """Return the mean of UTMOS and its standard deviation as text; empty without the network."""
    if models.utmos is None:
        return ""
    scores = [models.utmos.score(wave) for wave in waves if wave.numel() > SAMPLE_RATE // 10]
    deviation = f" ({stdev(scores):.2f})" if len(scores) > 1 else ""
    return f", UTMOS {fmean(scores):.2f}{deviation}" if scores else ", UTMOS undefined"


if __name__ == "__main__":
    main()
