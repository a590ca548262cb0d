"""Talks without references: scores, table, page and logs leave out what needs them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile
import torch
from torch import Tensor

from tests.contract.scripted import FRAME, WORD_FRAMES, TurnTaker, speak, text_of
from tests.evaluation.conftest import Evaluate
from zoo.apps.report import main as join
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import SAMPLE_RATE, Instance, SpeechOutput
from zoo.data.views import View
from zoo.evaluation.runner import NO_REFERENCES, Evaluator
from zoo.evaluation.scorer import Scorer
from zoo.evaluation.settings import Settings
from zoo.evaluation.speech import SpeechModels
from zoo.evaluation.talks import check_talks
from zoo.history.keep_all import KeepAll
from zoo.metrics.quality import ChrF
from zoo.metrics.unreferenced import segments_by_time
from zoo.policies.turn_taking import TurnTaking
from zoo.report.payload import payload
from zoo.runs.results import joint_curves, latency, summary, table_scores
from zoo.systems.base import StreamingSystem

WORD = WORD_FRAMES * FRAME / SAMPLE_RATE  # seconds
WORDS = [1, 2, 3, 4, 5, 6]
EN, DE = language("en"), language("de")


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """Six words in two segments, without references."""
    path = tmp_path / "talk.wav"
    soundfile.write(path, speak(WORDS).numpy(), SAMPLE_RATE, subtype="FLOAT")
    segments = (Segment(0.0, 4 * WORD, "1 2 3 4"), Segment(4 * WORD, 2 * WORD, "5 6"))
    return Talk("talk", path, 6 * WORD, "en", segments)


def evaluated(talk: Talk, folder: Path, view: View = "talks") -> Evaluator:
    system = StreamingSystem(
        name="scripted",
        backbone=TurnTaker(),
        policy=TurnTaking(),
        history=KeepAll(),
        source_language="en",
        target_language="de",
        chunk_seconds=2 * WORD,
    )
    settings = Settings(view=view, metrics={"chrF2": ChrF()})
    evaluator = Evaluator(corpus="folder", talks=[talk], settings=settings, folder=folder)
    rows = [*evaluator.run(system), *evaluator.oracles(DE, EN)]
    assert [row.kind for row in rows] == ["system"]
    return evaluator


def test_offsets_and_speed_are_scored_and_nothing_else(talk: Talk, tmp_path: Path) -> None:
    evaluator = evaluated(talk, tmp_path / "run")
    [row] = evaluator.rows
    assert set(row.scores) == {"StartOffset", "StartOffset_CA", "EndOffset", "EndOffset_CA", "RTF"}
    assert (row.scores["StartOffset"], row.scores["EndOffset"]) == pytest.approx((2 * WORD, 0.0))
    assert row.flags == ()
    assert evaluator.notes == [NO_REFERENCES]
    folder = (tmp_path / "run" / row.instances).parent
    assert not (folder / "segments.ref").exists()
    [first, _] = (folder / "segments.jsonl").read_text().split("\n")[:-1]
    assert json.loads(first)["scores"] == {}


def test_the_page_shows_what_was_written_in_the_time_of_each_segment(
    talk: Talk, tmp_path: Path
) -> None:
    evaluator = evaluated(talk, tmp_path / "run")
    [stream] = evaluator.streams
    assert [segment.source for segment in stream.segments] == ["1 2 3 4", "5 6"]
    # words 3 and 4 are written at the moment at which the second segment begins
    assert [segment.hypothesis for segment in stream.segments] == [
        text_of(WORDS[:2]),
        text_of(WORDS[2:]),
    ]
    [drawn] = payload(evaluator.rows, [stream])["streams"]
    assert drawn["marks"] == ["==", "===="]
    assert drawn["lags"] == [None] * 6


def test_the_summary_and_the_axis_in_wandb_are_scores_that_exist(
    talk: Talk, tmp_path: Path
) -> None:
    [row] = evaluated(talk, tmp_path / "run").rows
    assert latency(row) in row.scores
    assert set(table_scores(row)) == set(row.scores)
    assert joint_curves([row]) == {}
    assert summary([row])["tst/en-de/best"] == "scripted"


def test_sentences_have_the_latencies_that_need_no_reference(talk: Talk, tmp_path: Path) -> None:
    [row] = evaluated(talk, tmp_path / "run", view="segments").rows
    assert row.scores["ATD"] is not None
    assert row.scores["DAL"] is not None
    assert not {"LAAL", "AL", "BLEU", "chrF2"} & set(row.scores)


class Digits:
    """A recogniser that transcribes all speech as one word."""

    name = "digits"
    language: str | None = None

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        return ["one" for _ in waves]


def test_target_speech_is_compared_with_its_text_alone(talk: Talk) -> None:
    speech = (SpeechOutput(torch.ones(SAMPLE_RATE), 1.0, 1.0, 0, "one two"),)
    instance = Instance(
        0, "talk", 2.0, "one two", ("one", "two"), (1.0, 1.0), (1.0, 1.0), speech=speech
    )
    models = SpeechModels(recognisers={"de": Digits()})
    scorer = Scorer(Settings(), models.scorer(Settings(), [talk]))
    scored = scorer.streamed([instance], [talk], DE, with_speech=True)
    assert scored.scores["SpeechWER"].value == 50.0
    assert {"StartOffset", "SpeechOverlap"} <= set(scored.scores)
    assert not {"ASR_BLEU", "ASR_WER", "BLEU"} & set(scored.scores)
    assert len(scored.transcripts) == 1


def test_units_before_the_first_segment_belong_to_it() -> None:
    instance = Instance(0, "t", 4.0, "a b c", ("a", "b", "c"), (0.5, 1.5, 4.0), (), unit="word")
    first, second = segments_by_time(instance, [(1.0, 1.0), (2.0, 2.0)])
    assert (first.hypothesis, first.delays) == ("a b", (-0.5, 0.5))
    assert (second.hypothesis, second.delays) == ("c", (2.0,))


def test_all_talks_have_references_or_none(talk: Talk) -> None:
    check_talks([talk], source=EN, target=DE)
    translated = tuple(replace(one, targets={"de": Target("x")}) for one in talk.segments)
    other = replace(talk, name="other", segments=translated)
    with pytest.raises(ZooError, match="Talk 'talk' has no reference in 'de'; it has: no ref"):
        check_talks([talk, other], source=EN, target=DE)
    with pytest.raises(ZooError, match=r"Two talks have the name 'talk', in .*talk\.wav"):
        check_talks([talk, talk], source=EN, target=DE)


def test_a_folder_of_audio_is_evaluated(evaluate: Evaluate, corpus: Path, here: Path) -> None:
    wav = corpus / "en-de" / "data" / "tst-COMMON" / "wav"
    given = ["data=folder", f"data.root={wav}", "evaluation.knob_values=[1,2]"]
    done = evaluate(*given, "metric=[ter]", "hydra.run.dir=run")
    assert done.code == 0, done.err
    assert "Offset_CA" in done.out
    assert "BLEU" not in done.out
    assert NO_REFERENCES in done.out
    rows = json.loads((here / "run" / "results.json").read_text())
    assert [(row["kind"], row["data"]) for row in rows] == [("system", "folder")] * 2
    assert not any("BLEU" in row["scores"] for row in rows)
    page = (here / "run" / "report.html").read_text()
    assert "the talks have no references" in page
    assert not (here / "run" / "curves.png").exists()
    join(["run", "--output", "joined"])
    assert "the talks have no references" in (here / "joined" / "report.html").read_text()
    refused = evaluate(*given, "evaluation.significance=[bootstrap]", "hydra.run.dir=other")
    assert (refused.code, (here / "other").exists()) == (2, False)
    assert "evaluation.significance compares scores with references" in refused.err

    (wav / "ted_1.en.srt").write_text("1\n00:00:01,000 --> 00:00:00,500\nEins.\n")
    refused = evaluate(*given, "hydra.run.dir=other")
    assert (refused.code, (here / "other").exists()) == (2, False)
    [sentence] = refused.err.strip().split("\n")
    assert "ted_1.en.srt, line 2: a segment lasts from 1.00 to 0.50 s" in sentence
