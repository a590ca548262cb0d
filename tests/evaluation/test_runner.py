"""A scripted system over talks: rows, files, flags and the page, by hand."""

import gc
import json
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch

from tests.contract.scripted import FRAME, WORD_FRAMES, TurnTaker, speak, text_of
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.base.types import SAMPLE_RATE, Capability, Hypothesis, Request
from zoo.data import manifest
from zoo.evaluation.runner import Evaluator
from zoo.evaluation.settings import Settings, knob_values
from zoo.formats.logs import read_log
from zoo.history.base import History
from zoo.history.keep_all import KeepAll
from zoo.history.reference_segments import ReferenceSegments
from zoo.policies.turn_taking import TurnTaking
from zoo.streaming.session import Session, empty_token_ids
from zoo.systems.base import StreamingSystem
from zoo.systems.system import Knob

EN, DE = language("en"), language("de")
WORD = WORD_FRAMES * FRAME / SAMPLE_RATE  # seconds
WORDS = ((1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11))  # two segments with a silent word after each


class Silent(TurnTaker):
    """Receives all audio and writes nothing."""

    def answer(
        self, session: Session, request: Request, needs: frozenset[Capability]
    ) -> Hypothesis:
        super().answer(session, request, needs)
        return Hypothesis(empty_token_ids(), empty_token_ids().bool(), finished=True)


class Late(TurnTaker):
    """Writes all words at the end of the source."""

    def answer(
        self, session: Session, request: Request, needs: frozenset[Capability]
    ) -> Hypothesis:
        if session.must_flush:
            return super().answer(session, request, needs)
        return Hypothesis(
            empty_token_ids(),
            torch.zeros(session.prefix_ids.numel()).bool(),
            session.prefix_ids.numel(),
        )


class Counting(TurnTaker):
    """Counts its streams."""

    def __init__(self) -> None:
        super().__init__()
        self.streams = 0

    def open(self, session: Session) -> Any:
        self.streams += 1
        return super().open(session)


def system(backbone: TurnTaker, **options: Any) -> StreamingSystem:
    return StreamingSystem(
        name="scripted",
        backbone=backbone,
        policy=TurnTaking(),
        source_language="en",
        target_language="de",
        chunk_seconds=WORD,
        **{"history": KeepAll(), "knob": Knob("m", "latency_multiplier", (1, 3)), **options},
    )


def talk(folder: Path, name: str) -> Talk:
    """WORDS with a pause after each segment, in a WAV file of floats."""
    segments, spoken = [], []
    for words in WORDS:
        offset = len(spoken) * WORD
        times = tuple(
            Word(str(w), offset + i * WORD, offset + (i + 1) * WORD) for i, w in enumerate(words)
        )
        target = {"de": Target(text_of(words))}
        segments.append(
            Segment(offset, len(words) * WORD, " ".join(map(str, words)), times, target)
        )
        spoken += [*words, 0]
    path = folder / f"{name}.wav"
    soundfile.write(path, speak(spoken).numpy(), SAMPLE_RATE, subtype="FLOAT")
    return Talk(name, path, len(spoken) * WORD, "en", tuple(segments))


@pytest.fixture
def talks(tmp_path: Path) -> list[Talk]:
    return [talk(tmp_path, "one"), talk(tmp_path, "two")]


def evaluator(talks: Sequence[Talk], folder: Path, **settings: Any) -> Evaluator:
    return Evaluator(corpus="script", talks=talks, settings=Settings(**settings), folder=folder)


def test_logs_stay_in_the_run_folder_whatever_a_system_is_called(
    talks: list[Talk], tmp_path: Path
) -> None:
    named = system(TurnTaker())
    named.name = "a/../../../b c"
    row = next(evaluator(talks, tmp_path / "run").run(named))
    assert row.instances == "instances/00-a-..-..-..-b-c-m1/instances.log"
    assert (tmp_path / "run" / row.instances).is_file()


def test_rows_come_in_order_and_results_grow_with_them(talks: list[Talk], tmp_path: Path) -> None:
    evaluated = evaluator(talks, tmp_path, oracle_k=(1, 2))
    rows, sizes = [], []
    for row in evaluated.run(system(TurnTaker())):
        rows.append(row)
        sizes.append(len(json.loads((tmp_path / "results.json").read_text())))
    rows += evaluated.oracles(DE, EN)
    assert [(row.system, row.knob.value if row.knob else None, row.kind) for row in rows] == [
        ("scripted", 1, "system"),
        ("scripted", 3, "system"),
        ("scripted offline", None, "ceiling"),
        ("wait-k oracle", 1, "oracle"),
        ("wait-k oracle", 2, "oracle"),
    ]
    assert sizes == [1, 2, 3]
    assert evaluated.rows == rows
    assert [row.instances for row in rows] == [
        f"instances/{name}/instances.log"
        for name in (
            "00-scripted-m1",
            "01-scripted-m3",
            "02-scripted-offline",
            "03-wait-k-oracle-k1",
            "04-wait-k-oracle-k2",
        )
    ]
    assert all(not row.flags for row in rows), [row.flags for row in rows]


def test_scores_of_a_system_that_is_always_right(talks: list[Talk], tmp_path: Path) -> None:
    """Each word is written in the chunk that ends it, as by the wait-1 oracle."""
    evaluated = evaluator(talks, tmp_path, oracle_k=(1,))
    one, three, ceiling = evaluated.run(system(TurnTaker()))
    (oracle,) = evaluated.oracles(DE, EN)
    assert [row.scores["BLEU"] for row in (one, three, ceiling, oracle)] == pytest.approx([100] * 4)
    assert (
        one.scores["StreamLAAL"]
        == pytest.approx(oracle.scores["StreamLAAL"])
        == pytest.approx(WORD)
    )
    assert three.scores["StreamLAAL"] > WORD + 0.5 * WORD
    assert one.scores["StreamLAAL_CA"] > one.scores["StreamLAAL"]
    (stream, other) = read_log(tmp_path / one.instances, language=DE)
    assert stream.delays == pytest.approx([WORD * i for i in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12)])
    assert (stream.talk, other.talk) == ("one", "two")
    assert stream.reference == f"{text_of(WORDS[0])} {text_of(WORDS[1])}"
    assert stream.text == stream.reference


