"""COMET scores of rows: in an evaluation, a Lightning test and joined runs (imitated models)."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning
import pytest
from torch.utils.data import DataLoader

from tests.contract.scripted import TurnTaker
from tests.evaluation.conftest import Evaluate
from tests.evaluation.test_runner import DE, EN, evaluator, system, talk
from tests.fixtures.comet_environment import calls, imitation
from zoo.apps.report import main
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.evaluation.callback import StreamingEvaluation
from zoo.evaluation.comet import check_texts, find_comet
from zoo.evaluation.scorer import Scorer
from zoo.evaluation.settings import Settings
from zoo.runs.rows.row import read_rows
from zoo.runs.rows.segments import NAME, SPOKEN_NAME, read_segments, write_spoken_segments
from zoo.streaming.queue import OneBatch, TalkQueue

REFERENCES = ("eins zwei drei", "vier fünf", "sechs sieben")
SOURCES = ("one two three", "four five", "six seven")
SEGMENTS = (
    "- {wav: a.wav, offset: 0, duration: 4}\n- {wav: a.wav, offset: 4, duration: 4}\n"
    "- {wav: b.wav, offset: 0, duration: 4}\n"
)
OUTPUTS = {  # words of each talk, one per second
    "good": {"a": "eins zwei drei vier fünf", "b": "sechs sieben"},
    "bad": {"a": "eins zwei drei vier six", "b": "sechs acht"},
}


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An imitated environment, with an empty cache."""
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path / "cache"))
    return imitation(tmp_path)


def write_logs(folder: Path) -> None:
    """Two recorded logs with their references and sources."""
    for name, outputs in OUTPUTS.items():
        records = [
            {
                "index": index,
                "prediction": text,
                "delays": [1000.0 * (place + 1) for place in range(len(text.split()))],
                "source": [f"{wav}.wav"],
                "source_length": 8000.0 if wav == "a" else 4000.0,
            }
            for index, (wav, text) in enumerate(outputs.items())
        ]
        (folder / f"{name}.log").write_text("".join(json.dumps(one) + "\n" for one in records))
    (folder / "segments.yaml").write_text(SEGMENTS)
    (folder / "references.txt").write_text("\n".join(REFERENCES))
    (folder / "sources.txt").write_text("\n".join(SOURCES))


def options(python: Path, *more: str) -> list[str]:
    """Overrides that score both logs."""
    entries = [f'{name}: ["system=replay", "system.log={name}.log"]' for name in OUTPUTS]
    return [
        f"compare={{{', '.join(entries)}}}",
        "data=recorded",
        "data.segments=segments.yaml",
        "data.references=references.txt",
        "data.sources=sources.txt",
        f"evaluation.comet_python={python}",
        "evaluation.comet=[Unbabel/wmt22-comet-da,metrics/my-kiwi]",
        "logger=csv",
        "hydra.run.dir=run",
        *more,
    ]


