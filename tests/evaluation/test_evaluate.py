"""python evaluate.py: files of the run folder, a multirun and a comparison."""

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from tests.evaluation.conftest import TINY, Evaluate
from tests.fixtures import processes
from zoo.base.languages import language
from zoo.formats.logs import read_log

ROOT = Path(__file__).resolve().parents[2]
REQUIRED = {
    "system",
    "knob",
    "data",
    "split",
    "source_language",
    "target_language",
    "scores",
    "signatures",
    "instances",
}


def results(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "results.json").read_text()))


def wandb_bytes(folder: Path) -> list[bytes]:
    """The offline W&B runs below ``folder``, in order of their path."""
    return [path.read_bytes() for path in sorted(folder.rglob("*.wandb"))]


def test_the_built_in_corpus_from_the_command_to_the_report(
    evaluate: Evaluate, here: Path, model: Path
) -> None:
    """One talk, with the reference rows: everything that the issue lists lies in the run folder."""
    done = evaluate("evaluation.talks=1", "evaluation.knob_values=[4]")
    assert done.code == 0, done.err
    (run,) = (here / "outputs" / "evaluate").iterdir()
    rows = results(run)
    labels = [(row["system"], row["knob"], row["kind"]) for row in rows]
    assert labels == [
        ("infinisst", {"name": "m", "value": 4}, "system"),
        ("infinisst offline", None, "ceiling"),
        *(("wait-k oracle", {"name": "k", "value": k}, "oracle") for k in (3, 5, 7)),
    ]
    assert all(set(row) >= REQUIRED for row in rows)
    assert {
        (row["data"], row["split"], row["source_language"], row["target_language"]) for row in rows
    } == {("minitalks", "tst", "en", "de")}
    assert all(set(row["scores"]) == set(row["signatures"]) for row in rows)
    scores = [row["scores"] for row in rows]
    assert {"BLEU", "chrF", "StreamLAAL", "StreamLAAL_CA", "LongYAAL", "RTF", "StartOffset"} <= set(
        scores[0]
    )
    assert set(scores[1]) == {"BLEU", "chrF"}
    known = [score["BLEU"] for score in scores[2:]]  # late disambiguators: waiting must pay
    assert 0 < known[0] + 10 < known[1] < known[2]
    assert scores[2]["StreamLAAL"] < scores[3]["StreamLAAL"] < scores[4]["StreamLAAL"]
    assert "queue" in rows[0]["signatures"]["StreamLAAL_CA"]
    assert all(len(read_log(run / row["instances"], language=language("de"))) >= 1 for row in rows)
    assert {path.name for path in run.iterdir()} == {
        "evaluate.log",
        "config.yaml",
        "overrides.yaml",
        "provenance.json",
        "weights.json",
        "run.json",
        "metrics.csv",
        "instances",
        "results.json",
        "talks.jsonl",
        "report.html",
        "curves.png",
        "curves.svg",
        *({"changes.diff"} if (run / "changes.diff").exists() else ()),
    }
    assert f"report:  {run.relative_to(here) / 'report.html'}" in done.out
    assert "wait-k oracle" in done.out
    assert max(map(len, done.out.splitlines())) <= 100
    assert "infinisst m=4: 79 s of audio\ninfinisst m=4: BLEU " in done.err
    assert "infinisst offline: BLEU " in done.err
    assert "oracle" not in done.err, "only rows that were streamed have a line"
    assert "[zoo.base.progress][INFO] infinisst m=4: 79 s" in (run / "evaluate.log").read_text()


def test_the_default_list_of_settings_and_flags(
    evaluate: Evaluate, mustc: list[str], here: Path
) -> None:
    """The page flags the output of random weights; a corpus without word times has no oracle."""
    babble = ["backbone.search.beams=1", "backbone.search.tokens_per_chunk=80"]
    assert evaluate(*mustc, *babble, "evaluation.upper_bound=false", "hydra.run.dir=run").code == 0
    rows = results(here / "run")
    assert [row["knob"]["value"] for row in rows] == [1, 2, 3, 4]
    assert {row["data"] for row in rows} == {"mustc"}
    flags = [flag for row in rows for flag in row["flags"]]
    assert flags
    assert all(
        flag in (here / "run" / "report.html").read_text()
        for row in rows
        for flag in row["flags"][:1]
    )


def test_streams_in_lockstep_give_the_same_words(
    evaluate: Evaluate, mustc: list[str], here: Path
) -> None:
    for batch in (1, 2):
        options = [
            f"evaluation.batch_size={batch}",
            "evaluation.knob_values=[1]",
            "evaluation.upper_bound=false",
        ]
        assert evaluate(*mustc, *options, f"hydra.run.dir=run{batch}").code == 0
    (alone,), (together,) = results(here / "run1"), results(here / "run2")
    outputs = [
        [
            (stream.talk, stream.text, stream.delays)
            for stream in read_log(folder / row["instances"], language=GERMAN)
        ]
        for folder, row in ((here / "run1", alone), (here / "run2", together))
    ]
    assert outputs[0] == outputs[1]
    assert "batched" in together["signatures"]["StreamLAAL_CA"]
    assert "batched" not in alone["signatures"]["StreamLAAL_CA"]


GERMAN = language("de")


