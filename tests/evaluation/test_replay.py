"""python evaluate.py system=replay: recorded logs with references and without audio."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.conftest import TINY, Evaluate, Result
from tests.fixtures.tiny_encoder import save_encoder
from zoo.base.audio import files as audio

LOGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "logs"
recorded_logs = pytest.mark.skipif(not LOGS.is_dir(), reason=f"the recorded logs are not at {LOGS}")
YAML = (
    "- {duration: 1.5, offset: 0.25, wav: ted_1.wav}\n"
    "- {duration: 1.5, offset: 2.0, wav: ted_1.wav}\n"
    "- {duration: 1.0, offset: 0.0, wav: x/ted_2.wav}\n"
)
REFERENCES = "Eins zwei drei.\nVier fünf.\nSechs.\n"
STREAMS: tuple[dict[str, Any], ...] = (
    {
        "index": 1,
        "prediction": "Sechs.",
        "delays": [1000],
        "elapsed": [1250],
        "source": ["ted_2.wav"],
        "source_length": 1000,
        "reference": "Sechs.",
    },
    {
        "index": 0,
        "prediction": "Eins zwei drei. Vier fünf.",
        "delays": [1000, 2000, 2000, 3000, 4000],
        "elapsed": [1500, 3000, 3000, 5000, 7000],
        "source": ["/far/away/ted_1.wav", "samplerate: 16000 Hz"],
        "source_length": 4000,
        "reference": "Eins zwei drei. Vier fünf.",
    },
)


@pytest.fixture
def files(here: Path) -> Path:
    """A small log of two talks and its references, in the current folder."""
    (here / "segments.yaml").write_text(YAML)
    (here / "references.txt").write_text(REFERENCES)
    save(here / "theirs.log", *STREAMS)
    return here


REPLAY = ("system=replay", "system.log=theirs.log", "logger=csv", "threads=1")
LONG_FORM = ("data=recorded", "data.segments=segments.yaml", "data.references=references.txt")


def save(path: Path, *records: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def results(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "results.json").read_text()))


def row_of(done: Result, folder: Path) -> dict[str, Any]:
    assert done.code == 0, done.err
    (row,) = results(folder)
    return row


def test_a_log_against_segments_without_any_audio(evaluate: Evaluate, files: Path) -> None:
    """StreamLAAL by hand: a segment's mean stops at the first word after its source's end."""
    done = evaluate(
        *REPLAY, *LONG_FORM, "system.name=theirs", "data.name=two", "hydra.run.dir=run", tiny=False
    )
    row = row_of(done, files / "run")
    assert {
        name: row[name]
        for name in ("system", "knob", "kind", "data", "source_language", "target_language")
    } == {
        "system": "theirs",
        "knob": None,
        "kind": "system",
        "data": "two",
        "source_language": "en",
        "target_language": "de",
    }
    assert row["scores"]["BLEU"] == pytest.approx(100)
    first = (0.75 + (1.75 - 0.5)) / 2
    second = (1.0 + (2.0 - 0.75)) / 2
    assert row["scores"]["StreamLAAL"] == pytest.approx((first + second + 1.0) / 3)
    assert "elapsed:cumulative" in row["signatures"]["StreamLAAL_CA"]
    assert row["settings"]["convention"] == "cumulative"
    assert (row["scores"].get("RTF"), row["scores"].get("AL")) == (None, None)
    assert "theirs" in done.out
    page = (files / "run" / "report.html").read_text()
    assert "ted_1" in page
    assert 'id="audio-0"' not in page
    assert "cumulative" in page
    log = [json.loads(line) for line in (files / "run" / row["instances"]).read_text().splitlines()]
    assert [record["elapsed"] for record in log] == [STREAMS[1]["elapsed"], STREAMS[0]["elapsed"]]
    assert "backbone" not in (files / "run" / "config.yaml").read_text()


def test_streamuni_has_its_references_in_its_log(evaluate: Evaluate, here: Path) -> None:
    """The streams and segments of the log above, in samples of a recording that starts earlier."""
    start, spans = 8000, ((0.25, 1.5), (2.0, 1.5))
    chunks = [
        {
            "chunk_start_time": start + round(offset * 16_000),
            "chunk_end_time": start + round((offset + duration) * 16_000),
            "source_text": "One.",
            "target_text": text,
        }
        for (offset, duration), text in zip(spans, REFERENCES.splitlines(), strict=False)
    ]
    words = zip(STREAMS[1]["prediction"].split(), STREAMS[1]["delays"], strict=True)
    emissions = [{"end_time": round(22.05 * at), "translation": word} for word, at in words]
    stream = {
        "audio_path": "en_de/ted_1.wav",
        "begin_time": start,
        "end_time": start + 4 * 16_000,
        "chunks": chunks,
        "inference_translation": emissions,
    }
    (here / "theirs.log").write_text(json.dumps([stream], indent=4))
    given = (*REPLAY, "system.format=streamuni", "data=recorded", "hydra.run.dir=run")
    row = row_of(evaluate(*given, tiny=False), here / "run")
    assert row["scores"]["BLEU"] == pytest.approx(100)
    first = (0.75 + (1.75 - 0.5)) / 2
    second = (1.0 + (2.0 - 0.75)) / 2
    assert row["scores"]["StreamLAAL"] == pytest.approx((first + second) / 2)
    assert row["scores"].get("StreamLAAL_CA") is None
    assert (here / "run" / row["instances"]).with_name("segments.src").read_text() == "One.\n" * 2


@pytest.mark.parametrize("factor", [1000, 0.001])
def test_a_unit_of_time_is_not_mistaken(evaluate: Evaluate, files: Path, factor: float) -> None:
    """Segments in milliseconds or kiloseconds: no score, one sentence."""
    for time in ("0.25", "1.5", "2.0"):
        text = (files / "segments.yaml").read_text()
        (files / "segments.yaml").write_text(text.replace(time, str(float(time) * factor)))
    done = evaluate(*REPLAY, *LONG_FORM, "hydra.run.dir=run", tiny=False)
    assert done.code == 2
    assert "of one of them in another unit?" in done.err
    assert "'ted_1'" in done.err


def test_sentences_with_their_own_references(evaluate: Evaluate, files: Path) -> None:
    """Without segments each stream is one sentence, as in SimulEval, or as in ``references``."""
    done = evaluate(*REPLAY, "data=recorded", "hydra.run.dir=own", tiny=False)
    row = row_of(done, files / "own")
    headings = {word for line in done.out.splitlines()[:3] for word in line.split()}
    assert {"AL", "LAAL", "LAAL_CA", "AP", "DAL", "ATD"} <= headings
    assert {"AL", "LAAL", "AP", "DAL", "ATD", "YAAL", "StreamLAAL"} <= set(row["scores"])
    assert row["scores"]["BLEU"] == pytest.approx(100)
    assert "reseg" not in row["signatures"]["BLEU"]
    laal = sum(delay - place * 4 / 5 for place, delay in enumerate((1, 2, 2, 3, 4))) / 5
    assert row["scores"]["LAAL"] == pytest.approx((laal + 1.0) / 2)
    (files / "other.txt").write_text("Eins zwei.\nSieben.\n")
    given = ("data=recorded", "data.references=other.txt", "hydra.run.dir=other")
    assert row_of(evaluate(*REPLAY, *given, tiny=False), files / "other")["scores"]["BLEU"] < 50


def test_rules_and_resegmentation_reach_the_scores(evaluate: Evaluate, files: Path) -> None:
    options = (
        "evaluation.rules=omnisteval",
        "evaluation.resegmentation=soft",
        "evaluation.talks=1",
        "seed=1",
    )
    row = row_of(
        evaluate(*REPLAY, *LONG_FORM, *options, "hydra.run.dir=run", tiny=False), files / "run"
    )
    assert "length:omnisteval|reseg:soft" in row["signatures"]["LongYAAL"]
    assert (row["settings"]["rules"], row["settings"]["talks"]) == ("omnisteval", 1)


def test_segments_by_meaning(
    evaluate: Evaluate, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The encoder assigns the words of the log, and signatures name it."""
    encoder = save_encoder(tmp_path_factory.mktemp("tiny-encoder"), positions=512)
    options = ("evaluation.resegmentation=meaning", f"evaluation.encoder={encoder}")
    layer = "evaluation.encoder_layer=2"
    done = evaluate(*REPLAY, *LONG_FORM, *options, layer, "hydra.run.dir=run", tiny=False)
    row = row_of(done, files / "run")
    name = f"{Path(encoder).name}, layer 2"
    assert f"reseg:meaning({name})" in row["signatures"]["LongYAAL"]
    assert (row["settings"]["resegmentation"], row["settings"]["encoder"]) == ("meaning", name)
    # The words of the log are those of the references, whose vectors are similar.
    assert row["scores"]["BLEU"] == pytest.approx(100)