def segments(run: Path, row: Any) -> list[dict[str, Any]]:
    """Lines of the segments of a row."""
    text = (run / row.instances).with_name("segments.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_an_evaluation_scores_all_rows_in_one_process(
    evaluate: Evaluate, here: Path, python: Path
) -> None:
    write_logs(here)
    done = evaluate(*options(python, "evaluation.significance=[bootstrap]"), tiny=False)
    assert done.code == 0, done.err
    # 3 segments and 2 talks of the good log and 2 and 2 new ones of the bad one, of two models;
    # talk b is one segment, whose text is also its document
    assert calls(python) == ["check 2", "score 14"]

    good, bad = read_rows(here / "run" / "results.json")
    assert good.scores["COMET"] == good.scores["DocCOMET"] == 1.0
    assert bad.scores["COMET"] == pytest.approx((1 + 1 / 2 + 1 / 2) / 3)
    assert bad.scores["DocCOMET"] == pytest.approx((4 / 5 + 1 / 2) / 2)
    assert good.scores["COMET_my_kiwi"] == 0.0
    assert bad.scores["COMET_my_kiwi"] == pytest.approx((0 + 0 + 1 / 2) / 3, abs=0.2)
    assert [talk.scores["DocCOMET"] for talk in bad.talks] == [pytest.approx(4 / 5), 1 / 2]
    assert bad.settings.comet["COMET_my_kiwi"] == "metrics/my-kiwi"
    signature = bad.signatures["COMET"]
    assert signature.startswith("COMET|model:Unbabel/wmt22-comet-da|files:f")
    assert "|reference:yes|unbabel-comet:2.2.7|reseg:mwer(" in signature
    assert "reseg" not in bad.signatures["DocCOMET"]
    assert [one["scores"]["COMET"] for one in segments(here / "run", bad)] == [1.0, 0.5, 0.5]

    low, high = bad.intervals["COMET"]
    assert low < high
    assert "COMET" in bad.p_values["bootstrap"]
    assert "COMET" in done.out
    assert (here / "run" / "curves_COMET_my_kiwi.png").is_file()
    assert bad.scores["COMET_MEAN"] == pytest.approx(
        (bad.scores["COMET"] + bad.scores["COMET_my_kiwi"]) / 2
    )
    assert "|models:Unbabel/wmt22-comet-da + metrics/my-kiwi|" in bad.signatures["COMET_MEAN"]
    assert '"quality":["BLEU","chrF","COMET","COMET_my_kiwi","COMET_MEAN"]' in (
        here / "run" / "report.html"
    ).read_text().replace(" ", "")
    logged = (here / "run" / "metrics.csv").read_text()
    assert "tst/en-de/DocCOMET_my_kiwi" in logged


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("evaluation.comet=[x/missing]", "COMET model x/missing: it has no hparams.yaml."),
        ("evaluation.comet_python=nowhere", "there is no file nowhere"),
        ("data.sources=null", "talk 'a' has none (data=recorded takes it from data.sources)"),
    ],
)
def test_what_is_missing_is_named_before_files_are_written(
    override: str, message: str, evaluate: Evaluate, here: Path, python: Path
) -> None:
    write_logs(here)
    done = evaluate(*options(python, override), tiny=False)
    assert done.code == 2
    assert message in done.err
    assert not (here / "run" / "instances").exists()


@pytest.fixture
def talks(tmp_path: Path) -> list[Talk]:
    return [talk(tmp_path, "one"), talk(tmp_path, "two")]


def test_offline_rows_and_oracles_are_scored(
    talks: list[Talk], tmp_path: Path, python: Path
) -> None:
    evaluated = evaluator(talks, tmp_path / "run", oracle_k=(1,), knob_values=[1])
    list(evaluated.run(system(TurnTaker())))
    list(evaluated.oracles(DE, EN))
    comet = find_comet(["a/b"], str(python))
    assert comet is not None
    evaluated.scored.add_comet(comet)
    assert [row.scores["COMET_b"] for row in evaluated.rows] == [1.0, 1.0, 1.0]
    assert ["DocCOMET_b" in row.scores for row in evaluated.rows] == [True, False, True]
    assert read_rows(tmp_path / "run" / "results.json") == evaluated.rows


def test_models_without_reference_score_talks_without_references(
    talks: list[Talk], tmp_path: Path, python: Path
) -> None:
    bare = [
        replace(one, segments=tuple(replace(part, targets={}) for part in one.segments))
        for one in talks
    ]
    evaluated = evaluator(bare, tmp_path / "run", knob_values=[1])
    list(evaluated.run(system(TurnTaker())))
    kiwi, comet = (find_comet([name], str(python)) for name in ("a/kiwi", "a/b"))
    assert kiwi is not None
    assert comet is not None
    check_texts(bare, kiwi)
    evaluated.scored.add_comet(kiwi)
    assert evaluated.rows[0].scores["COMET_kiwi"] == 0.0
    assert "|reseg:time|" in evaluated.rows[0].signatures["COMET_kiwi"]
    for refused in (lambda: check_texts(bare, comet), lambda: evaluated.scored.add_comet(comet)):
        with pytest.raises(ZooError, match="COMET model a/b reads references, and these talks"):
            refused()


