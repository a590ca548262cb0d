"""Target speech as files: written, read back, and placed at its delays."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile
import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, ChunkTime, Instance, SpeechOutput
from zoo.formats.logs import read_log
from zoo.formats.simuleval import write_log
from zoo.formats.speech import mix_file, target_file, without_samples, write_speech
from zoo.streaming.playback import playback_intervals
from zoo.streaming.waveforms import timeline

DE = language("de")


def spoken(
    delay: float, elapsed: float, samples: int, chunk: int, text: str, level: float
) -> SpeechOutput:
    return SpeechOutput(torch.full((samples,), level), delay, elapsed, chunk, text)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    audio.write(tmp_path / "source.wav", torch.full((3 * SAMPLE_RATE,), 0.25))
    return Talk("a/b <1>", tmp_path / "source.wav", 2.0, "en", (), offset=1.0)


@pytest.fixture
def instance(talk: Talk) -> Instance:
    """The second piece waits for the first; 0.1 s of the last lie behind the source."""
    chunks = (ChunkTime(0.5, 0.25), ChunkTime(1.0, 0.25), ChunkTime(2.0, 0.5))
    speech = (
        spoken(0.5, 0.75, 12_000, 0, "eins", 0.5),
        spoken(1.0, 1.25, 1001, 1, "zwei", -0.5),
        spoken(2.0, 2.5, 1600, 2, "drei", 0.125),
    )
    words = ("eins", "zwei", "drei")
    delays, elapsed = (0.5, 1.0, 2.0), (0.75, 1.25, 2.5)
    return Instance(
        0,
        talk.name,
        2.0,
        " ".join(words),
        words,
        delays,
        elapsed,
        chunk_indices=(0, 1, 2),
        chunks=chunks,
        speech=speech,
    )


def write_stream(folder: Path, instance: Instance, talk: Talk) -> Path:
    write_log(folder / "instances.log", [instance])
    write_speech(folder, [instance], [talk])
    return folder / "instances.log"


def test_logged_speech_is_read_back(tmp_path: Path, instance: Instance, talk: Talk) -> None:
    [again] = read_log(write_stream(tmp_path, instance, talk), language=DE)
    assert again == instance
    assert [piece.samples.numel() for piece in again.speech] == [12_000, 1001, 1600]
    for piece, before in zip(again.speech, instance.speech, strict=True):
        assert torch.equal(piece.samples, before.samples)  # levels that 16 bit hold exactly


def test_the_files_are_on_the_time_line_of_the_source(
    tmp_path: Path, instance: Instance, talk: Talk
) -> None:
    write_stream(tmp_path, instance, talk)
    assert target_file(talk.name) == "speech/a%2Fb %3C1%3E.target.wav"
    target = audio.load(tmp_path / target_file(talk.name))
    assert torch.equal(target, timeline(instance))
    sides, rate = soundfile.read(tmp_path / mix_file(talk.name), dtype="float32")
    assert (rate, sides.shape) == (SAMPLE_RATE, (2 * SAMPLE_RATE + 1600, 2))
    assert torch.equal(torch.from_numpy(sides[:, 1]), target)
    # the talk is the second and third second of its file
    assert set(sides[: 2 * SAMPLE_RATE, 0]) == {0.25}
    assert set(sides[2 * SAMPLE_RATE :, 0]) == {0.0}


def test_a_talk_may_be_called_anything(tmp_path: Path, instance: Instance, talk: Talk) -> None:
    """Names of up to 255 bytes keep their letters; characters that a path forbids are quoted."""
    long = "气候变化与我们的未来" * 7
    names = [long, "..", "50 %", "50 %25", "50%20%25", 'a"b\\c:d*e?|']
    files = [Path(target_file(name)) for name in names]
    assert len(set(files)) == len(names)
    assert files[0].name == f"{long}.target.wav"
    for name, file in zip(names, files, strict=True):
        assert file.parent == Path("speech")
        assert not set(file.name) & set('<>:"/\\|?*\n')
        again = read_log(
            write_stream(tmp_path, replace(instance, talk=name), replace(talk, name=name)),
            language=DE,
        )
        assert torch.equal(again[0].speech[0].samples, instance.speech[0].samples)


def test_simuleval_s_line_of_speech_output(tmp_path: Path, instance: Instance, talk: Talk) -> None:
    write_stream(tmp_path, instance, talk)
    record = json.loads((tmp_path / "speech" / "instances.log").read_text(encoding="utf-8"))
    assert record["delays"] == [500.0, 1000.0, 2000.0]
    assert record["durations"] == [750.0, 62.5625, 100.0]
    assert record["intervals"] == [[500.0, 750.0], [1250.0, 62.5625], [2000.0, 100.0]]
    assert record["source_length"] == 2000.0
    assert record["prediction_length"] == pytest.approx(2.1)  # seconds, as SimulEval has it
    assert (tmp_path / "speech" / record["prediction"]).is_file()


def test_a_line_of_speech_output_is_read_from_its_wave_file(
    tmp_path: Path, instance: Instance, talk: Talk
) -> None:
    write_stream(tmp_path, instance, talk)
    log = tmp_path / "speech" / "instances.log"
    [again] = read_log(log, language=DE)
    assert (again.text, again.units, again.elapsed) == ("", (), ())
    assert [piece.delay for piece in again.speech] == [0.5, 1.0, 2.0]
    for piece, expected in zip(again.speech, instance.speech, strict=True):
        assert torch.equal(piece.samples, expected.samples)


def test_simuleval_s_own_wave_begins_with_the_first_piece(
    tmp_path: Path, instance: Instance
) -> None:
    record = {
        "index": 0,
        "prediction": f"/elsewhere/{tmp_path.name}/wavs/0_pred.wav",  # the folder was moved
        "delays": [500.0, 1000.0, 2000.0],
        "durations": [750.0, 62.5625, 100.0],
        "prediction_offset": 500.0,
        "elapsed": [],
        "intervals": [[500.0, 750.0], [1250.0, 62.5625], [2000.0, 100.0]],
        "prediction_length": 1.6,
        "source_length": 2000.0,
        "reference": "eins zwei",
        "source": "/data/one.wav",
    }
    log = tmp_path / "instances.log"
    log.write_text(json.dumps(record) + "\n", encoding="utf-8")
    (tmp_path / "wavs").mkdir()
    audio.write(tmp_path / "wavs" / "0_pred.wav", timeline(instance)[8000:])
    [again] = read_log(log, language=DE)
    assert (again.talk, again.reference) == ("one", "eins zwei")
    for piece, expected in zip(again.speech, instance.speech, strict=True):
        assert torch.equal(piece.samples, expected.samples)
    audio.write(tmp_path / "wavs" / "0_pred.wav", timeline(instance)[9000:])
    with pytest.raises(ZooError, match="outside of its wave file"):
        read_log(log, language=DE)
    (tmp_path / "wavs" / "0_pred.wav").unlink()
    with pytest.raises(ZooError, match=r"names the wave file /elsewhere/.* which is missing"):
        read_log(log, language=DE)


def test_missing_or_short_speech_files_are_an_error(
    tmp_path: Path, instance: Instance, talk: Talk
) -> None:
    log = write_stream(tmp_path, instance, talk)
    audio.write(tmp_path / target_file(talk.name), timeline(instance)[:-1])
    with pytest.raises(ZooError, match="shorter than the target speech"):
        read_log(log, language=DE)
    (tmp_path / target_file(talk.name)).unlink()
    with pytest.raises(ZooError, match="keep the folder 'speech' beside its log"):
        read_log(log, language=DE)


def test_silence_and_a_talk_without_audio(tmp_path: Path, instance: Instance, talk: Talk) -> None:
    silent = replace(instance, speech=())
    write_stream(tmp_path, silent, talk)
    # no talk has target speech
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    other = replace(silent, index=1, talk="x")
    write_speech(tmp_path, [instance, other], [replace(talk, audio=None), replace(talk, name="x")])
    names = sorted(path.name for path in (tmp_path / "speech").iterdir())
    assert names == ["a%2Fb %3C1%3E.target.wav", "instances.log", "x.mix.wav", "x.target.wav"]
    assert not audio.load(tmp_path / target_file("x")).any()


def test_unloaded_keeps_the_times_and_no_sound(instance: Instance) -> None:
    silent = without_samples(instance)
    assert silent == instance
    assert playback_intervals(silent.speech) == playback_intervals(instance.speech)
    assert all(piece.samples.untyped_storage().nbytes() == 4 for piece in silent.speech)
