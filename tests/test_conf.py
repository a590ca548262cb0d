"""Every YAML of conf composes and builds its object without files and network; errors."""

import builtins
import io
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any
from unittest import mock

import pytest
import yaml
from hydra._internal.utils import create_config_search_path
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from zoo.alignment.recognisers.named import NamedRecogniser
from zoo.alignment.times.base import WordTimer
from zoo.alignment.words.base import WordAligner
from zoo.apps.prepare.steps.alignment import GivenAlignment
from zoo.backbones.base import Backbone
from zoo.base.errors import ZooError
from zoo.config import CONF, build, compose
from zoo.config.filling import HYDRA
from zoo.config.loader import Loader
from zoo.config.signatures import complete
from zoo.data import corpora, readers
from zoo.data.corpora import Corpus
from zoo.data.mixture import Mixture
from zoo.data.prefixes import Prefixes
from zoo.data.readers.mustc import MustC
from zoo.evaluation.settings import Settings
from zoo.extras.interop.foreign import ForeignSystem
from zoo.extras.interop.realtime.endpoint import RealtimeEndpoint
from zoo.history.base import History
from zoo.history.reference_segments import ReferenceSegments
from zoo.policies.base import Policy
from zoo.policies.transcript_wait_k import TranscriptWaitK
from zoo.runs.wandb_run import WandbSettings
from zoo.synthesizers.base import Synthesizer
from zoo.systems.base import StreamingSystem
from zoo.systems.context.base import ContextSource
from zoo.systems.playback.base import Playback
from zoo.systems.replay import Replay
from zoo.training.fsdp2 import FSDP2
from zoo.training.settings import TrainingSettings
from zoo.training.strategy import ZeRO

STREAMING = ("evaluate", "train", "translate", "live")  # these have a system
ENTRY_POINTS = (*STREAMING, "prepare")
CORPORA = tuple(
    part
    for module in (
        corpora,
        *(
            import_module(f"{readers.__name__}.{name}")
            for _, name, _ in iter_modules(readers.__path__)
        ),
    )
    for part in vars(module).values()
    if isinstance(part, type) and hasattr(part, "talks") and part is not Corpus
)
KINDS: dict[str, tuple[type, ...]] = {
    "data": (*CORPORA, Mixture, Prefixes),
    "backbone": (Backbone,),
    "policy": (Policy,),
    "history": (History,),
    "synthesizer": (Synthesizer,),
    "playback": (Playback,),
    "context": (ContextSource,),
    "recogniser": (NamedRecogniser,),
    "system": (StreamingSystem, Replay, ForeignSystem, RealtimeEndpoint),
    "evaluation": (Settings,),
    "training": (TrainingSettings,),
    "trainer": (partial,),
    "logger": (WandbSettings,),
    "word_times": (WordTimer,),
    "word_alignment": (GivenAlignment, WordAligner),
}


def command_of(experiment: str) -> str:
    """The command of an experiment: to train, it sets a training or extends one that does."""
    node = yaml.safe_load((CONF / "experiment" / f"{experiment}.yaml").read_text())
    defaults = node.get("defaults", [])
    if "training" in node or any("training" in str(default) for default in defaults):
        return "train"
    extended = [name for name in defaults if isinstance(name, str) and name != "_self_"]
    return command_of(extended[0]) if extended else "evaluate"


EXPERIMENTS = {
    path.stem: command_of(path.stem) for path in sorted((CONF / "experiment").glob("*.yaml"))
}
GUARDS = (  # values that also hold for backbones whose own differ
    *(
        f"system/edatt: backbone.alignment.{key}"
        for key in ("normalisation", "median_filter")  # EDAtt sums probabilities
    ),
)
# Experiments whose backbones have no key for a tokenizer: letters, and a published model.
WITHOUT_TOKENIZER = (
    "aligner_minitalks",
    "recogniser_finetune",
    "recogniser_minitalks",
    "recordings",
)
CONVENTIONS = ("paper", "released")
SIZES = ("minitalks", "published", "llama8b")
FILTERS = ("default", "infinisst")  # tests/apps/prepare/test_job.py builds them
# tests/metrics/test_extra_metrics.py and test_terms.py build them
METRICS = ("chrfpp", "lowercase_bleu", "ter", "terms")
SWEEPS = (  # tests/test_sweeps.py runs them
    "hparams_search/optuna.yaml",
    "launcher/joblib.yaml",
    "launcher/submitit_local.yaml",
    "launcher/submitit_slurm.yaml",
)
STRATEGIES = (
    "auto",
    *(
        f"{name}{offload}"
        for name in ("deepspeed_stage_2", "fsdp2")
        for offload in ("", "_offload")
    ),
)
# tests/training/test_optimizer.py trains with them
OPTIMIZERS = ("adam", "adamw", "adamw_streamuni", "muon", "sgd")
APART = (  # Hydra's own, W&B's own (tests/runs/test_sweep.py), and what is no node of its own
    "hydra/default.yaml",
    "hydra/job_logging/run.yaml",
    "wandb_sweep.yaml",
    "callbacks/default.yaml",
    "synthesizer/none.yaml",
    "context/none.yaml",
    "playback/queue.yaml",
    "system/base/streaming.yaml",
    "backbone/part/encoder_minitalks.yaml",
    "backbone/part/network_minitalks.yaml",
    "backbone/part/thinker_minitalks.yaml",
)
FILES = sorted(path.relative_to(CONF) for path in CONF.glob("*/*.yaml"))
CHOICES = [
    (path.parts[0], path.stem)
    for path in FILES
    if path.parts[0] in KINDS and path.as_posix() not in APART
]