def test_simulstream_follows_any_convention(evaluate: Evaluate, files: Path) -> None:
    """Its log has chunk times, so the wanted convention holds and there is a real time factor."""
    lines: list[dict[str, Any]] = [{"id": 7, "metadata": {"wav_name": "ted_2.wav"}}]
    for end, token in ((0.5, "\u2581Se"), (1.0, "chs.")):
        times = {"total_audio_processed": end, "computation_time": 0.1}
        lines.append({"id": 7, **times, "generated_tokens": [token], "deleted_tokens": []})
    save(files / "theirs.log", *lines)
    (files / "segments.yaml").write_text(YAML.splitlines()[2])
    (files / "references.txt").write_text("Sechs.\n")
    options = ("system.format=simulstream", "evaluation.convention=chunk", "hydra.run.dir=run")
    row = row_of(evaluate(*REPLAY, *LONG_FORM, *options, tiny=False), files / "run")
    assert (row["scores"]["RTF"], row["settings"]["convention"]) == (pytest.approx(0.2), "chunk")
    assert row["scores"]["StreamLAAL_CA"] == pytest.approx(1.1)


def test_a_replayed_log_and_our_system_share_a_table(
    evaluate: Evaluate, files: Path, mustc: list[str], model: Path
) -> None:
    """One table for both; a log may hold further talks; audio stays on the page."""
    ours = json.dumps([*TINY, f"backbone.checkpoint={model}"])
    entries = f'compare={{ours:{ours},theirs:["system=replay","system.log=theirs.log"]}}'
    options = (
        "evaluation.knob_values=[1]",
        "evaluation.talks=1",
        "evaluation.upper_bound=false",
        "logger=csv",
    )
    done = evaluate(*mustc, *options, entries, "hydra.run.dir=run", tiny=False)
    assert done.code == 0, done.err
    ours_row, theirs = results(files / "run")
    assert (ours_row["system"], theirs["system"], theirs["data"]) == ("ours", "theirs", "mustc")
    assert (ours_row["settings"]["convention"], theirs["settings"]["convention"]) == (
        "queue",
        "cumulative",
    )
    assert theirs["scores"]["BLEU"] == pytest.approx(100)
    assert 'id="audio-0"' in (files / "run" / "report.html").read_text()


