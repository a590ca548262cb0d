"""Variants of the layouts that single corpora have."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from datasets import Audio, Dataset, disable_progress_bars

from tests.data.readers.forms import PAIR, write
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.readers.covost2 import CoVoST2
from zoo.data.readers.fleurs import Fleurs
from zoo.data.readers.folder import Folder
from zoo.data.readers.huggingface import HuggingFace
from zoo.data.readers.iwslt import IWSLT
from zoo.data.readers.lhotse import Lhotse

RATE = 16_000


def tone(path: Path, seconds: float = 1.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, [0.1] * round(seconds * RATE), RATE)
    return path


def texts(talks: list[Talk]) -> dict[str, list[tuple[str, str | None]]]:
    """Transcript and translation of each segment by name of the talk."""
    return {
        talk.name: [
            (one.source, one.targets["de"].text if one.targets else None) for one in talk.segments
        ]
        for talk in talks
    }


def test_the_published_table_of_covost2_is_joined_with_common_voice(tmp_path: Path) -> None:
    rows = {"a": "train", "b": "train_covost", "c": "dev_covost", "d": "test"}
    for clip in rows:
        tone(tmp_path / "clips" / f"{clip}.wav")
    write(
        tmp_path / "validated.tsv",
        ["client_id\tpath\tsentence", *(f'spk\t{clip}.wav\tSay \\"{clip}\\".' for clip in rows)],
    )
    table = [f"{clip}.wav\tSag {clip}.\t{split}" for clip, split in rows.items()]
    write(tmp_path / "covost_v2.en_de.tsv", ["path\ttranslation\tsplit", *table])
    corpus = CoVoST2(root=str(tmp_path), **PAIR)
    assert texts(corpus.talks("train")) == {
        "a": [('Say "a".', "Sag a.")],
        "b": [('Say "b".', "Sag b.")],
    }
    assert [talk.voice for talk in corpus.talks("test")] == ["spk"]
    with pytest.raises(ZooError, match="Unknown split of CoVoST 2 'tst'; choose one of: train"):
        corpus.talks("tst")
    write(tmp_path / "validated.tsv", ["path\tsentence", "a.wav\tSay a."])
    with pytest.raises(ZooError, match=r"en_de\.tsv, line 3: .*validated\.tsv has no clip b\.wav"):
        corpus.talks("train")


def test_recordings_of_fleurs_without_a_counterpart_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("1", "2", "3"):
        tone(tmp_path / "data" / "en_us" / "audio" / "dev" / f"{name}.wav")
    tail = "x\t|\t16000\tFEMALE"
    write(
        tmp_path / "data" / "en_us" / "dev.tsv",
        [
            f"{number}\t{file}.wav\tOne {number}.\t{tail}"
            for file, number in zip("123", "778", strict=True)
        ],
    )
    write(tmp_path / "data" / "de_de" / "dev.tsv", [f"7\tx.wav\tEins 7.\t{tail}"] * 2)
    talks = Fleurs(root=str(tmp_path), **PAIR).talks("dev")
    assert texts(talks) == {"1": [("One 7.", "Eins 7.")], "2": [("One 7.", "Eins 7.")]}
    [record] = caplog.records
    assert "1 of 3 recordings have no sentence in 'de'" in record.getMessage()
    assert "dev.tsv, line 3" in record.getMessage()


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set without splits: audio in the tables, one name for all files."""
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path / "cache"))
    disable_progress_bars()
    audio = [
        {"bytes": tone(tmp_path / "x.wav", seconds).read_bytes(), "path": "x.wav"}
        for seconds in (1.0, 2.0)
    ]
    columns = {"audio": audio, "key": ["a", "b"], "text": ["One.", "Two."]}
    rows = Dataset.from_dict(columns).cast_column("audio", Audio(decode=False))
    rows.save_to_disk(str(tmp_path / "saved"))
    return tmp_path / "saved"


def test_a_data_set_without_splits_and_references(saved: Path) -> None:
    corpus = HuggingFace(folder=str(saved), transcript="text", row_name="key", **PAIR)
    talks = corpus.talks("any")
    assert texts(talks) == {"a": [("One.", None)], "b": [("Two.", None)]}
    assert [talk.duration for talk in talks] == [1.0, 2.0]
    assert talks[0].file == corpus.talks("any", limit=1)[0].file  # copied once
    with pytest.raises(ZooError, match="row 1: two recordings have the name 'x'"):
        HuggingFace(folder=str(saved), **PAIR).talks("any")