def entry_point(group: str, choice: str) -> str:
    """The command that has a choice; each command has a choice of the trainer."""
    if group.startswith("word_"):
        return "prepare"
    if group == "trainer":
        return "evaluate" if choice == "evaluate" else "train"
    return "train" if group == "training" else "evaluate"


def tokenizer(experiment: str) -> list[str]:
    """A stand-in for the tokenizer of a training."""
    return [] if experiment in WITHOUT_TOKENIZER else ["backbone.tokenizer=somewhere"]


@contextmanager
def no_disk_no_network() -> Iterator[None]:
    """Opening a file, making a folder and connecting fail."""

    def forbidden(*given: Any, **more: Any) -> Any:
        raise AssertionError(f"a constructor touched {given[:1]}")

    with (
        mock.patch.object(builtins, "open", forbidden),
        mock.patch.object(io, "open", forbidden),
        mock.patch.object(os, "mkdir", forbidden),
        mock.patch.object(socket.socket, "connect", forbidden),
    ):
        yield


def instance_of(node: DictConfig) -> Any:
    """The object of a node, built once to import its modules and once more under guard."""
    build(node)
    with no_disk_no_network():
        return build(node)


def test_every_file_is_one_of_those_tested_here() -> None:
    expected = {
        *(f"{group}/{choice}.yaml" for group, choice in CHOICES),
        *(f"experiment/{name}.yaml" for name in EXPERIMENTS),
    }
    expected |= {f"{name}.yaml" for name in ENTRY_POINTS} | {
        f"convention/{name}.yaml" for name in CONVENTIONS
    }
    expected |= {f"strategy/{name}.yaml" for name in STRATEGIES} | set(SWEEPS)
    expected |= {f"metric/{name}.yaml" for name in METRICS}
    expected |= {f"filters/{name}.yaml" for name in FILTERS}
    expected |= {f"optimizer/{name}.yaml" for name in OPTIMIZERS}
    expected |= {f"size/{name}.yaml" for name in SIZES}
    assert {path.relative_to(CONF).as_posix() for path in CONF.rglob("*.yaml")} - set(
        APART
    ) == expected


def test_both_readings_of_the_pauses_of_simulu_s_baseline_are_named() -> None:
    given = ["experiment=simulu_cascades"]
    entries = compose("evaluate", given).compare
    for name, entry in entries.items():
        if not name.startswith("local_agreement"):
            continue
        history = instance_of(compose("evaluate", [*given, *entry]).history)
        seconds = 0.1 if "pauses" in name else 20
        assert history.pause_samples == seconds * 16_000, name


def test_streamatt_plus_is_that_of_infinisst_s_paper() -> None:
    cfg = compose("evaluate", ["experiment=benchmark"])
    for entry in (cfg.compare.streamatt_plus, ["system=streamatt_plus", "backbone=lst"]):
        history = instance_of(compose("evaluate", list(entry)).history)
        assert (history.words, history.min_seconds, history.cut) == (40, 10, "always")


def test_sizes_have_the_same_keys() -> None:
    small, *others = (compose("evaluate", [f"size={size}"]).size for size in SIZES)
    assert all(other.keys() == small.keys() for other in others)
    assert all(other.windows.keys() == small.windows.keys() for other in others)
    assert all(other.weights.keys() == small.weights.keys() for other in others)