@pytest.mark.parametrize("view", ["talks", "segments"])
def test_our_own_log_gives_our_own_scores(
    view: str, evaluate: Evaluate, mustc: list[str], here: Path
) -> None:
    options = (f"evaluation.view={view}", "evaluation.upper_bound=false")
    ours = row_of(
        evaluate(*mustc, *options, "evaluation.knob_values=[1]", "hydra.run.dir=ours"),
        here / "ours",
    )
    log = f"system.log=ours/{ours['instances']}"
    again = row_of(
        evaluate(
            "system=replay", log, "logger=csv", *mustc, *options, "hydra.run.dir=b", tiny=False
        ),
        here / "b",
    )
    assert again["scores"] == {
        name: pytest.approx(value, abs=1e-5) for name, value in ours["scores"].items()
    }
    assert again["signatures"] == ours["signatures"]
    own = ours["settings"].keys() - again["settings"].keys()
    assert own == {
        "compute",
        "ranks",
        "streaming_seconds",
        "weights",
        "parameters",
    }
    assert again["settings"].items() <= ours["settings"].items()


MISTAKES = {
    "system.log=none.log": "There is no file none.log.",
    "system.log=null": "needs system.log",
    "system.log=segments.yaml": "segments.yaml, line 1, is not JSON",
    "system.format=omnisteval": "is this an OmniSTEval instances.resegmented.jsonl?",
    "system.format=simulstream": "theirs.log has no line with metadata; is this a simulstream log?",
    "system.format=csv": (
        "system.format must be one of simuleval, omnisteval, simulstream, streamuni, not 'csv'."
    ),
    "target_language=zh": "theirs.log, line 1: talk 'ted_2' has",
    "data.segments=none.yaml": "There is no file none.yaml.",
    "data.segments=references.txt": "is not a list of segments with offset, duration and wav.",
    "data.references=null": "data.segments needs data.references",
    "data.references=segments2.yaml": "There is no file segments2.yaml.",
    "data.segments=null": "theirs.log has 2 streams but references.txt has 3 lines.",
    "data.segments=fewer.yaml data.references=fewer.txt": (
        "Talk 'ted_2' of 'replay' has no reference; the talks with references are: ted_1."
    ),
    "system.log=fewer.log": "The log of 'replay' has no talk 'ted_1'; it has: ted_2.",
    "system.log=twice.log": "twice.log has index 0 twice: two runs were written to one log.",
    "system.log=same.log": "The log of 'replay' has talk 'ted_2' twice",
    "evaluation.rules=nonsense": (
        "Unknown counting rules 'nonsense'; choose one of: zoo, simuleval, fbk_v1,"
    ),
    "backbone.search.beams=4": "backbone",
    "system.log=[theirs.log]": "system.log must be text or null, not ['theirs.log'].",
    "system.log={a:theirs.log}": "system.log must be text or null, not {'a': 'theirs.log'}.",
    "system.log=3": "system.log must be text or null, not 3.",
    "data.references=''": "data.references of data=recorded is blank; write a path or null.",
    "data.sources=''": "data.sources of data=recorded is blank; write a path or null.",
    # what nothing would read
    "backbone=whisper": "backbone=whisper has no effect: there is no backbone in 'replay'",
    "policy=alignatt": "policy=alignatt has no effect: there is no policy in 'replay'",
    "history=punctuation": "history=punctuation has no effect: there is no history in 'replay'",
    "synthesizer=espeak": "synthesizer=espeak has no effect: there is no synthesizer in 'replay'",
    "context=glossary": "context=glossary has no effect: there is no context in 'replay'",
    "trainer=evaluate": "trainer=evaluate has no effect: 'replay' is recorded; leave it out.",
    "evaluation.knob_values=[1]": "The recorded log 'replay' has no latency knob; leave",
    'compare={a:["system=replay","system.log=theirs.log","policy=alignatt"]}': (
        "policy=alignatt has no effect: there is no policy in 'a'; leave it out."
    ),
}