def test_a_damaged_copy_of_audio_is_written_again(saved: Path) -> None:
    corpus = HuggingFace(folder=str(saved), transcript="text", row_name="key", **PAIR)
    file = corpus.talks("any")[0].file
    good = file.read_bytes()
    file.write_bytes(bytes(len(good)))
    assert corpus.talks("any")[0].file == file
    assert file.read_bytes() == good


def test_paths_in_a_column_and_segments_as_a_mapping(tmp_path: Path) -> None:
    disable_progress_bars()
    path = tone(tmp_path / "talk.wav", 3.0)
    segments = {"offset": [0.5, 2.0], "duration": [1.0, 0.5], "t": ["Eins.", "Zwei."]}
    rows = Dataset.from_dict({"file": [str(path)], "parts": [segments]})
    rows.save_to_disk(str(tmp_path / "saved"))
    columns = {"audio": "file", "segments": "parts", "translation": "t"}
    [talk] = HuggingFace(folder=str(tmp_path / "saved"), **columns, **PAIR).talks("any")
    assert (talk.name, talk.audio) == ("talk", path)
    assert texts([talk]) == {"talk": [("", "Eins."), ("", "Zwei.")]}


def test_cuts_without_translations_and_supervisions(tmp_path: Path) -> None:
    tone(tmp_path / "talk.wav", 3.0)
    recording = {"id": "r", "sources": [{"type": "file", "channels": [0], "source": "talk.wav"}]}
    early = {"start": -0.2, "duration": 1.0, "text": "One."}
    cuts = [
        {"id": "a", "start": 0.0, "duration": 1.0, "recording": recording},
        {
            "id": "b",
            "start": 1.0,
            "duration": 2.0,
            "recording": recording,
            "supervisions": [early],
            "type": "MonoCut",
        },
    ]
    path = tmp_path / "dev.jsonl"
    path.write_text("\n\n".join(map(json.dumps, cuts)) + "\n")
    first, second = Lhotse(cuts=str(tmp_path), **PAIR).talks("dev")
    assert (first.offset, first.duration, first.segments[0].duration) == (0.0, 1.0, 1.0)
    assert (second.offset, second.duration) == (1.0, 2.0)
    assert second.segments[0].duration == pytest.approx(0.8)
    assert texts([first, second]) == {"a": [("", None)], "b": [("One.", None)]}
    with pytest.raises(ZooError, match=r"has no manifest of split 'tst': tst\.jsonl"):
        Lhotse(cuts=str(tmp_path), **PAIR).talks("tst")


