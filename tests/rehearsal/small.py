"""Arguments that make a command small enough for two cores, and nothing else."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from tests.fixtures.tiny_models import ENCODER
from tests.rehearsal.commands import Command, given
from zoo.config import compose, plain

CONF = Path(__file__).parent / "conf"  # of the backbone whose shape is that of the tiny encoder
STEPS = 2  # of each stage of a training
EXAMPLES = 4  # of a step
# The links of a random aligner leave most words of a translation without a source word.
LENIENT = ("filters.max_unaligned=1",)
COMET_PYTHON = "comet_python"  # program beside the others of a rehearsal


def reduced(command: Command, words: Sequence[str]) -> list[str]:
    """Return the words of a command with the arguments that make it small.

    Args:
        command: command.
        words: its words, with placeholders filled.
    """
    words = [word.replace("trainer.devices=8", "trainer.devices=2") for word in words]
    words += _environment_of_xtts(words)
    if "-m" in words:
        words = [_two_values(word) for word in words]
    if command.kind == "evaluate" and given(words, "resume") is None:
        added = _evaluation(words)
        options = [word for word in added if word.startswith("--")]  # stand before overrides
        return [*words[:2], *options, *words[2:], *(word for word in added if word not in options)]
    if command.kind == "train":
        return [*words, *_training(words)]
    if command.kind == "prepare":
        return [*_without_quality(words), *LENIENT, *_environment_of_comet(words), "logger=csv"]
    return words


def _environment_of_xtts(words: Sequence[str]) -> list[str]:
    """Return the argument that names the stand-in of coqui-tts, beside that of the weights."""
    folders = {key: given(words, f"{key}.name") for key in ("xtts", "synthesizer")}
    return [
        f"{key}.python={folder}-environment/bin/python"
        for key, folder in folders.items()
        if folder is not None and Path(folder).name == "xtts"
    ]


def _environment_of_comet(words: Sequence[str]) -> list[str]:
    """Return the argument that names the stand-in of COMET's environment."""
    if "estimation" not in (given(words, "steps") or ""):
        return []
    folder = Path(given(words, "data.root") or "").parent  # of the rehearsal
    return [f"estimation.python={folder / 'bin' / COMET_PYTHON}", "filters.min_estimate=null"]


def _without_quality(words: Sequence[str]) -> list[str]:
    """Return words without the limit of WER: a random recogniser errs in all words."""
    return [word for word in words if not word.startswith("filters.max_wer=")]


def _two_values(word: str) -> str:
    """Return a sweep with its first two values; any other word as it is."""
    key, _, values = word.partition("=")
    is_sweep = "," in values and "[" not in values and "{" not in values
    return f"{key}={','.join(values.split(',')[:2])}" if is_sweep else word


def _evaluation(words: Sequence[str]) -> list[str]:
    """Return arguments of a small evaluation: few talks, one value of a single system's knob."""
    # A random language model translates the beginnings of few sentences to their ends.
    talks = 6 if given(words, "data") == "prefixes" else 1
    added = [f"evaluation.talks={talks}", "logger=csv", "evaluation.oracle_k=[5]"]
    overrides = _overrides(words)
    config = compose("evaluate", overrides)
    if config["compare"] is not None:
        if given(words, "size") == "published":
            own = [path.stem for path in (CONF / "backbone").glob("*.yaml")]
            added += [f"--config-dir={CONF}"]
            added += [f"size.{name.removesuffix('_tiny')}={name}" for name in own]
            added.append("size.speech_llm=phi4_tiny")
        if (given(words, "experiment") or "").startswith("simulu"):
            # The units of a random network end late, and a recogniser transcribes all rows.
            added.append("evaluation.upper_bound=false")
        has_knobs = all("system.knob=null" not in entry for entry in config["compare"].values())
        if has_knobs and given(words, "evaluation.knob_values") is None:
            added.append("evaluation.knob_values=[2]")  # every knob of the tables has it
        return added
    added += _short_answers(config)
    if given(words, "backbone") == "infinisst":
        added += [f"backbone.encoder.{name}={value}" for name, value in ENCODER.items()]
    knob = config.system.get("knob")
    is_typed = knob is not None and given(words, knob["attribute"]) is not None
    if knob is not None and not is_typed and given(words, "evaluation.knob_values") is None:
        value = knob["values"][0] if knob["values"] else 2
        added.append(f"system.knob.values=[{value}]")
    return added


def _short_answers(config: DictConfig) -> list[str]:
    """Return arguments that end the answers of a backbone early: a random model does not."""
    if "backbone" not in config:
        return []  # a recorded log
    backbone = config.backbone
    if "max_tokens" in backbone:
        has_limit = "max_tokens" in backbone.get("transcriber", {})
        nested = ["backbone.transcriber.max_tokens=12"] if has_limit else []
        return ["backbone.max_tokens=12", *nested]
    if "emission" in backbone:
        return ["backbone.emission.max_tokens=6", "backbone.emission.final_tokens=6"]
    return ["backbone.search.tokens_per_chunk=2"] if "infinisst" in backbone._target_ else []


def _training(words: Sequence[str]) -> list[str]:
    """Return arguments of a training of a few steps on one development talk."""
    config = compose("train", _overrides(words))
    stages = plain(config, resolve=False)["training"]["curriculum"]
    added = ["logger=csv", "training.dev_talks=1", *_short_answers(config)]
    for name, stage in stages["stages"].items():
        if stage and (stage.get("steps") or stage.get("passes")):
            added += [
                f"training.curriculum.stages.{name}.steps={STEPS}",
                f"training.curriculum.stages.{name}.passes=null",
            ]
            if stage.get("examples"):
                added.append(f"training.curriculum.stages.{name}.examples={EXAMPLES}")
    if given(words, "experiment") == "streamuni_phi4":
        # Its ablations train alike, and each would stream for minutes what streamuni_paper streams.
        added.append("training.evaluate_last=false")
    if given(words, "size") == "llama8b":
        added += [f"backbone.encoder.{name}={value}" for name, value in ENCODER.items()]
    return added


def _overrides(words: Sequence[str]) -> list[str]:
    """Return the overrides among words, with the first value of each swept key."""
    found = [word for word in words if "=" in word and not word.startswith("-")]
    if "-m" not in words:
        return found
    return [word if "[" in word or "{" in word else word.partition(",")[0] for word in found]