@pytest.mark.parametrize(("group", "choice"), CHOICES)
def test_a_choice_makes_its_object(group: str, choice: str) -> None:
    overrides = []
    if group == "backbone" and not choice.startswith("infinisst"):  # conventions are InfiniSST's
        overrides = ["system=streamatt"]
    if (group, choice) == ("system", "hibiki"):  # which translates into English alone
        overrides = ["source_language=fr", "target_language=en"]
    if group == "context":
        overrides = ["context.path=file"]
    if group == "training" and choice in EXPERIMENTS:  # the experiment sets the widths
        overrides = [f"experiment={choice}", *tokenizer(choice)]
    cfg = compose(entry_point(group, choice), [f"{group}={choice}", *overrides])
    assert isinstance(instance_of(cfg[group]), KINDS[group])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_is_the_trainer_s(strategy: str) -> None:
    is_zero = strategy.startswith("deepspeed")
    if is_zero:
        pytest.importorskip("deepspeed", reason="the extra deepspeed is not installed")
    chosen = build(compose("train", [f"strategy={strategy}"]).trainer).keywords["strategy"]
    if strategy == "auto":
        assert chosen == "auto"
    elif is_zero:
        assert isinstance(chosen, ZeRO)
        zero = chosen.config["zero_optimization"]
        assert (zero["stage"], "offload_optimizer" in zero) == (2, strategy.endswith("offload"))
    else:
        assert isinstance(chosen, FSDP2)
        assert chosen.offload == strategy.endswith("offload")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_makes_all_its_objects(name: str) -> None:
    cfg = compose(EXPERIMENTS[name], [f"experiment={name}", *tokenizer(name)])
    for group in KINDS:
        if cfg.get(group) is not None:
            assert isinstance(instance_of(cfg[group]), KINDS[group]), group
    for entry in (cfg.get("compare") or {}).values():
        if "synthesizer=xtts" not in entry:  # which has an environment of its own
            changed = compose("evaluate", [f"experiment={name}", *entry])
            assert isinstance(instance_of(changed.system), StreamingSystem)


@pytest.mark.parametrize("name", STREAMING)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_a_convention_sets_its_options(name: str, convention: str) -> None:
    cfg = compose(name, [f"convention={convention}", "backbone.tokenizer=somewhere"])
    backbone = instance_of(cfg.system).backbone
    released = convention == "released"
    assert backbone.window.unit == ("turns" if released else "tokens")
    assert (backbone.search.repetition, backbone.search.lookback) == (
        ("prompt", 100) if released else ("text", None)
    )
    assert backbone.search.at_limit == ("drop" if released else "keep")
    assert backbone.encoder_config.past_frames == (576 if released else 9 * 48)
    assert backbone.encoder_config.left_pad == (399 if released else 80)
    assert ("{latency}" in backbone.template.instruction) == released


def test_paper_is_the_default_convention_and_one_option_may_be_set_beside_it() -> None:
    assert compose("evaluate", ["convention=paper"]) == compose("evaluate")
    cfg = compose(
        "evaluate",
        ["convention=released", "backbone.window.unit=tokens", "backbone.template=chatml"],
    )
    backbone = instance_of(cfg.system).backbone
    assert (backbone.window.unit, backbone.search.repetition) == ("tokens", "prompt")
    assert backbone.template.end_of_turn == "<|im_end|>"
    with pytest.raises(
        ZooError, match=r"^Unknown convention 'nope'; choose one of: paper, released"
    ):
        compose("evaluate", ["convention=nope"])


@pytest.mark.parametrize("target", ["de", "es", "zh"])
def test_the_default_is_the_small_model_of_the_language_pair(target: str) -> None:
    cfg = compose("evaluate", [f"target_language={target}"])
    system: StreamingSystem = instance_of(cfg.system)
    assert (system.name, system.direction, system.chunk_samples) == (
        "infinisst",
        f"en-{target}",
        2 * 15_360,
    )
    assert (
        Path(cfg.backbone.checkpoint)
        == CONF.parent / "checkpoints" / f"infinisst_minitalks_en-{target}"
    )
    assert (cfg.data._target_, cfg.seed) == ("zoo.data.corpora.MiniTalks", 0)


def test_the_command_of_the_readme_is_the_default() -> None:
    assert compose("evaluate", ["system=infinisst", "data=minitalks"]) == compose("evaluate")
    assert compose("train", ["experiment=infinisst_minitalks"]) == compose("train")


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_every_value_can_be_resolved_and_no_key_is_mandatory(name: str) -> None:
    cfg = compose(name)
    OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    assert OmegaConf.missing_keys(cfg) == set()