def test_a_row_is_warmed_up_and_only_the_offline_row_has_a_batch(
    talks: list[Talk], tmp_path: Path
) -> None:
    backbone = Counting()
    rows = evaluator(talks, tmp_path, offline_batch_size=3).run(system(backbone, knob=None))
    row = next(rows)
    assert backbone.streams == 1 + len(talks)  # the first one is a warm-up
    assert set(backbone.batches) == {1}
    assert sum(row.stages.values()) == pytest.approx(row.scores["RTF"], abs=1e-5)
    assert row.settings.compute is not None
    assert row.settings.compute.cores >= 1
    ceiling = next(rows)
    assert backbone.streams == 1 + len(talks) + len(WORDS) * len(talks)
    assert max(backbone.batches) == 3
    assert ceiling.scores["BLEU"] == pytest.approx(100)


def test_the_page_gets_every_stream_with_its_segments(talks: list[Talk], tmp_path: Path) -> None:
    evaluated = evaluator(talks, tmp_path, knob_values=[3], upper_bound=False)
    list(evaluated.run(system(TurnTaker())))
    streams = evaluated.streams
    assert [(stream.row, stream.talk.name) for stream in streams] == [(0, "one"), (0, "two")]
    assert [(s.source, s.reference, s.hypothesis) for s in streams[1].segments] == [
        (" ".join(map(str, words)), text_of(words), text_of(words)) for words in WORDS
    ]
    assert [segment.offset for segment in streams[0].segments] == pytest.approx([0, 6 * WORD])


@pytest.mark.parametrize(
    ("backbone", "flag"),
    [
        (Silent, "writes nothing for 2 of 2 streams (one)"),
        (Late, "writes 100 % of its 22 units at the end"),
    ],
)
def test_a_degenerate_system_is_flagged(
    backbone: type[TurnTaker], flag: str, talks: list[Talk], tmp_path: Path
) -> None:
    (row,) = evaluator(talks, tmp_path, knob_values=[1], upper_bound=False).run(system(backbone()))
    assert flag in row.flags
    assert json.loads((tmp_path / "results.json").read_text())[0]["flags"] == list(row.flags)


def test_segments_one_by_one(talks: list[Talk], tmp_path: Path) -> None:
    evaluated = evaluator(talks, tmp_path, view="segments", knob_values=[1])
    row, ceiling = evaluated.run(system(TurnTaker()))
    assert len(read_log(tmp_path / row.instances, language=DE)) == 4
    assert row.scores["LAAL"] == pytest.approx(WORD)
    assert row.settings.talks == 4
    assert ceiling.scores["BLEU"] == pytest.approx(100)
    assert row.has_reference_segments
    assert not ceiling.has_reference_segments


def test_a_row_states_that_its_history_received_reference_segments(
    talks: list[Talk], tmp_path: Path
) -> None:
    class Informed(ReferenceSegments):
        needs = frozenset()
        onset = History.onset
        boundary = History.boundary

    informed = system(TurnTaker(), history=Informed())
    rows = list(evaluator(talks, tmp_path, knob_values=[1]).run(informed))
    assert [row.has_reference_segments for row in rows] == [True, False]
    assert [talk.name for talk in manifest.read(tmp_path / "talks.jsonl")] == ["one", "two"]


def test_talks_without_word_times_have_no_oracle(talks: list[Talk], tmp_path: Path) -> None:
    bare = [
        replace(one, segments=tuple(replace(s, words=()) for s in one.segments)) for one in talks
    ]
    assert list(evaluator(bare, tmp_path).oracles(DE, EN)) == []


def test_a_system_without_a_knob_has_one_row(talks: list[Talk], tmp_path: Path) -> None:
    still = system(TurnTaker(), knob=None, latency_multiplier=2)
    (row,) = evaluator(talks, tmp_path, upper_bound=False).run(still)
    assert (row.system, row.knob, row.instances) == (
        "scripted",
        None,
        "instances/00-scripted/instances.log",
    )
    with pytest.raises(ZooError, match=r"has no latency knob; leave evaluation\.knob_values out"):
        knob_values(still, Settings(knob_values=[1]))


def test_a_finished_system_can_be_freed(talks: list[Talk], tmp_path: Path) -> None:
    evaluated = evaluator(talks, tmp_path)
    finished = system(TurnTaker())
    network = weakref.ref(finished.backbone)
    list(evaluated.run(finished))
    del finished
    gc.collect()
    assert network() is None


def test_knob_values() -> None:
    assert knob_values(system(TurnTaker()), Settings()) == [1, 3]
    assert knob_values(system(TurnTaker()), Settings(knob_values=[5])) == [5]
    ratio = system(TurnTaker(), knob=Knob("ratio", "latency_multiplier", (0.5, 1.5), least=0.1))
    assert knob_values(ratio, Settings(knob_values=[0.25])) == [0.25]
    with pytest.raises(ZooError, match=r"^Knob ratio must be a number of at least 0\.1, not 0\.$"):
        knob_values(ratio, Settings(knob_values=[0]))
    with pytest.raises(
        ZooError, match=r"^Knob m must be a whole number of at least 1, not 2\.5\.$"
    ):
        system(TurnTaker()).turn_knob(2.5)
