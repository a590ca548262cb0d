"""Every backbone with every policy and history of conf: bound or refused, as in the table.

A set of bound triples that has every bound pair runs on tiny random models in float64. Each talk
has the words and delays that it has alone when the talks come in reversed order, in a batch whose
streams are replaced as they end: this is where the tests prove it, for each backbone with each
policy and each history. ``benchmarks/independence.py`` proves it of trained models and whole talks.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib import import_module
from itertools import combinations, pairwise, product
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.benchmarks.conftest import load_script
from tests.fixtures.chat_server import ChatModel, serving
from tests.fixtures.tiny_models import Overrides, tiny_models
from zoo.backbones.base import Backbone, is_restored, without_weights
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Instance, Seconds
from zoo.config import build, compose
from zoo.history.base import History
from zoo.policies.base import Policy
from zoo.streaming.simulate import Source, simulate
from zoo.systems.base import StreamingSystem
from zoo.systems.binding import bind

CONF = Path(__file__).resolve().parents[1] / "conf"
LENGTHS: tuple[Seconds, ...] = (4.3, 1.7, 5.5)  # of the talks
LANGUAGES = {  # others: en-de; Chinese is counted in characters, and Whisper transcribes it
    **{
        backbone: ["target_language=zh"]
        for backbone in ("lst_minitalks", "offline_minitalks", "seamless_m4t_v2")
    },
    "whisper": ["source_language=zh", "target_language=zh"],
    "qwen3_asr": ["target_language=en"],
    "hibiki": ["source_language=fr", "target_language=en"],
    "hibiki_2b": ["source_language=fr", "target_language=en"],
    "voxtral_realtime": ["target_language=en"],
}
# So that chunks are counted, and audio and text are dropped, within a few seconds.
OPTIONS = {
    "wait_k": ["policy.k=2"],
    "transcript_wait_k": ["policy.k=1", "policy.max_seconds=2"],
    "edatt": ["policy.alpha=0.3"],
    "recent_words": ["history.words=2", "history.max_seconds=3"],
    "fixed_audio": ["history.words=2", "history.max_seconds=3"],
    "punctuation": ["history.max_seconds=2", "history.max_tokens=5"],
    "voice_activity": ["history.min_seconds=1", "history.max_seconds=2.5"],
    "sliding_window": ["history.seconds=2"],
}
TURNS = (
    "hibiki",
    "hibiki_2b",
    "infinisst",
    "infinisst_llama8b",
    "infinisst_minitalks",
    "learned_wait_minitalks",
    "learned_wait_qwen2_5_omni",
    "learned_wait_qwen3_omni",
)
SERVED = "chat_server"  # another process computes: it has neither a dtype nor a search here
# Two recognisers write the best token of each frame, and Hibiki samples.
UNSEARCHED = ("recogniser_minitalks", "voxtral_realtime", "hibiki", "hibiki_2b", SERVED)
STAGES = {"features", "encoder", "prefill", "decode"}  # that are measured, unless in:
FEWER_STAGES = {
    SERVED: {"decode"},
    "recogniser_minitalks": {"features", "encoder"},
    "hibiki": {"encoder", "decode"},
}
# of the same classes as smaller choices
AT_REAL_SIZE = (
    "cascade_gemma3",
    "cascade_qwen3",
    "hibiki_2b",
    "infinisst",
    "infinisst_llama8b",
    "lst_llama8b",
    "phi4_direct",
    "phi4_published",
)
NEWEST = (
    "canary",
    "qwen3_asr",
    "voxtral_realtime",
)  # Transformers has them since 5.23 or a version before
SELECTING = ("fixed_audio", "punctuation", "recent_words")  # histories that select the kept text

Triple = tuple[str, str, str]  # backbone, policy, history
Sources = Callable[[int], list[Source]]


def choices(noun: str) -> dict[str, type]:
    """Name in the configuration and class of every choice for ``noun``."""
    found = {}
    for file in sorted((CONF / noun).glob("*.yaml")):
        if file.stem != "none":
            module, _, name = target(file).rpartition(".")
            found[file.stem] = getattr(import_module(module), name)
    return found


def target(file: Path) -> str:
    """Class that a file of ``conf`` names itself, or through the file that it extends."""
    content = yaml.safe_load(file.read_text())
    if "_target_" in content:
        return str(content["_target_"])
    return target(file.with_name(f"{content['defaults'][0]}.yaml"))


TABLE = yaml.safe_load((CONF.parent / "tests" / "compatibility.yaml").read_text())
EXPOSES: dict[str, list[str]] = TABLE["exposes"]
NEEDS: dict[str, dict[str, list[str]]] = TABLE["needs"]
TRIPLES: list[Triple] = list(product(EXPOSES, NEEDS["policy"], NEEDS["history"]))


def unmet(triple: Triple) -> str:
    """The needs of a policy and a history that are not met, by the table."""
    backbone, policy, history = triple
    missing = {
        noun: sorted({*NEEDS[noun][part]} - {*EXPOSES[backbone]})
        for noun, part in (("policy", policy), ("history", history))
    }
    sentences = [f"{noun} needs {', '.join(names)}" for noun, names in missing.items() if names]
    if policy == "retranslate" and history in SELECTING:
        sentences.append("the policy keeps no text to select")
    return "; ".join(sentences)


def test_the_table_has_what_the_classes_expose_and_need() -> None:
    exposes = {name: sorted(map(str, part.exposes)) for name, part in choices("backbone").items()}  # type: ignore[attr-defined]
    needs = {
        noun: {name: sorted(map(str, part.needs)) for name, part in choices(noun).items()}  # type: ignore[attr-defined]
        for noun in ("policy", "history", "synthesizer", "context")
    }
    found = {"exposes": exposes, "needs": needs}
    expected = f"tests/compatibility.yaml should read:\n{yaml.safe_dump(found, width=120)}"
    assert found == TABLE, expected


def test_binding_follows_the_table() -> None:
    """Binding asks the classes: nothing is built or loaded."""
    parts = [choices(noun) for noun in ("backbone", "policy", "history")]
    for triple in TRIPLES:
        backbone, policy, history = (named[name] for named, name in zip(parts, triple, strict=True))
        refused = pytest.raises(ZooError) if unmet(triple) else nullcontext()
        with refused:
            bind(backbone, policy, history)  # type: ignore[arg-type]


@pytest.mark.parametrize("noun", ["policy", "history"])
def test_a_choice_is_named_after_its_module(noun: str) -> None:
    assert {name: part.__module__.rpartition(".")[2] for name, part in choices(noun).items()} == {
        name: name for name in choices(noun)
    }


@pytest.mark.parametrize(
    ("noun", "kind"), [("backbone", Backbone), ("policy", Policy), ("history", History)]
)
def test_a_choice_is_the_class_of_its_folder(noun: str, kind: type) -> None:
    assert choices(noun)
    assert all(issubclass(part, kind) for part in choices(noun).values())


def pairs(triple: Triple) -> set[tuple[str, str]]:
    return set(combinations(triple, 2))


def covering(triples: list[Triple]) -> list[Triple]:
    """A small subset of ``triples`` with every pair that occurs in any of them.

    Greedy: each triple in turn has the most missing pairs.
    """
    missing = {pair for triple in triples for pair in pairs(triple)}
    chosen = []
    while missing:
        chosen.append(max(triples, key=lambda triple: len(pairs(triple) & missing)))
        missing -= pairs(chosen[-1])
    return chosen


COVERING = covering(
    [triple for triple in TRIPLES if not unmet(triple) and triple[0] not in AT_REAL_SIZE]
)


# One triple for each way in which each backbone does not fit.
REFUSALS = {f"{triple[0]}: {unmet(triple)}": triple for triple in TRIPLES if unmet(triple)}


def chosen(triple: Triple) -> Overrides:
    """Overrides for the three parts and for short talks."""
    backbone, policy, history = triple
    system = "infinisst" if backbone in TURNS and policy == "turn_taking" else "streamatt"
    parts = [f"system={system}", f"backbone={backbone}", f"policy={policy}", f"history={history}"]
    parts += ["system.chunk_seconds=0.96", *LANGUAGES.get(backbone, [])]
    return [*parts, *OPTIONS.get(policy, []), *OPTIONS.get(history, [])]


@pytest.mark.parametrize("name", EXPOSES)
def test_simulu_fits_only_backbones_that_expose_speech(name: str) -> None:
    given = [
        "system=streamatt",
        f"backbone={name}",
        "policy=read_all",
        "history=keep_all",
        "synthesizer=simulu",
    ]
    if Capability.SPEECH in EXPOSES[name]:
        assert build(compose("evaluate", given).system).synthesizer
        return
    if name in TURNS:
        given = ["system=infinisst", f"backbone={name}", "synthesizer=simulu"]
    with pytest.raises(
        ZooError, match=r"^Synthesizer SimulU needs speech, which backbone \w+ does not expose; "
    ):
        build(compose("evaluate", given).system)


@pytest.mark.parametrize("triple", REFUSALS.values(), ids=REFUSALS)
def test_incompatible_parts_are_refused_and_the_choices_that_fit_are_named(triple: Triple) -> None:
    reasons = r"needs .* choices that fit it|keeps no text, .* choose history from"
    with pytest.raises(ZooError, match=rf"^(Policy|History) \w+ ({reasons}): .*\.$") as refused:
        build(compose("evaluate", chosen(triple)).system)
    assert str(refused.value).count("needs") <= 1


@pytest.fixture(scope="module")
def independence() -> ModuleType:
    return load_script("independence")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Overrides]]:
    models = tiny_models(tmp_path_factory.mktemp("tiny"))
    with serving(ChatModel()) as url:
        yield {**models, SERVED: [f"backbone={SERVED}", f"backbone.url={url}"]}


@pytest.fixture(scope="module")
def sources() -> Sources:
    """The first seconds of three talks in chunks of so many samples.

    The last segment of each ends with its talk.
    """
    talks = list(
        zip(build(compose("evaluate").data).talks("tst", limit=len(LENGTHS)), LENGTHS, strict=True)
    )
    waves = [audio.load(talk.file, start=talk.offset, duration=length) for talk, length in talks]
    spans = [
        [
            (segment.offset, min(segment.end, length))
            for segment in talk.segments
            if segment.offset < length
        ]
        for talk, length in talks
    ]

    def make(chunk_samples: int) -> list[Source]:
        return [
            Source(talk.name, wave.split(chunk_samples), segments=segments)
            for (talk, _), wave, segments in zip(talks, waves, spans, strict=True)
        ]

    return make


@pytest.mark.parametrize("backbone", sorted({backbone for backbone, *_ in COVERING} - {SERVED}))
def test_a_network_without_weights_has_the_parameters_of_the_loaded_one(
    backbone: str, tiny: dict[str, Overrides]
) -> None:
    """Estimates of memory count the former."""
    if backbone in NEWEST:
        pytest.importorskip("transformers", minversion="5.23")
    triple = next(triple for triple in COVERING if triple[0] == backbone)
    cfg = compose("evaluate", [*chosen(triple), *tiny[backbone]])
    empty, loaded = build(cfg.system).backbone, build(cfg.system).backbone
    with without_weights():
        empty.load()
    loaded.load()
    shapes, expected = (
        {
            name: (parameter.shape, is_restored(parameter))
            for name, parameter in part.named_parameters()
        }
        for part in (empty, loaded)
    )
    assert shapes == expected


@pytest.mark.parametrize("backbone", sorted({backbone for backbone, *_ in COVERING}))
def test_a_covering_set_writes_the_same_alone_and_in_batch(
    backbone: str, tiny: dict[str, Overrides], sources: Sources, independence: ModuleType
) -> None:
    if backbone in NEWEST:
        pytest.importorskip("transformers", minversion="5.23")
    streamed: list[Instance] = []
    for place, triple in enumerate(triple for triple in COVERING if triple[0] == backbone):
        exact = [] if backbone == SERVED else ["++backbone.dtype=float64"]
        exact += [f"backbone.search.beams={1 + place % 2}"] if backbone not in UNSEARCHED else []
        exact += ["++backbone.transcriber.dtype=float64"] if backbone.startswith("cascade") else []
        limit = [] if backbone in (*TURNS, *UNSEARCHED) else ["backbone.max_tokens=12"]
        limit += ["++system.end_silence_seconds=0"]  # some random networks end a text there
        system: StreamingSystem = build(
            compose("evaluate", [*chosen(triple), *tiny[backbone], *exact, *limit]).system
        )
        system.configure_model()
        alone = [
            next(simulate(system.eval(), [source])) for source in sources(system.chunk_samples)
        ]
        batch = list(simulate(system, sources(system.chunk_samples)[::-1], batch_size=2))
        same = independence.compare("batch", *map(independence.words_of, (alone, batch)))
        assert not same.differing, (triple, same.first)
        for instances in (alone, sorted(batch, key=lambda instance: -instance.index)):
            lengths = [instance.source_length for instance in instances]
            assert lengths == pytest.approx(LENGTHS), triple
        for length, single in zip(LENGTHS, alone, strict=True):
            delays = (*single.delays, length)
            assert all(before <= after for before, after in pairwise(delays)), triple
        assert any(single.units for single in alone), triple
        streamed += alone
    assert any(delay < instance.source_length for instance in streamed for delay in instance.delays)
    measured = [instance.stages.seconds for instance in streamed if instance.stages]
    assert set().union(*measured) >= FEWER_STAGES.get(backbone, STAGES)
