"""Finished runs are joined into one table, plot and page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from zoo.apps.report import join, main
from zoo.base.errors import ZooError
from zoo.report.contents import headline
from zoo.runs.rows import groups
from zoo.runs.rows.join import find_runs, joined_rows
from zoo.runs.rows.row import KnobValue, Row, TalkScores, read_rows, write_rows
from zoo.runs.rows.settings import RowSettings


def row(system: str, bleu: float, kind: str = "system") -> Row:
    return Row(
        system,
        KnobValue("m", 2) if kind == "system" else None,
        data="minitalks",
        split="tst",
        source_language="en",
        target_language="de",
        scores={"BLEU": bleu, "StreamLAAL": bleu / 50, "chrF": None},
        signatures={"BLEU": "a|b"},
        instances=f"instances/00-{system}/instances.log",
        kind=kind,  # type: ignore[arg-type]
        flags=("late",),
        settings=RowSettings(convention="queue", talks=2),
    )


def oracle(k: int, bleu: float) -> Row:
    return replace(row("wait-k oracle", bleu, "oracle"), knob=KnobValue("k", k))


def run(folder: Path, rows: list[Row], *overrides: str, corpus: str | None = None) -> Path:
    folder.mkdir(parents=True)
    if corpus is not None:
        (folder / "provenance.json").write_text(json.dumps({"corpus_hash": corpus}))
    write_rows(rows, folder / "results.json")
    (folder / "overrides.yaml").write_text(yaml.safe_dump(list(overrides)))
    return folder


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    talks = (TalkScores("talk", 60.0, {"BLEU": 50.0, "RTF": None}),)
    rows = [replace(row("a", 50.0), talks=talks), row("b", 60.0, "ceiling")]
    write_rows(rows, tmp_path / "results.json")
    assert read_rows(tmp_path / "results.json") == rows


def test_rows_carry_the_overrides_in_which_runs_differ(tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    shared = ["evaluation.talks=2", "logger=csv", "device=cpu"]
    ceiling = row("a offline", 90.0, "ceiling")
    run(sweep / "0", [row("a", 50.0), ceiling], *shared, "backbone.window.size=100")
    run(sweep / "1", [row("a", 60.0), ceiling], *shared, "backbone.window.size=200", "threads=2")
    named = ("system=b", 'compare={b: ["policy.k=3"]}')  # the name of the row has it
    other = run(tmp_path / "other", [row("b", 70.0)], "evaluation.talks=2", *named)

    rows = joined_rows(find_runs([sweep, other]), tmp_path / "joined")
    assert [(one.system, one.scores["BLEU"]) for one in rows] == [
        ("a backbone.window.size=100", 50.0),
        ("a offline", 90.0),
        ("a backbone.window.size=200", 60.0),
        ("b", 70.0),
    ]
    assert rows[0].instances == "../sweep/0/instances/00-a/instances.log"
    assert rows[2].settings.overrides == ("evaluation.talks=2", "backbone.window.size=200")
    assert rows[3].settings.run == str(other)
    assert rows[3].settings.overrides == ("evaluation.talks=2", *named)


def test_a_run_is_listed_once_and_reports_on_runs_are_left_out(tmp_path: Path) -> None:
    one = run(tmp_path / "outputs" / "one", [row("a", 50.0)], "policy.k=1")
    two = run(tmp_path / "outputs" / "two", [row("a", 60.0)], "policy.k=3")
    report = tmp_path / "outputs" / "report"
    join([one, two], report)

    found = find_runs([tmp_path / "outputs", one / ".." / "one"])
    assert [finished.folder.name for finished in found] == ["one", "two"]
    [named] = find_runs([report])
    assert [joined.system for joined in named.rows] == ["a policy.k=1", "a policy.k=3"]


def test_a_copy_of_the_results_within_a_run_is_left_out(tmp_path: Path) -> None:
    """W&B keeps one, offline."""
    one = run(tmp_path / "runs" / "one", [row("a", 50.0)], "policy.k=1")
    run(one / "wandb" / "offline-run" / "files", [row("a", 50.0)])
    for place in (one, tmp_path / "runs"):
        assert [finished.folder for finished in find_runs([place])] == [one]
    link = tmp_path / "latest"
    link.symlink_to(tmp_path / "runs")
    assert len(find_runs([link, one])) == 1


def test_a_system_of_one_run_keeps_its_name(tmp_path: Path) -> None:
    """Parts of a comparison, whose overrides leave out the other part."""
    one = run(tmp_path / "one", [row("a", 50.0), row("c", 55.0)], "~compare.b", "policy.k=1")
    two = run(tmp_path / "two", [row("b", 60.0), row("c", 65.0)], "~compare.a", "policy.k=3")
    rows = joined_rows(find_runs([one, two]), tmp_path / "joined")
    assert [joined.system for joined in rows] == [
        "a",
        "c ~compare.b policy.k=1",
        "b",
        "c ~compare.a policy.k=3",
    ]


def on_talks(rows: list[Row], talks: int) -> list[Row]:
    return [replace(one, settings=replace(one.settings, talks=talks)) for one in rows]


def test_runs_on_different_talks_have_tables_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_talk = on_talks([row("a", 50.0), oracle(3, 70.0), oracle(5, 80.0)], 1)
    two_talks = on_talks([row("a", 60.0), oracle(3, 75.0), oracle(5, 85.0)], 2)
    places = [
        run(tmp_path / "one", one_talk, "evaluation.talks=1", corpus="11" * 32),
        run(tmp_path / "two", two_talks, "evaluation.talks=2", corpus="22" * 32),
        run(tmp_path / "other", two_talks, "data.seed=1", corpus="33" * 32),
        run(
            tmp_path / "again",
            [replace(one, system="b") for one in two_talks[:1]] + two_talks[1:],
            "evaluation.talks=2",
            corpus="22" * 32,
        ),
    ]
    join(places, tmp_path / "report")

    rows = read_rows(tmp_path / "report" / "results.json")
    found = {
        groups.test_set_label(key): [(one.label, one.scores["BLEU"]) for one in group]
        for key, group in groups.by_test_set(rows).items()
    }
    oracles = [("wait-k oracle k=3", 75.0), ("wait-k oracle k=5", 85.0)]
    assert found == {
        "minitalks tst, en-de, 1 talk": [
            ("a m=2", 50.0),
            ("wait-k oracle k=3", 70.0),
            ("wait-k oracle k=5", 80.0),
        ],
        "minitalks tst, en-de, 2 talks (22222222)": [("a m=2", 60.0), *oracles, ("b m=2", 60.0)],
        "minitalks tst, en-de, 2 talks (33333333)": [("a m=2", 60.0), *oracles],
    }
    printed = capsys.readouterr().out
    page = (tmp_path / "report" / "report.html").read_text()
    curves = (tmp_path / "report" / "curves.svg").read_text()
    assert all(label in text for label in found for text in (printed, page, curves))
    assert [line.partition(":")[0] for line in headline(rows)] == list(found)

    # a report of the report has the same groups
    again = joined_rows(find_runs([tmp_path / "report"]), tmp_path / "report")
    assert [one.test_set for one in again] == [one.test_set for one in rows]
    # and a report of one of the sets has no talks in its names
    [same] = groups.by_test_set(joined_rows(find_runs([places[1], places[3]]), tmp_path / "report"))
    assert groups.test_set_label(same) == "minitalks tst, en-de"


def test_the_number_of_talks_divides_runs_without_a_hash(tmp_path: Path) -> None:
    """Results of other tools have none."""
    segments = RowSettings(view="segments", talks=18)
    rows = [replace(row("c", 1.0), settings=segments)]
    places = [
        run(tmp_path / "one", on_talks([row("a", 50.0)], 1)),
        run(tmp_path / "two", on_talks([row("b", 60.0)], 2)),
        run(tmp_path / "three", rows),
        run(tmp_path / "four", [replace(row("d", 1.0), settings=RowSettings())]),
    ]
    joined = joined_rows(find_runs(places), tmp_path / "joined")
    assert [one.test_set[-1] for one in joined] == [
        "1 talk",
        "2 talks",
        "18 segments",
        "unknown talks",
    ]


def test_segments_of_the_same_talks_stay_in_their_table(tmp_path: Path) -> None:
    segments = replace(row("b", 60.0), settings=RowSettings(view="segments", talks=18))
    one = run(tmp_path / "one", [row("a", 50.0)], corpus="11")
    two = run(tmp_path / "two", [segments], corpus="11")
    [_] = groups.by_test_set(joined_rows(find_runs([one, two]), tmp_path / "joined"))


def test_reference_rows_with_other_scores_are_other_curves(tmp_path: Path) -> None:
    """Of another method of re-segmentation, for example; other values of k continue a curve."""
    offline = row("a offline", 90.0, "ceiling")
    more = [oracle(3, 70.0), oracle(7, 90.0)]
    changed = [oracle(3, 71.0), replace(offline, scores={"BLEU": 91.0})]
    one = run(tmp_path / "one", [row("a", 50.0), oracle(3, 70.0), offline], "seed=0")
    two = run(tmp_path / "two", [*more, offline], "seed=0", "evaluation.oracle_k=[3,7]")
    other = run(tmp_path / "other", [row("a", 50.0), *changed], "seed=1")

    def names(*places: Path) -> list[str]:
        return [joined.label for joined in joined_rows(find_runs(places), tmp_path / "joined")]

    assert names(one, two) == ["a m=2", "wait-k oracle k=3", "a offline", "wait-k oracle k=7"]
    assert names(one, other) == [
        "a seed=0 m=2",
        "wait-k oracle seed=0 k=3",
        "a seed=0 offline",
        "a seed=1 m=2",
        "wait-k oracle seed=1 k=3",
        "a seed=1 offline",
    ]


def test_a_folder_of_reports_only_is_refused(tmp_path: Path) -> None:
    join([run(tmp_path / "one", [row("a", 50.0)])], tmp_path / "reports" / "first")
    with pytest.raises(ZooError, match="but those of reports on other runs; name the folder"):
        find_runs([tmp_path / "reports"])


def test_table_plot_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = run(tmp_path / "one", [row("a", 50.0)], "policy.k=1")
    two = run(tmp_path / "two", [row("a", 60.0)], "policy.k=3")
    main([str(one), str(two), "--output", str(tmp_path / "report")])
    printed = capsys.readouterr().out
    assert "a policy.k=1" in printed
    assert "60.0" in printed
    page = (tmp_path / "report" / "report.html").read_text()
    assert "a policy.k=3" in page
    assert len(json.loads((tmp_path / "report" / "results.json").read_text())) == 2
    assert (tmp_path / "report" / "curves.png").stat().st_size > 1000


def test_scores_are_summarised_over_the_knob_and_by_talk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talks = (
        TalkScores("short", 300.0, {"BLEU": 40.0}),
        TalkScores("long", 900.0, {"BLEU": 60.0}),
        TalkScores("longer", 1200.0, {"BLEU": 64.0}),
    )
    rows = [
        replace(row("a", bleu), knob=KnobValue("m", knob), talks=talks)
        for knob, bleu in ((1, 50.0), (2, 60.0))
    ]
    folder = run(tmp_path / "one", [*rows, row("a offline", 90.0, "ceiling")])

    def printed(*options: str) -> list[list[str]]:
        output = tmp_path / f"report{'-'.join(options)}"
        main([str(folder), "--output", str(output), *options])
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    assert ["a", "2", "55.0", "(7.1)"] in printed("--scores", "BLEU", "--over-knob")
    assert ["a", "m=1", "50.0", "1.00"] in printed("--scores", "BLEU,StreamLAAL")
    assert ["a", "m=2", "long", "15.0", "60.0"] in printed("--talks")
    groups = printed("--minutes", "10", "--scores", "BLEU")
    assert ["a", "m=1", "above", "10", "min,", "mean", "of", "2", "17.5", "62.0", "(2.8)"] in groups
    assert ["a", "m=1", "up", "to", "10", "min,", "mean", "of", "1", "5.0", "40.0"] in groups
    with pytest.raises(SystemExit):
        printed("--scores", "COMET")
    assert "Unknown score 'COMET'; choose one of: BLEU" in capsys.readouterr().err


def test_mistakes_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZooError, match=r"has no results\.json; name the folder of an evaluation"):
        find_runs([tmp_path])
    folder = run(tmp_path / "run", [row("a", 50.0)])
    (folder / "provenance.json").write_text("[]")
    with pytest.raises(ZooError, match=r"provenance\.json is damaged"):
        find_runs([folder])
    (folder / "provenance.json").unlink()
    with pytest.raises(ZooError, match="is not empty"):
        join([folder], folder)
    (folder / "results.json").write_text('[{"system": 1}]')
    with pytest.raises(ZooError, match=r"is no results\.json of this version"):
        find_runs([folder])
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "nowhere")])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is no results.json of this version: Invalid JSON: EOF"),
        ("{}", "is no results.json of this version: Input should be a valid array."),
        # a plot draws every character: 100,000 of them took minutes
        ([{"system": "x" * 100_000}], "has a name of 100000 characters in row 0; names have at"),
        ([{"scores": {"x" * 2000: 1.0}}], "has a name of 2000 characters in row 0"),
        ([{}, {"split": "x" * 2000}], "has a name of 2000 characters in row 1"),
    ],
)
def test_results_of_other_people(
    content: object, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path / "run", [row("a", 50.0)]) / "results.json"
    if isinstance(content, list):
        (record,) = json.loads(path.read_text())
        content = json.dumps([{**record, **changes} for changes in content])
    path.write_text(str(content))
    with pytest.raises(SystemExit) as left:
        main([str(path.parent), "--output", str(tmp_path / "report")])
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {path} {sentence}")


def test_an_evaluation_that_ended_before_its_first_row_is_no_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.csv").write_text("step,a\n")
    (tmp_path / "run.json").write_text('{"kind": "evaluate"}')
    with pytest.raises(SystemExit):
        main([str(tmp_path)])
    assert capsys.readouterr().err.startswith(f"error: {tmp_path} has no results.json; name the")


def test_a_run_without_rows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, other = run(tmp_path / "run", []), run(tmp_path / "other", [row("a", 50.0)])
    with pytest.raises(SystemExit) as left:
        main([str(empty), str(other), "--output", str(tmp_path / "report")])
    assert left.value.code == 2
    assert f"error: {empty} has no rows to report; resume" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--output", "file"], "The folder file cannot be created (File exists); choose another"),
        (["--output", "file/below"], "The folder file/below cannot be created (Not a directory)"),
        (["--minutes", "nan"], "zoo.report needs minutes of at least 0, not nan."),
        ([""], "There is no folder ''; name the folder of an evaluation."),
        (["runs are missing"], "runs are missing has no results.json"),
        (["comet_python=3"], "comet_python=3 is the Python that scores with COMET; add comet="),
        (None, "A report needs at least one run folder."),
    ],
)
def test_wrong_options_are_sentences(
    given: list[str] | None,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    run(tmp_path / "run", [row("a", 1.0)])
    with pytest.raises(SystemExit) as left:
        main(["comet=[]"] if given is None else ["run", *given])
    assert left.value.code == 2
    assert f"error: {sentence}" in capsys.readouterr().err