def test_a_lightning_test_scores_its_streams(
    talks: list[Talk], tmp_path: Path, python: Path
) -> None:
    settings = Settings(comet=["a/b"], comet_python=str(python))
    callback = StreamingEvaluation(Scorer(settings), folder=tmp_path / "streams")
    trainer = lightning.Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[callback]
    )
    streamed = system(TurnTaker())
    queue = DataLoader(OneBatch(TalkQueue(talks)), batch_size=None)
    (logged,) = trainer.test(streamed, queue, verbose=False)
    assert (logged["tst/en-de/COMET_b"], logged["tst/en-de/DocCOMET_b"]) == (1.0, 1.0)
    assert calls(python) == ["check 1", "score 3"]  # both talks have the same texts

    other = Settings(comet=["a/missing"], comet_python=str(python))
    refused = StreamingEvaluation(Scorer(other), folder=tmp_path / "other")
    trainer = lightning.Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[refused]
    )
    with pytest.raises(ZooError, match="COMET model a/missing"):
        trainer.test(streamed, queue, verbose=False)
    assert refused.instances == []


def test_a_report_adds_scores_to_finished_runs(
    evaluate: Evaluate, here: Path, python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_logs(here)
    assert evaluate(*options(python, "evaluation.comet=[]"), tiny=False).code == 0
    assert calls(python) == []
    words = ["run", "comet=[a/b, c/kiwi]", f"comet_python={python}"]
    main([*words, "--output", "joined", "--scores", "BLEU,COMET_b,DocCOMET_kiwi"])
    assert "COMET" in capsys.readouterr().out
    assert calls(python) == ["check 2", "score 14"]
    good, bad = read_rows(here / "joined" / "results.json")
    assert (good.scores["COMET_b"], good.scores["DocCOMET_b"]) == (1.0, 1.0)
    assert (here / "joined" / "curves_COMET_kiwi.svg").is_file()

    # the runs keep them
    assert read_rows(here / "run" / "results.json")[1].scores == bad.scores
    assert segments(here / "run", read_rows(here / "run" / "results.json")[1])[1]["scores"][
        "COMET_b"
    ] == pytest.approx(0.5)
    main(["run", "--output", "again"])
    assert read_rows(here / "again" / "results.json")[1].scores == bad.scores
    assert len(calls(python)) == 2


def test_recognised_speech_has_scores_of_its_own(
    evaluate: Evaluate, here: Path, python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_logs(here)
    assert evaluate(*options(python, "evaluation.comet=[]"), tiny=False).code == 0
    good, _ = read_rows(here / "run" / "results.json")
    folder = (here / "run" / good.instances).parent
    spoken = [replace(one, hypothesis="") for one in read_segments(folder / NAME, needed_by="")]
    write_spoken_segments(folder, spoken)
    main(["run", "comet=[a/b]", f"comet_python={python}", "--output", "joined"])
    good, bad = read_rows(here / "joined" / "results.json")
    assert (good.scores["COMET_b"], good.scores["ASR_COMET_b"]) == (1.0, 0.0)
    assert good.signatures["ASR_COMET_b"].startswith("ASR_COMET_b|model:a/b|")
    assert "ASR_COMET_b" not in bad.scores
    scored = read_segments(folder / SPOKEN_NAME, needed_by="")
    assert [one.scores["COMET_b"] for one in scored] == [0.0, 0.0, 0.0]
    assert "ASR" in capsys.readouterr().out


def test_a_run_without_segments_and_a_bad_list_are_named(
    evaluate: Evaluate, here: Path, python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_logs(here)
    assert evaluate(*options(python, "evaluation.comet=[]"), tiny=False).code == 0
    (here / "run" / "instances" / "00-good" / "segments.jsonl").unlink()
    for word, message in (
        ("comet=a/b", "is missing; COMET of 'good' needs it"),
        ("comet=[1]", "comet=[1] is not a list such as comet=[A,B]."),
        ("comet=[", "comet=[ is not a list"),
    ):
        with pytest.raises(SystemExit):
            main(["run", word, f"comet_python={python}", "--output", "joined"])
        assert message in capsys.readouterr().err