@pytest.mark.parametrize("given", MISTAKES)
def test_an_error_is_one_sentence(given: str, evaluate: Evaluate, files: Path) -> None:
    (files / "fewer.yaml").write_text("".join(YAML.splitlines(keepends=True)[:2]))
    (files / "fewer.txt").write_text("".join(REFERENCES.splitlines(keepends=True)[:2]))
    save(files / "fewer.log", STREAMS[0])
    save(files / "twice.log", STREAMS[1], STREAMS[1])
    save(files / "same.log", STREAMS[0], {**STREAMS[0], "index": 0})
    before = sorted(files.iterdir())
    done = evaluate(*REPLAY, *LONG_FORM, *given.split(), tiny=False)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
    assert MISTAKES[given] in done.err
    assert sorted(files.iterdir()) == before


def test_a_system_needs_audio(evaluate: Evaluate, files: Path) -> None:
    done = evaluate(*LONG_FORM)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "Talk 'ted_1' has no audio; data=recorded needs system=replay." in done.err


def test_references_alone_are_nothing_to_stream(evaluate: Evaluate, files: Path) -> None:
    done = evaluate("data=recorded")
    assert (
        "error: data=recorded needs data.segments and data.references, or system=replay" in done.err
    )


def characters(index: int, talk: str, text: str) -> dict[str, Any]:
    """A line as SimulEval writes it for an InfiniSST into Chinese: a delay per character.

    A sentence is written in the turn at 960 ms, the rest in the one at the end.
    """
    first = text.index("。") + 1
    delays = [960.0] * first + [3840.0] * (len(text) - first)
    facts = ["samplerate: 16000 Hz", "channels: 1", "format: WAV (Microsoft) [WAV]"]
    return {
        "index": index,
        "prediction": text,
        "delays": delays,
        "elapsed": [delay * 1.25 for delay in delays],
        "prediction_length": len(text),
        "reference": "大家好。 我是 Elena。",
        "source": [f"/data/acl6060/dev/full_wavs/{talk}.wav", *facts],
        "source_length": 3840.0,
    }


