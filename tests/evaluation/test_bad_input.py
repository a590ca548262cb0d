"""Mistakes of a person: one sentence names the value and the choices, and the exit code is 2.

No file is left behind and no file is lost.

And odd audio that is legal: it gives a result.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.evaluation.conftest import Evaluate, Result

ROOT = Path(__file__).resolve().parents[2]
MISTAKES = {
    "evaluation.talk=1": (
        "Unknown key 'evaluation.talk'; choose one of: evaluation.split, evaluation.development,"
    ),
    "+evaluation.talk=1": (
        "Unknown key 'evaluation.talk'; choose one of: evaluation.split, evaluation.development,"
    ),
    "nonsense=1": (
        "Unknown key 'nonsense'; choose one of: data, size, backbone, policy, history, "
        "synthesizer, playback, context, trainer,"
    ),
    "backbone.window.sise=1": (
        "Unknown key 'backbone.window.sise'; choose one of: backbone.window.size,"
    ),
    "+backbone.encoder.depth=1": (
        "Unknown key 'backbone.encoder.depth'; choose one of: backbone.encoder.conv_channels,"
    ),
    "system=nonsense": (
        "Unknown system 'nonsense'; choose one of: alignatt, doa, edatt, hibiki, infinisst,"
    ),
    "data=nonsense": "Unknown data 'nonsense'; choose one of: acl6060, aligned, covost2",
    "experiment=nonsense": (
        "Unknown experiment 'nonsense'; choose one of: aligner_minitalks, benchmark,"
    ),
    "nonsense": "Cannot read 'nonsense'; write key=value or group=choice.",
    "evaluation.knob_values=[1": "Cannot read 'evaluation.knob_values=[1'",
    "target_language=xx": "Unknown language 'xx'; choose one of: af, am, ar, as,",
    "source_language=xx": "Unknown language 'xx'; choose one of: af, am, ar, as,",
    "source_language=fr": "it has no folder fr-de/data",
    "target_language=es": "it has no folder en-es/data",
    "evaluation.split=nonsense": "has no split 'nonsense'; it has: tst-COMMON.",
    "evaluation.view=words": "evaluation.view must be one of talks, segments, not 'words'.",
    "evaluation.convention=fast": (
        "evaluation.convention must be one of queue, cumulative, chunk, not 'fast'."
    ),
    "evaluation.resegmentation=none": (
        "evaluation.resegmentation must be one of mwer, soft, meaning, not 'none'."
    ),
    "evaluation.resegmentation=meaning": (
        "evaluation.resegmentation=meaning needs evaluation.encoder, the hub id or folder"
    ),
    "evaluation.encoder=owner/model": (
        "evaluation.encoder has no effect with evaluation.resegmentation=mwer; leave it out"
    ),
    "evaluation.encoder_layer=8": "evaluation.encoder_layer needs evaluation.encoder.",
    "evaluation.batch_size=0": "evaluation needs batch_size of at least 1, not 0.",
    "evaluation.batch_size=x": "evaluation.batch_size must be a whole number, not 'x'.",
    "evaluation.talks=0": "evaluation needs talks of at least 1, not 0.",
    "evaluation.talks=abc": "evaluation.talks must be a whole number or null, not 'abc'.",
    "evaluation.upper_bound=2": "evaluation.upper_bound must be true or false, not 2.",
    "evaluation.utmos=3": "evaluation.utmos must be text or null, not 3.",
    "evaluation.recogniser=whisper": (
        "evaluation.recogniser must be a Recogniser or null, not 'whisper'."
    ),
    "recogniser=nonsense": "Unknown recogniser 'nonsense'; choose one of: minitalks, named.",
    "evaluation.oracle_k=[0]": "evaluation needs oracle_k of at least 1, not 0.",
    "evaluation.knob_values=[0]": "Knob m must be a whole number of at least 1, not 0.",
    "evaluation.knob_values=[-1]": "Knob m must be a whole number of at least 1, not -1.",
    "evaluation.knob_values=[1.5]": "Knob m must be a whole number of at least 1, not 1.5.",
    "evaluation.knob_values=[]": "evaluation.knob_values is empty",
    "evaluation.knob_values=[x]": (
        "evaluation.knob_values must be a list (a number each) or null, not ['x']."
    ),
    "system.knob=null evaluation.knob_values=[1]": "System 'infinisst' has no latency knob",
    "system.latency_multiplier=0": ("needs latency_multiplier of at least 1"),
    "compare=3": 'compare must look like {name: ["key=value"], other: []}, not 3.',
    "compare={}": "compare must look like",
    "compare={a:b}": "compare must look like",
    'compare={a:["nonsense=1"]}': "Unknown key 'nonsense'; choose one of: data,",
    "compare={a:[system=nonsense]}": "Cannot read",
    'compare={a:["backbone=3"]}': "backbone=3 must name a choice of backbone",
    'compare={a:["system=nonsense"]}': "Unknown system 'nonsense'; choose one of: alignatt, doa,",
    'compare={a:["seed=1"],b:[]}': (
        "compare.a sets seed, which all systems share; set it outside of compare."
    ),
    'compare={a:["evaluation.rules=simuleval"]}': (
        "compare.a sets evaluation, which all systems share"
    ),
    "threads=0": "threads must be a whole number of at least 1, not 0.",
    "threads=many": "threads must be a whole number of at least 1, not 'many'.",
    "seed=4294967296": "seed must be at most 4294967295, not 4294967296.",
    "+talks=1": "Unknown key 'talks'; choose one of: data, size, backbone,",
    "system.knob.values=[]": "'infinisst' has no values; name at least one value.",
    "seed=x": "seed must be a whole number of at least 0, not 'x'.",
    "device=nonsense": "Unknown device 'nonsense'; choose one of: auto, cpu",
    "device=meta": "Unknown device 'meta'; choose one of: auto, cpu",
    "logger.mode=nonsense": (
        "logger.mode must be one of online, offline, disabled or null, not 'nonsense'."
    ),
    "backbone.checkpoint=/nowhere": (
        "There is no trained InfiniSST in /nowhere (no model.safetensors); name another folder with"
    ),
    "backbone.encoder.hidden=32": "does not fit the network",
    "convention=fast": "Unknown convention 'fast'; choose one of: paper, released.",
    "convention=released": "has no single token '<sp_patch>', which backbone.template needs",
    "backbone.template=qwen": (
        "Unknown template 'qwen'; choose one of: llama, released, offline, chatml, lean."
    ),
    'backbone.template.instruction="{latency}" backbone.template.latency="<m{multiplier}>"': (
        "no latency token for m ="
    ),
    "backbone.template.instruction='{speaker}'": (
        "{multiplier} and {latency} in it and no other braces"
    ),
    "backbone.search.repetition=never": (
        "backbone.search.repetition must be one of text, prompt, not 'never'."
    ),
    "backbone.search.lookback=-1": "The search needs lookback of at least 0, not -1.",
    "backbone.search.suppress=(": "Cannot read 'backbone.search.suppress=('",
    "backbone.search.suppress=[Unsinn]": "No token contains 'Unsinn', so it cannot be suppressed",
    "backbone.window.keep_instruction=1": (
        "backbone.window.keep_instruction must be true or false, not 1."
    ),
    "policy.min_start=-1": "TurnTaking needs min_start of at least 0, not -1.",
    "data.root=null": "data=mustc needs data.root, the folder of your MuST-C download",
    "data.root=/nowhere": "MuST-C is not in /nowhere: it has no folder en-de/data",
    "system=null": (
        "Unknown system 'null'; choose one of: alignatt, doa, edatt, hibiki, infinisst,"
    ),
    "experiment=infinisst_minitalks": (
        "Experiment 'infinisst_minitalks' is not for evaluate.py, which has no"
    ),
    "target_language=${nonsense}": (
        "${nonsense} refers to the key 'nonsense', which does not exist."
    ),
    "~system": "~system removes what is needed; set system to another value.",
    "~backbone": "~backbone removes what is needed; set backbone to another value.",
    "~seed": "~seed removes what is needed; set seed to another value.",
    "~system._target_": "~system._target_ removes what is needed",
    "--config-name train": "evaluate.py reads evaluate.yaml and no other main file",
    "--config-name nonsense": "evaluate.py reads evaluate.yaml and no other main file",
    "--nonsense": "unrecognized arguments: --nonsense",
    "--cfg nonsense": "argument --cfg/-c: invalid choice: 'nonsense'",
    "--config-dir /nowhere": "There is no folder /nowhere (--config-dir).",
    "system._target_=zoo.systems.Infini": "system._target_ is 'zoo.systems.Infini', which cannot",
    "backbone._target_=3": "backbone._target_ is 3, which cannot be imported",
    "data._target_=null": "data._target_ is None, which cannot be imported",
    "policy._target_=zoo.policies.turn_taking": "which is no class or function.",
    f"system.name={'x' * 300}": "system.name needs a name of 1 to 200 bytes that can be printed",
    "system.name=''": "system.name needs a name of 1 to 200 bytes that can be printed",
    "evaluation.knob_values=[2,3,2]": "evaluation.knob_values has 2 twice; name it once.",
    "evaluation.oracle_k=[1,1]": "evaluation.oracle_k has 1 twice; name it once.",
    "evaluation.significance=[bootstrap,bootstrap]": (
        "evaluation.significance has bootstrap twice; name it once."
    ),
    "evaluation.split=''": (
        "evaluation.split needs a name of 1 to 200 bytes that can be printed, not ''."
    ),
    "evaluation.development=''": "evaluation.development needs a name of 1 to 200 bytes",
    "evaluation.split=.": "has no split '.'; it has: tst-COMMON.",
    "evaluation.split=tst-COMMON/": "has no split 'tst-COMMON/'; it has: tst-COMMON.",
    "system.chunk_seconds=1e-9": (
        "steps (chunk_seconds x latency_multiplier) of at least one sample (6.25e-05 s), not 2e-09"
    ),
    "metric=chrfpp evaluation.metrics.chrFpp.word_order=1000000000": (
        "chrF needs word_order from 0 to 20, not 1000000000."
    ),
    "metric=chrfpp evaluation.metrics.chrFpp.word_order=-1": "chrF needs word_order from 0 to 20",
    "threads=1000000": "the CPU cores of this machine, not 1000000; null leaves",
    "evaluation.utmos=x.pt synthesizer=espeak": "The file x.pt of evaluation.utmos does not exist",
    "hydra.run.dir=/proc/simulzoo": (
        "Cannot write to the run folder /proc/simulzoo: No such file or directory"
    ),
}
UNFIT = {
    "policy=alignatt": (
        "Policy AlignAtt needs alignment, prefix, which backbone InfiniSST does not expose; "
        "policy choices that fit it: turn_taking."
    ),
    "history=recent_words": (
        "History RecentWords needs alignment, audio_trimming, which backbone InfiniSST does not "
        "expose; history choices that fit it: keep_all."
    ),
}


def refused(result: Result, sentence: str) -> None:
    """Exit code 2, one line on stderr with the sentence in it, nothing on stdout."""
    assert (result.code, result.out) == (2, ""), result
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert sentence in result.err


def left(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("given", MISTAKES)
def test_an_error_is_one_sentence(
    given: str, evaluate: Evaluate, mustc: list[str], here: Path
) -> None:
    refused(evaluate(*mustc, *given.split(" ")), MISTAKES[given])
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("given", UNFIT)
def test_incompatible_parts_are_refused_before_weights_load(
    given: str, evaluate: Evaluate, here: Path
) -> None:
    refused(evaluate(given, "backbone.checkpoint=/nowhere"), UNFIT[given])
    assert list(here.iterdir()) == []


def test_the_error_for_a_missing_checkpoint_names_the_training_command(
    evaluate: Evaluate, here: Path
) -> None:
    result = evaluate(
        "target_language=ca",
        "data=mustc",
        "data.root=/nowhere",
        "backbone.checkpoint=null",
        tiny=False,
    )
    refused(result, "InfiniSST needs a tokenizer")


def test_a_folder_with_a_run_in_it_is_not_overwritten(
    evaluate: Evaluate, mustc: list[str], here: Path
) -> None:
    (here / "mine").mkdir()
    card = json.dumps({"id": "abc", "kind": "evaluate", "name": "mine", "group": None})
    (here / "mine" / "run.json").write_text(card)
    for more in ([], ["data.root=/nowhere"]):  # before the talks are read
        result = evaluate(*mustc, *more, "hydra.run.dir=mine")
        refused(result, "already holds the run abc; choose another folder")
    assert {path.name: path.read_text() for path in left(here)} == {"run.json": card}


def test_a_missing_reference(
    evaluate: Evaluate, mustc: list[str], corpus: Path, here: Path
) -> None:
    text = corpus / "en-de" / "data" / "tst-COMMON" / "txt" / "tst-COMMON.de"
    text.write_text("Eins zwei drei.\nVier fünf.\n\n\n")
    refused(evaluate(*mustc), "Talk 'ted_2' has no reference in 'de': all its segments are empty.")
    text.unlink()
    refused(evaluate(*mustc), "tst-COMMON.de.")
    assert list(here.iterdir()) == []


def noise(seconds: float = 4.0, rate: int = 16_000, channels: int = 1) -> np.ndarray:
    return (
        np.random.default_rng(0)
        .uniform(-0.5, 0.5, (round(seconds * rate), channels))
        .astype(np.float32)
    )


def with_nan() -> np.ndarray:
    samples = noise()
    samples[30_000] = np.nan
    return samples


def infinite() -> np.ndarray:
    samples = noise()
    samples[30_000] = np.inf
    return samples


def truncate(path: Path) -> None:
    soundfile.write(path, noise(), 16_000)
    path.write_bytes(path.read_bytes()[:50_000])


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty file": (lambda path: path.write_bytes(b""), "is damaged or not audio"),
    "no samples": (lambda path: soundfile.write(path, noise(0), 16_000), "has no samples"),
    "NaN": (
        lambda path: soundfile.write(path, with_nan(), 16_000, subtype="FLOAT"),
        "has samples that are NaN",
    ),
    "infinite": (
        lambda path: soundfile.write(path, infinite(), 16_000, subtype="FLOAT"),
        "has samples that are NaN or infinite",
    ),
    "scaled to 16 bit": (
        lambda path: soundfile.write(path, 32_768 * noise(), 16_000, subtype="FLOAT"),
        "far beyond full scale (1.0); divide floating-point samples",
    ),
    "truncated": (truncate, "is truncated"),
    "no audio": (lambda path: path.write_text("hello"), "is damaged or not audio"),
    "missing": (lambda path: path.unlink(), "does not exist"),
}
LEGAL: dict[str, Callable[[Path], object]] = {
    "silent": lambda path: soundfile.write(path, 0 * noise(), 16_000),
    "8 kHz stereo": lambda path: soundfile.write(path, noise(rate=8_000, channels=2), 8_000),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_audio(
    kind: str, evaluate: Evaluate, mustc: list[str], corpus: Path, here: Path
) -> None:
    make, reason = BROKEN[kind]
    path = corpus / "en-de" / "data" / "tst-COMMON" / "wav" / "ted_2.wav"
    make(path)
    result = evaluate(*mustc)
    refused(result, reason)
    assert str(path) in result.err
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("kind", LEGAL)
def test_odd_audio_is_translated(
    kind: str, evaluate: Evaluate, mustc: list[str], corpus: Path, here: Path
) -> None:
    LEGAL[kind](corpus / "en-de" / "data" / "tst-COMMON" / "wav" / "ted_2.wav")
    assert evaluate(*mustc, "evaluation.knob_values=[2]", "hydra.run.dir=run").code == 0
    (log,) = (here / "run" / "instances").glob("*-infinisst-m2/instances.log")
    lengths = {
        record["talk"]: record["source_length"]
        for record in map(json.loads, log.read_text().splitlines())
    }
    assert lengths == {"ted_1": 4000.0, "ted_2": 4000.0}


def test_a_talk_of_a_tenth_of_a_second(
    evaluate: Evaluate, mustc: list[str], corpus: Path, here: Path
) -> None:
    split = corpus / "en-de" / "data" / "tst-COMMON"
    soundfile.write(split / "wav" / "ted_1.wav", noise(0.1), 16_000)
    for suffix, line in (
        ("yaml", "- {duration: 0.1, offset: 0.0, speaker_id: s, wav: ted_1.wav}"),
        ("en", "Yes."),
        ("de", "Ja."),
    ):
        (split / "txt" / f"tst-COMMON.{suffix}").write_text(line + "\n")
    assert evaluate(*mustc, "hydra.run.dir=run").code == 0
    rows = json.loads((here / "run" / "results.json").read_text())
    assert [row["knob"] for row in rows] == [{"name": "m", "value": m} for m in (1, 2, 3, 4)] + [
        None
    ]
    log = json.loads((here / "run" / rows[0]["instances"]).read_text())
    assert log["source_length"] == 100.0
    assert set(log["delays"]) <= {100.0}


def test_the_process_itself_leaves_with_2(here: Path) -> None:
    command = [sys.executable, str(ROOT / "evaluate.py"), "-m", "evaluation.nonsense=1,2"]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=120)
    refused(
        Result(done.returncode, done.stdout, done.stderr),
        "Unknown key 'evaluation.nonsense'; choose one of",
    )
    assert list(left(here)) == []
