"""Files and page entries of a system with speech output."""

from pathlib import Path

import pytest
import torch

from tests.contract.scripted import TurnTaker
from tests.evaluation.test_runner import DE, evaluator, system, talk
from tests.evaluation.test_speaking import Pronouncer
from zoo.base.audio import files as audio
from zoo.evaluation.runner import Evaluator
from zoo.formats.logs import read_log
from zoo.report.payload import payload
from zoo.streaming.playback import playback_intervals
from zoo.streaming.waveforms import timeline


@pytest.fixture
def evaluated(tmp_path: Path) -> Evaluator:
    """Two talks through a system with speech output, and its upper bound."""
    speech_evaluator = evaluator(
        [talk(tmp_path, "one"), talk(tmp_path, "two")], tmp_path, knob_values=[1]
    )
    assert len(list(speech_evaluator.run(system(TurnTaker(), synthesizer=Pronouncer())))) == 2
    return speech_evaluator


def test_the_speech_of_every_row_is_read_again_from_its_files(evaluated: Evaluator) -> None:
    row, ceiling = evaluated.rows
    for found, count in ((row, 2), (ceiling, 4)):
        again = read_log(evaluated.scored.folder / found.instances, language=DE)
        assert len(again) == count
        assert all(instance.speech for instance in again)
    [first, _] = read_log(evaluated.scored.folder / row.instances, language=DE)
    assert [spoken.text for spoken in first.speech] == list(first.units)  # a word per write
    assert [spoken.delay for spoken in first.speech] == list(first.delays)
    target = audio.load(
        (evaluated.scored.folder / row.instances).parent / "speech" / "one.target.wav"
    )
    assert torch.equal(target, timeline(first))


def test_the_page_gets_the_times_and_the_addresses_but_no_sound(evaluated: Evaluator) -> None:
    row = evaluated.rows[0]
    [stream, _] = evaluated.streams
    assert (
        sum(spoken.samples.untyped_storage().nbytes() for spoken in stream.instance.speech)
        <= 4 * 11
    )
    shown = payload(evaluated.rows, evaluated.streams)["streams"][0]["speech"]
    assert (evaluated.scored.folder / shown["target"]).is_file()
    assert (evaluated.scored.folder / shown["both"]).is_file()
    [instance, _] = read_log(evaluated.scored.folder / row.instances, language=DE)
    assert [piece[:2] for piece in shown["pieces"]] == [
        pytest.approx(piece, abs=0.001) for piece in playback_intervals(instance.speech)
    ]