def test_a_log_of_infinisst_in_characters(evaluate: Evaluate, here: Path) -> None:
    """Talks in another order than the segments, Latin names without spaces."""
    texts = {"2022.acl-long.268": "大家好。我是Elena", "2022.acl-long.110": "你好。这是Jiawei"}
    records = [characters(index, talk, text) for index, (talk, text) in enumerate(texts.items())]
    save(here / "theirs.log", *records)
    spans = [
        f"- {{duration: 1.9, offset: {offset}, speaker_id: {talk}, wav: {talk}.wav}}\n"
        for talk in sorted(texts)
        for offset in (0.0, 1.91)
    ]
    (here / "segments.yaml").write_text("".join(spans))
    (here / "references.txt").write_text("你好。\n这是 Jiawei。\n大家好。\n我是 Elena。\n")
    given = (*LONG_FORM, "target_language=zh", "evaluation.rules=simuleval", "hydra.run.dir=run")
    row = row_of(evaluate(*REPLAY, *given, tiny=False), here / "run")
    segments = (here / "run" / row["instances"]).with_name("segments.jsonl")
    found = {
        (line["talk"], line["segment"]): "".join(line["hypothesis"].split())
        for line in map(json.loads, segments.read_text(encoding="utf-8").splitlines())
    }
    assert found["2022.acl-long.268", 0] == "大家好。"
    assert found["2022.acl-long.268", 1] == "我是Elena"
    assert found["2022.acl-long.110", 1] == "这是Jiawei"
    assert "tok:zh" in row["signatures"]["BLEU"]
    # By hand, with n characters in the segment and r in its reference, spaces included, in seconds:
    # 0.96 - 1.9 / max(n, r) * (n - 1) / 2 for the first segments (n = r of 4 and 3); the first
    # character of the second ones, at 3.84 - 1.91 = 1.93, comes after the end of their 1.9 s.
    expected = [0.96 - 1.9 / 4 * 1.5, 0.96 - 1.9 / 3 * 1.0, 1.93, 1.93]
    assert row["scores"]["StreamLAAL"] == pytest.approx(sum(expected) / 4)


def published(path: Path) -> dict[str, float]:
    names, values = path.read_text(encoding="utf-8").strip().split("\n")[-2:]
    return dict(zip(names.split("\t"), map(float, values.split("\t")), strict=True))


@pytest.fixture
def no_audio(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*given: Any, **more: Any) -> Any:
        raise AssertionError("no audio must be read")

    monkeypatch.setattr(audio, "load", forbidden)


