"""Values of a wrong kind on every command line: one sentence names key, value and choices."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from zoo.base.machine import launch

DEVICES = "choose one of: auto, cpu, cuda."
WRONG = {  # command and overrides: the sentence, or its beginning
    # groups
    "evaluate policy={a:1}": "Unknown key 'policy.a'; choose one of: policy.min_start",
    "evaluate policy=[a]": "Unknown policy 'a'; choose one of: alignatt, edatt,",
    "evaluate policy=[]": "policy=[] must name a choice of policy, one of: alignatt,",
    "evaluate data={a:1}": "Unknown key 'data.a'; data has no keys ",
    "evaluate evaluation=null": "Unknown evaluation 'null'; choose one of: default.",
    "evaluate trainer=null": "Unknown trainer 'null'; choose one of: default, evaluate.",
    "evaluate metric={a:1}": "metric={a:1} must name a choice of metric, one of: chrfpp, low",
    "evaluate metric=[null]": "metric=[null] must name a choice of metric, one of: chrfpp, low",
    "evaluate experiment={a:1}": "experiment={a:1} must name a choice of experiment, one of:",
    "evaluate logger={a:1}": "Unknown key 'logger.a'; choose one of: logger.",
    "evaluate backbone={search:{beam:1}}": (
        "Unknown key 'backbone.search.beam'; choose one of: backbone.search.beams,"
    ),
    "train callbacks={a:1}": "Unknown key 'callbacks.a'",
    "train strategy={a:1}": "strategy={a:1} must name a choice of strategy, one of: auto,",
    "train experiment=[a]": "Unknown experiment 'a'; choose one of: aligner_minitalks,",
    "prepare word_times={a:1}": "Unknown key 'word_times.a'",
    "translate policy=[a]": "Unknown policy 'a'; choose one of: alignatt, edatt,",
    # parts that are not groups
    "prepare prepare=null": "prepare=null: prepare takes a mapping such as {folder: VALUE}.",
    "prepare audio=null": "audio=null: audio takes a mapping such as {damaged: VALUE}.",
    "prepare filters=null": "Unknown filters 'null'; choose one of: default, infinisst.",
    "prepare filters=[1]": "filters=[1] must name a choice of filters, one of: default, infini",
    "prepare prefixes=abc": "prefixes=abc: prefixes takes a mapping such as {name: VALUE}.",
    "evaluate backbone.search=abc": (
        "backbone.search must be a mapping (beams, length_penalty, no_repeat_ngram and"
    ),
    "evaluate system.knob={a:1}": "Unknown key 'system.knob.a'; choose one of: system.knob.name,",
    "evaluate system.policy={a:1}": "system.policy must be a Policy, not {'a': 1}.",
    # values
    "evaluate threads=[1]": "threads must be a whole number of at least 1, not [1].",
    "evaluate compare=[[streamatt]]": "compare must look like {name:",
    "evaluate compare={a:null}": "compare must look like {name:",
    "evaluate data=mustc data.root=[a]": "data.root must be text or null, not ['a'].",
    "evaluate evaluation.knob_values=abc": (
        "evaluation.knob_values must be a list (a number each) or null, not 'abc'."
    ),
    "evaluate evaluation.significance=bootstrap": (
        "evaluation.significance must be a list (one of bootstrap, randomisation each), not "
        "'bootstrap'; write 'evaluation.significance=[bootstrap]'."
    ),
    "evaluate evaluation.metrics={a:1}": (
        "Unknown key 'evaluation.metrics.a'; evaluation.metrics has no keys "
    ),
    "evaluate evaluation={split:[a]}": "evaluation.split must be text, not ['a'].",
    "evaluate trainer.devices=abc": "Lightning refuses the trainer: `devices` selected with",
    "evaluate trainer.accelerator=cuda:x": (
        "trainer.accelerator is 'cuda:x'; write the number of a device, such as cuda:0."
    ),
    "evaluate trainer.strategy={a:1}": (
        "trainer.strategy must be text or a Strategy, not {'a': 1}."
    ),
    "evaluate backbone.search.beams=[1]": "backbone.search.beams must be a whole number, not [1].",
    "evaluate system=streamatt history.words={}": "history.words must be a whole number",
    "evaluate resume=[a]": "resume must name the folder of a run; there is no folder",
    "evaluate device=null": f"Unknown device 'None'; {DEVICES}",
    "evaluate target_language=[de]": "Unknown target_language \"['de']\"; choose one of: af, am,",
    "evaluate source_language=auto": "source_language=auto is for python -m zoo translate;",
    "evaluate source_language=null": "Unknown source_language 'None'; choose one of: af, am,",
    # numbers of memory, of jobs, and none at all
    "evaluate evaluation.resamples=1000000000000": (
        "evaluation.resamples must be a number of at most 1000000, not 1000000000000."
    ),
    "evaluate evaluation.trials=10000000000": "evaluation.trials must be a number of at most",
    "evaluate evaluation.talks=9223372036854775808": "evaluation.talks must be a number of at",
    f"evaluate evaluation.talks={'9' * 400}": (
        "evaluation.talks must be a number of at most 1000000000, not a whole number of more than "
    ),
    "evaluate evaluation.significance=[bootstrap] evaluation.resamples=1": (
        "significance needs resamples of at least 40, not 1."
    ),
    "evaluate evaluation.significance=[randomisation] evaluation.trials=19": (
        "significance needs trials of at least 20, not 19."
    ),
    "evaluate evaluation.knob_values=[1,100000]": (
        "System 'infinisst' needs steps (chunk_seconds x latency_multiplier) of at most 3600 s, "
        "not 96000 s."
    ),
    "evaluate system.latency_multiplier=3751": "System 'infinisst' needs steps (chunk_seconds x",
    "evaluate system=local_agreement evaluation.knob_values=[3601]": (
        "System 'local_agreement' needs steps (chunk_seconds x latency_multiplier) of at most 36"
    ),
    "evaluate system=streamatt system.chunk_seconds=3601": "System 'streamatt' needs steps (chunk",
    f"evaluate seed={'9' * 5000}": "A number on the command line has thousands of digits",
    "evaluate evaluation.batch_size=100000000000": "evaluation.batch_size must be a number of at",
    "evaluate evaluation.knob_values=[nan]": "evaluation.knob_values must be a number of at most",
    "evaluate evaluation.oracle_k=[3,inf]": "evaluation.oracle_k must be a number of at most",
    "evaluate backbone.search.beams=1000000000": (
        "backbone.search.beams must be a number of at most 1000, not 1000000000."
    ),
    "evaluate backbone.search.length_penalty=nan": (
        "backbone.search.length_penalty must be a number of at most 1000000000, not nan."
    ),
    "evaluate system=streamatt history.max_seconds=inf": "history.max_seconds must be a number",
    "evaluate system.chunk_seconds=1e300": "system.chunk_seconds must be a number of at most 10",
    "evaluate trainer.devices=1000000000": "trainer.devices must be a number of at most 1024, ",
    "evaluate -m seed=range(0,100000000)": "-m has more than 10000 jobs; choose fewer values",
    "evaluate -m seed=range(0,9,0)": "-m has more than 10000 jobs; choose fewer values of a",
    f"evaluate -m seed={','.join('12345678901')} threads={','.join('1' * 2000)}": "-m has more",
    "train training.vocabulary_size=10000000000": (
        "training.vocabulary_size must be a number of at most 1000000, not 10000000000."
    ),
    "train training.data_workers=100000": "training.data_workers must be a number of at most 10",
    "train backbone.lora={rank:1000000000000}": "backbone.lora.rank must be a number of at most",
    # what belongs to another command or to the whole job
    "train experiment=demo": "Experiment 'demo' is not for train.py, which has no 'compare'.",
    "train experiment=[demo]": "Experiment 'demo' is not for train.py, which has no 'compare'.",
    'evaluate compare={a:["hydra.run.dir=x"]}': (
        "compare.a has hydra.run.dir=x, which belongs to the whole evaluation; write it outside"
    ),
    'evaluate compare={a:["system.name=x"]}': (
        "compare.a has system.name=x; the name of a compared system is that of its entry, so"
    ),
    "evaluate --cfg job --package a.b": "Unknown key 'a'; choose one of: data, size, backbone,",
    "evaluate --cfg job --package policy.framez": "Unknown key 'policy.framez'; choose one of:",
    "train --cfg hydra --package hydra.x": "--package: there is no 'hydra.x' in the configurat",
    "evaluate metric=terms": (
        "evaluation.metrics.TermAccuracy.glossary needs a value; write evaluation.metrics."
    ),
    "evaluate system=replay system.log='' data=recorded": (
        "system=replay needs system.log, the path of a recorded log."
    ),
    "evaluate hydra.searchpath=[file:///nowhere]": "There is no folder /nowhere (file) with",
    "evaluate hydra.searchpath=[nowhere]": "There is no folder nowhere (file) with",
    "train hydra.searchpath=[pkg://nowhere]": "There is no folder nowhere (pkg) with",
    "train device=[cpu]": f"Unknown device \"['cpu']\"; {DEVICES}",
    "train estimate=abc": "Unknown value of estimate 'abc'; choose one of: true, false.",
    "train trainer.devices=abc": "Lightning refuses the trainer: `devices` selected with",
    "train logger.mode=3": "logger.mode must be one of online, offline, disabled or null, not 3.",
    "train backbone.tokenizer=[a]": "backbone.tokenizer must be text or null, not ['a'].",
    "train system.knob=abc": "system.knob must be a mapping (name, attribute, values and",
    "train +callbacks.x=3": "callbacks.x must be null or the _target_ and the arguments of a",
    "train training.objectives.trajectories=3": (
        "training.objectives.trajectories must be an Objective, not 3."
    ),
    "prepare prepare.folder=out steps=null": (
        "steps must be a list such as [words,alignment], not None."
    ),
    "prepare prepare.folder=out logger.project=3": "logger.project must be text, not 3.",
    "prepare prepare.folder=out target_language=null": "Unknown target_language 'None'; choose",
    "translate inputs=3": "inputs must be a list of files and folders",
    "translate inputs=abc": "inputs must be a list of files and folders, not abc.",
    "translate microphone=[1]": (
        "microphone must be true, null, or the number or name of a device, not [1]."
    ),
    "translate microphone=false": "microphone must be true, null, or the number or name of a",
    "translate speed=[1]": "speed must be a number above 0",
}


@pytest.mark.parametrize("given", WRONG)
def test_a_value_of_a_wrong_kind(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *overrides = given.split(" ")
    launch.launch_name.cache_clear()
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{command}.py", *overrides])

    with pytest.raises(SystemExit) as left:
        import_module(f"zoo.apps.{command}").main()
    printed = capsys.readouterr()
    assert left.value.code == 2
    assert printed.err.startswith(f"error: {WRONG[given]}"), printed.err
    assert (printed.err.count("\n"), printed.out) == (1, "")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