def test_the_sweep_of_a_knob_reaches_the_system() -> None:
    cfg = compose("evaluate", ["system.latency_multiplier=3"])
    assert build(cfg.system).chunk_samples == 3 * 15_360
    corpus: Corpus = build(
        compose("evaluate", ["data=mustc", "data.root=/x", "target_language=zh"]).data
    )
    assert isinstance(corpus, MustC)
    assert (corpus.root, corpus.target_language) == ("/x", "zh")


def test_streamuni_is_as_the_paper_has_it_and_its_variants_are_overrides() -> None:
    system: StreamingSystem = instance_of(compose("evaluate", ["system=streamuni"]).system)
    policy = system.policy
    assert isinstance(policy, TranscriptWaitK)
    assert (policy.truncate, policy.max_seconds, policy.relaxed, policy.convention) == (
        True,
        30.0,
        False,
        "paper",
    )
    assert (system.chunk_seconds, list(system.knob.values)) == (0.64, [1, 3, 5, 7, 9])
    system.turn_knob(7)
    assert policy.k == 7
    chinese = ["target_language=zh", "system.chunk_seconds=0.32", "policy.abbreviations=[fig]"]
    system = instance_of(compose("evaluate", ["system=streamuni", *chinese]).system)
    assert (system.direction, system.chunk_seconds, list(system.policy.abbreviations)) == (
        "en-zh",
        0.32,
        ["fig"],
    )
    evaluation = instance_of(compose("evaluate", ["experiment=streamuni_simulst"]).evaluation)
    assert (evaluation.view, evaluation.rules, evaluation.convention) == (
        "segments",
        "simuleval",
        "cumulative",
    )
    simulst = ["policy.truncate=false", "history=reference_segments", "policy.convention=released"]
    system = instance_of(compose("evaluate", ["system=streamuni", *simulst]).system)
    assert (system.policy.truncate, system.policy.convention) == (False, "released")
    assert isinstance(system.history, ReferenceSegments)


Keys = tuple[str, ...]


class Recorder(Loader):
    """A loader that remembers the files of a composition in the order in which it merges them."""

    def __init__(self) -> None:
        super().__init__(create_config_search_path(str(CONF)))
        self.partial = True
        self.merged: dict[str, Any] = {}

    def _load_single_config(self, default: Any, repo: Any) -> Any:
        loaded = super()._load_single_config(default, repo)
        node = OmegaConf.to_container(loaded.config)
        if not default.config_path.startswith(HYDRA) and isinstance(node, dict):
            self.merged[default.config_path] = {
                key: value for key, value in node.items() if key not in (HYDRA, "defaults")
            }
        return loaded


def leaves(node: Any, path: Keys = ()) -> Iterator[Keys]:
    """The paths of all values of a node that are no mappings with entries."""
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from leaves(value, (*path, key))
    elif path:
        yield path


def without(node: dict[str, Any], path: Keys) -> dict[str, Any]:
    """A copy of a node that lacks one value."""
    first, *rest = path
    if rest:
        return {**node, first: without(node[first], tuple(rest))}
    return {key: value for key, value in node.items() if key != first}


def merged(nodes: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Merges files as Hydra does: mappings are merged, other values replaced."""
    whole: dict[str, Any] = {}
    for node in nodes:
        for key, value in node.items():
            both = isinstance(value, dict) and isinstance(whole.get(key), dict)
            whole[key] = merged([whole[key], value]) if both else value
    return whole


@pytest.mark.parametrize("file", FILES, ids=str)
def test_no_file_repeats_a_default_of_the_code(file: Path) -> None:
    node = yaml.safe_load((CONF / file).read_text()) or {}
    node.pop("defaults", None)
    if file.as_posix() not in APART:
        whole = complete(node)
        repeated = [path for path in leaves(node) if complete(without(node, path)) == whole]
        assert [".".join(path) for path in repeated] == []


@pytest.mark.parametrize("group", ["convention", "experiment", "system"])
def test_no_file_sets_what_holds_without_it(group: str) -> None:
    idle: dict[str, set[Keys]] = {}
    for file in FILES:
        if file.parts[0] != group:
            continue
        recorder = Recorder()
        entry = EXPERIMENTS[file.stem] if group == "experiment" else "evaluate"
        recorder.load_configuration(entry, [f"{group}={file.stem}"], RunMode.RUN)
        whole = complete(merged(recorder.merged.values()))
        for name, node in recorder.merged.items():
            if name.startswith(f"{group}/"):
                unused = {
                    path
                    for path in leaves(node)
                    if complete(merged((recorder.merged | {name: without(node, path)}).values()))
                    == whole
                }
                idle[name] = idle.get(name, unused) & unused
    found = {f"{name}: {'.'.join(path)}" for name, paths in idle.items() for path in paths}
    assert found - set(GUARDS) == set()