def test_segments_one_by_one(evaluate: Evaluate, mustc: list[str], here: Path) -> None:
    options = [
        "evaluation.view=segments",
        "evaluation.knob_values=[1]",
        "evaluation.convention=chunk",
    ]
    assert evaluate(*mustc, *options, "hydra.run.dir=run").code == 0
    row, ceiling = results(here / "run")
    assert [
        stream.talk for stream in read_log(here / "run" / row["instances"], language=GERMAN)
    ] == [f"ted_{talk}-000{segment}" for talk in (1, 2) for segment in (0, 1)]
    assert {"AL", "LAAL", "ATD", "YAAL", "StreamLAAL"} <= set(row["scores"])
    known = {
        "batch_size": 1,
        "convention": "chunk",
        "resegmentation": "mwer",
        "view": "segments",
        "talks": 4,
    }
    assert row["settings"].items() >= known.items()
    assert "chunk" in row["signatures"]["LAAL_CA"]
    assert ceiling["kind"] == "ceiling"


def test_a_line_without_a_translation_is_scored_with_its_talk_only(
    evaluate: Evaluate, mustc: list[str], corpus: Path, here: Path
) -> None:
    texts = corpus / "en-de/data/tst-COMMON/txt/tst-COMMON.de"
    lines = texts.read_text().splitlines()
    texts.write_text("\n".join(["", *lines[1:]]) + "\n")
    done = evaluate(*mustc, "evaluation.knob_values=[2]", "hydra.run.dir=run")
    assert done.code == 0, done.err
    assert "leave out 1 of 4 segments, whose translation is empty." in done.out
    logs = [here / "run" / row["instances"] for row in results(here / "run")]
    assert [len(list(read_log(log, language=GERMAN))) for log in logs] == [2, 3]
    done = evaluate(*mustc, "evaluation.knob_values=[2]", "evaluation.view=segments")
    assert done.code == 0, done.err


def test_systems_side_by_side(evaluate: Evaluate, mustc: list[str], here: Path) -> None:
    """``compare``: each entry is this configuration plus its overrides, named after its key."""
    entries = (
        'compare={short:["backbone.search.tokens_per_chunk=1"],'
        'long:["backbone.search.tokens_per_chunk=9"]}'
    )
    options = ["evaluation.knob_values=[1]", "evaluation.upper_bound=false"]
    done = evaluate(*mustc, *options, entries, "hydra.run.dir=run")
    assert done.code == 0, done.err
    short, long = results(here / "run")
    assert (short["system"], long["system"]) == ("short", "long")
    words = [
        sum(
            len(stream.text)
            for stream in read_log(here / "run" / row["instances"], language=GERMAN)
        )
        for row in (short, long)
    ]
    assert words[0] < words[1]
    assert "tst-COMMON/en-de/StreamLAAL" in (here / "run" / "metrics.csv").read_text()


def test_wandb_has_scores_curves_hypotheses_and_lineage(
    evaluate: Evaluate, mustc: list[str], model: Path, here: Path
) -> None:
    card = model / "run.json"
    card.write_text(
        json.dumps({"id": "trained99", "kind": "train", "name": "train/x", "group": None})
    )
    try:
        assert (
            evaluate(
                *mustc, "evaluation.knob_values=[1,2]", "logger=default", "hydra.run.dir=run"
            ).code
            == 0
        )
    finally:
        card.unlink()
    import wandb

    wandb.teardown()  # its service writes until then
    (record,) = wandb_bytes(here / "run")
    for name in (
        b"tst-COMMON/en-de/StreamLAAL",
        b"curves/BLEU",
        b"hypotheses",
        b"model-trained99",
        b"corpus_hash",
    ):
        assert name in record, name
    files = {path.name for path in (here / "run" / "wandb").rglob("*") if path.is_file()}
    assert {
        "results.json",
        "config.yaml",
        "overrides.yaml",
        "provenance.json",
        "weights.json",
    } <= files
    media = here / "run" / "wandb"
    assert len(list(media.rglob("media/html/report*.html"))) == 1
    (path,) = media.rglob("media/table/hypotheses*.json")
    table = json.loads(path.read_text())
    assert {"chrF", "StreamLAAL", "source audio"} <= set(table["columns"])
    sounds = [line[table["columns"].index("source audio")] for line in table["data"]]
    assert sounds[0] == "Audio", "what W&B writes for a sound that is in the artifact of the table"


def test_a_multirun_is_one_launch_with_a_run_per_job(
    here: Path, model: Path, mustc: list[str]
) -> None:
    """Two jobs: numbered folders, two W&B runs in one group; an error in a job exits with 2."""
    sweep = ["-m", "evaluation.knob_values=[1],[2]", "evaluation.upper_bound=false"]
    given = [*TINY, f"backbone.checkpoint={model}", *mustc]

    def run(*more: str) -> CompletedProcess[str]:
        return processes.run(ROOT / "evaluate.py", *sweep, *given, *more, folder=here)

    done = run()
    assert done.returncode == 0, done.stderr
    (launch,) = (here / "outputs" / "evaluate").iterdir()
    assert {path.name for path in launch.iterdir()} == {"0", "1", "multirun.yaml"}
    assert [results(launch / job)[0]["knob"]["value"] for job in "01"] == [1, 2]
    records = wandb_bytes(launch)
    ids = [json.loads((launch / job / "run.json").read_text())["id"] for job in "01"]
    assert [(ids[0].encode() in record, ids[1].encode() in record) for record in records] == [
        (True, False),
        (False, True),
    ]
    assert all(launch.name.encode() in record for record in records)
    failed = run("evaluation.batch_size=0", "logger=csv", "hydra.sweep.dir=failed")
    assert (failed.returncode, failed.stderr) == (
        2,
        "error: evaluation needs batch_size of at least 1, not 0.\n",
    )