@recorded_logs
@pytest.mark.usefixtures("no_audio")
@pytest.mark.parametrize(
    ("folder", "target"), [("iwslt25_acl6060_de_cascade", "de"), ("iwslt25_acl6060_zh_fixed", "zh")]
)
def test_published_scores_of_whole_talks(
    folder: str, target: str, evaluate: Evaluate, here: Path
) -> None:
    given = (
        f"system.log={LOGS / folder / 'instances.log'}",
        "data=recorded",
        f"data.segments={LOGS / folder / 'segments.yaml'}",
        f"data.references={LOGS / folder / 'references.txt'}",
        f"target_language={target}",
        "evaluation.rules=simuleval",
        "hydra.run.dir=run",
    )
    row = row_of(evaluate(*REPLAY, *given, tiny=False), here / "run")
    expected = published(LOGS / folder / "scores.resegmented.tsv")
    assert set(expected) == {"BLEU", "StreamLAAL", "StreamLAAL_CA"}
    for name, value in expected.items():
        assert row["scores"][name] * (1 if name == "BLEU" else 1000) == pytest.approx(
            value, rel=1e-6
        ), name
    assert row["settings"]["talks"] == 5


@recorded_logs
@pytest.mark.usefixtures("no_audio")
@pytest.mark.parametrize(
    ("folder", "target"), [("iwslt25_acl6060_de_cascade", "de"), ("iwslt25_acl6060_zh_fixed", "zh")]
)
def test_published_sentence_scores_need_the_log_alone(
    folder: str, target: str, evaluate: Evaluate, here: Path
) -> None:
    given = (
        f"system.log={LOGS / folder / 'instances.log'}",
        f"target_language={target}",
        "evaluation.rules=simuleval",
    )
    row = row_of(
        evaluate(*REPLAY, *given, "data=recorded", "hydra.run.dir=run", tiny=False), here / "run"
    )
    expected = published(LOGS / folder / "scores.tsv")
    assert set(expected) == {"BLEU", "LAAL", "AL", "AP", "DAL", "ATD"}
    if target == "zh":
        del expected[
            "BLEU"
        ]  # was made with a tokenizer for European languages; ours is the one for Chinese
    for name, value in expected.items():
        ours = row["scores"][name] * (1 if name in ("BLEU", "AP") else 1000)
        assert ours == pytest.approx(value, abs=5.01e-4, rel=0), name


@recorded_logs
@pytest.mark.usefixtures("no_audio")
def test_published_scores_of_omnisteval(evaluate: Evaluate, here: Path) -> None:
    folder = LOGS / "omnisteval_speech"
    given = (
        f"system.log={folder / 'instances.log'}",
        "data=recorded",
        f"data.segments={folder / 'ref_segments.yaml'}",
        f"data.references={folder / 'references.txt'}",
        "evaluation.rules=omnisteval",
        "evaluation.resegmentation=soft",
    )
    row = row_of(evaluate(*REPLAY, *given, "hydra.run.dir=run", tiny=False), here / "run")
    lines = (
        (folder / "segmentation_output" / "scores.tsv")
        .read_text(encoding="utf-8")
        .strip()
        .split("\n")[1:]
    )
    assert len(lines) == 12
    for name, value in (line.split("\t") for line in lines):
        score = row["scores"][name.replace(" (CU)", "").replace(" (CA)", "_CA")]
        plain = name in ("BLEU", "chrF") or "AP" in name
        assert score * (1 if plain else 1000) == pytest.approx(float(value), abs=1e-4, rel=0), name


def test_a_log_has_no_trainer_and_may_be_the_first_of_a_comparison(
    evaluate: Evaluate, files: Path
) -> None:
    done = evaluate(*REPLAY, *LONG_FORM, "trainer.devices=2", tiny=False)
    assert (done.code, "Unknown key 'trainer'" in done.err) == (2, True), done

    ours, theirs = 'ours:["system=infinisst"]', 'theirs:["system.log=theirs.log"]'
    done = evaluate("system=replay", *LONG_FORM, f"compare={{{ours},{theirs}}}", tiny=False)
    assert "Talk 'ted_1' has no audio" in done.err, done  # found after the configurations
    other = 'other:["system=infinisst","trainer.devices=2"]'
    done = evaluate("system=replay", *LONG_FORM, f"compare={{{ours},{other}}}", tiny=False)
    assert "compare.other sets trainer, which all systems share" in done.err, done