CHANNELS: dict[str, tuple[object, float]] = {  # channel of a cut, and the sample of its audio
    "first": (0, 0.25),
    "second": (1, -0.5),
    "both": ([0, 1], -0.125),
    "a list of one": ([1], -0.5),
    "none": (None, -0.125),
}


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("suffix", ["wav", "mp3"])
def test_a_cut_has_its_channel(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call with a speaker on each channel; the channels of the recording may have any number."""
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path / "cache"))
    channel, value = CHANNELS[name]
    # a tone is constant in its loudness after a lossy codec, too
    wave = np.sin(2 * np.pi * 440 * np.arange(48_000) / 16_000)
    path = tmp_path / f"call.{suffix}"
    soundfile.write(path, np.stack([0.25 * wave, -0.5 * wave], axis=1), 16_000)
    recording = {"sources": [{"type": "file", "channels": [0, 1], "source": path.name}]}
    cut = {"id": "a", "start": 0.5, "duration": 2.0, "channel": channel, "recording": recording}
    (tmp_path / "dev.jsonl").write_text(json.dumps(cut) + "\n")
    [talk] = Lhotse(cuts=str(tmp_path), **PAIR).talks("dev")
    samples = audio.load(talk.file, start=talk.offset, duration=talk.duration).numpy()
    wanted = value * wave[8_000:40_000]
    assert len(samples) == len(wanted)
    # a phase of the codec aside, the loudness and the sign are those of the channel
    assert np.dot(samples, wanted) / np.dot(wanted, wanted) == pytest.approx(1, abs=0.05)

    recording["sources"][0]["channels"] = [4, 7]
    cut["channel"] = 5
    (tmp_path / "dev.jsonl").write_text(json.dumps(cut) + "\n")
    with pytest.raises(ZooError, match=r"line 1 has the channel 5; its recording has: \[4, 7\]"):
        Lhotse(cuts=str(tmp_path), **PAIR).talks("dev")
    cut["channel"], recording["sources"][0]["channels"] = 2, [0, 1, 2]
    (tmp_path / "dev.jsonl").write_text(json.dumps(cut) + "\n")
    with pytest.raises(ZooError, match="has no channel 2; it has 2, from 0"):
        Lhotse(cuts=str(tmp_path), **PAIR).talks("dev")


def test_a_segment_list_without_texts_has_no_references(tmp_path: Path) -> None:
    tone(tmp_path / "talk.wav", 3.0)
    write(tmp_path / "tst.yaml", ["- {duration: 1.0, offset: 0.5, wav: talk.wav}"])
    [talk] = IWSLT(segments=str(tmp_path / "tst.yaml"), **PAIR).talks("tst")
    assert texts([talk]) == {"talk": [("", None)]}
    assert (talk.segments[0].offset, talk.segments[0].duration) == (0.5, 1.0)


def test_a_name_of_an_old_archive_is_refused(tmp_path: Path) -> None:
    """A name in Latin-1, which no log can have."""
    tone(tmp_path / "talk.wav")
    (tmp_path / "talk.wav").rename(os.fsdecode(bytes(tmp_path) + b"/M\xfcnchen.wav"))
    with pytest.raises(
        ZooError, match=r"M\\xfcnchen.wav' is not in UTF-8; rename the file or folder"
    ):
        Folder(root=str(tmp_path), **PAIR).talks("tst")


def test_texts_of_a_folder_share_the_times_of_one_of_them(tmp_path: Path) -> None:
    """Subtitles with styles, without numbers and with Windows line ends; a text without times."""
    tone(tmp_path / "talk.1.wav", 4.0)
    blocks = [
        "00:00:00,500 --> 00:00:01,000\r\n<i>One</i>\r\ntwo.\r\n",
        "2\r\n00:00:02.000  -->  00:00:03.000 X1:0\r\n{\\an8}Three.\r\n",
    ]
    (tmp_path / "talk.1.en.srt").write_bytes("\r\n".join(blocks).encode("utf-8-sig"))
    write(tmp_path / "talk.1.de.txt", ["Eins zwei.", "", "Drei."])
    write(tmp_path / "talk.1.es.txt", ["Uno."])  # of another direction
    write(tmp_path / "notes.md", ["No text of a talk."])
    corpus = Folder(root=str(tmp_path), **PAIR)
    [talk] = corpus.talks("tst")
    assert texts([talk]) == {"talk.1": [("One two.", "Eins zwei."), ("Three.", "Drei.")]}
    assert [(one.offset, one.end) for one in talk.segments] == [(0.5, 1.0), (2.0, 3.0)]
    (tmp_path / "talk.1.en.srt").unlink()
    assert texts(corpus.talks("tst")) == {"talk.1": [("", "Eins zwei. Drei.")]}


def test_a_talk_with_translations_into_other_languages_only_is_refused(tmp_path: Path) -> None:
    tone(tmp_path / "talk.wav")
    write(tmp_path / "talk.en.txt", ["One."])
    corpus = Folder(root=str(tmp_path), **PAIR)
    assert texts(corpus.talks("tst")) == {"talk": [("One.", None)]}
    write(tmp_path / "talk.es.txt", ["Uno."])
    with pytest.raises(
        ZooError, match=r"talk\.wav has no text in the target language de, but in es;"
    ):
        corpus.talks("tst")


def test_a_folder_of_a_split_comes_before_its_parent(tmp_path: Path) -> None:
    tone(tmp_path / "a.wav")
    tone(tmp_path / "dev" / "b.FLAC")
    corpus = Folder(root=str(tmp_path), **PAIR)
    assert [talk.name for talk in corpus.talks("dev")] == ["b"]
    assert [talk.name for talk in corpus.talks("tst")] == ["a"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ZooError, match=r"There is no audio file in .*empty"):
        corpus.talks("empty")
