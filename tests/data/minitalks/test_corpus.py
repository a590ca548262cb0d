"""The corpus in its cache: the same everywhere, disjoint, resumable, guarded by its fingerprint."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.fingerprint import audio_hash, content_hash
from zoo.data.minitalks import corpus, frozen, version
from zoo.data.minitalks.corpus import build, corpus_folder
from zoo.data.minitalks.recording import SPLITS, UNSEEN_VOICES, VOICES, Split, plans
from zoo.data.minitalks.version import version_name


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def talks(cache: Path) -> list[Talk]:
    return build("tst", cache=cache, talks=2)


def start(cache: Path, split: str, talks: int) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "zoo.data.minitalks.corpus",
        "--split",
        split,
        "--talks",
        str(talks),
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, env=os.environ | {"SIMULZOO_CACHE": str(cache)}, **quiet)


def contents(cache: Path) -> dict[str, bytes]:
    files = (path for path in cache.rglob("*") if path.suffix in (".wav", ".jsonl"))
    return {str(path.relative_to(cache)): path.read_bytes() for path in files}


def test_two_processes_at_once_make_the_same_bytes(
    cache: Path, talks: list[Talk], tmp_path: Path
) -> None:
    assert len(talks) == 2
    running = [start(tmp_path, "tst", 2) for _ in range(2)]
    assert [process.wait(60) for process in running] == [0, 0]
    assert contents(tmp_path) == contents(cache)
    assert not list(tmp_path.rglob("*.part"))


def test_killed_and_started_again(tmp_path: Path) -> None:
    process = start(tmp_path / "killed", "train", 9)
    folder = corpus_folder(tmp_path / "killed") / "train"
    while not (folder / "train-001.jsonl").is_file():
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "train-008.jsonl").is_file()
    before = (folder / "train-001.wav").stat().st_mtime_ns
    resumed = build("train", cache=tmp_path / "killed", talks=4)
    assert (folder / "train-001.wav").stat().st_mtime_ns == before
    whole = build("train", cache=tmp_path / "whole", talks=4)
    assert content_hash(resumed) == content_hash(whole)
    assert [audio_hash(talk) for talk in resumed] == [audio_hash(talk) for talk in whole]


def test_half_written_talk_is_made_again(cache: Path, talks: list[Talk]) -> None:
    good = talks[1].audio.read_bytes()
    talks[1].audio.write_bytes(good[:1000])
    talks[1].audio.with_suffix(".jsonl").unlink()
    assert build("tst", cache=cache, talks=2) == talks
    assert talks[1].audio.read_bytes() == good


@pytest.mark.parametrize("damage", ["missing", "empty", "zeroed", "end lost", "one bit"])
@pytest.mark.parametrize("suffix", [".wav", ".jsonl"])
def test_a_damaged_file_is_made_again(
    cache: Path, talks: list[Talk], suffix: str, damage: str
) -> None:
    file = talks[0].file.with_suffix(suffix)
    good = file.read_bytes()
    file.unlink()
    if damage != "missing":
        contents = {"empty": b"", "zeroed": bytes(len(good)), "end lost": good[:-1]}
        contents["one bit"] = good[:-20] + bytes([good[-20] ^ 1]) + good[-19:]
        file.write_bytes(contents[damage])
    other = talks[1].file.stat().st_mtime_ns
    assert build("tst", cache=cache, talks=2) == talks
    assert file.read_bytes() == good
    assert talks[1].file.stat().st_mtime_ns == other


def test_a_damaged_talk_of_a_complete_split_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SPLITS, "dev", Split(2, 6, 12))
    monkeypatch.setattr(frozen, "FROZEN", tmp_path / "none.json")
    whole = build("dev", cache=tmp_path)
    complete = corpus_folder(tmp_path) / "dev" / "manifest.jsonl"
    for file in (whole[1].file, complete):
        good = file.read_bytes()
        file.write_bytes(bytes(len(good)))
        assert build("dev", cache=tmp_path) == whole
        assert file.read_bytes() == good


def test_limit_takes_a_prefix_and_a_whole_split_gets_one_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SPLITS, "dev", Split(3, 6, 12))
    monkeypatch.setattr(frozen, "FROZEN", tmp_path / "none.json")
    first = build("dev", cache=tmp_path, talks=1)
    assert not (corpus_folder(tmp_path) / "dev" / "manifest.jsonl").is_file()
    whole = build("dev", cache=tmp_path)
    assert (corpus_folder(tmp_path) / "dev" / "manifest.jsonl").is_file()
    assert (len(whole), whole[:1], build("dev", cache=tmp_path, talks=2)) == (3, first, whole[:2])
    assert build("dev", cache=tmp_path) == whole


def test_no_sentence_comes_twice() -> None:
    sentences = [
        " ".join(sentence.words).casefold()
        for split in SPLITS
        for plan in plans(split, talks=30)
        for sentence in plan.sentences
    ]
    assert len(sentences) > 1000
    assert len(set(sentences)) == len(sentences)


def test_voices() -> None:
    voices = {split: [plan.voice for plan in plans(split)] for split in SPLITS}
    assert sum(voice in UNSEEN_VOICES for voice in voices["tst"]) >= 3
    assert set(voices["train"]) == set(VOICES)
    assert set(voices["dev"]) <= set(VOICES)
    assert not set(VOICES) & set(UNSEEN_VOICES)


def test_talks_equal_their_manifest(talks: list[Talk]) -> None:
    for talk in talks:
        assert audio.duration(talk.audio) == pytest.approx(talk.duration, abs=0.001)
        assert 60 < talk.duration < 240
        assert set(talk.segments[0].targets) >= {"de"}
        before = 0.0
        for segment in talk.segments:
            assert segment.offset - before >= (0.199 if before == 0 else 0.299)
            before = segment.end
            assert [word.text for word in segment.words] == segment.source.split()
            edges = [edge for word in segment.words for edge in (word.start, word.end)]
            assert edges == sorted(edges)
            assert segment.offset <= edges[0] <= edges[-1] <= segment.end + 0.001
        assert talk.duration - before >= 0.299
        phonemes = talk.labels["phonemes"]
        assert 6 < len(phonemes) / sum(segment.duration for segment in talk.segments) < 20


def test_speech_is_louder_than_what_lies_between(talks: list[Talk]) -> None:
    talk = talks[0]
    samples = audio.load(talk.audio)
    speech = [
        samples[round(s.offset * 16_000) : round(s.end * 16_000)].square().mean()
        for s in talk.segments
    ]
    pauses = [
        samples[round(s.end * 16_000) : round(s.end * 16_000) + 4_000].square().mean()
        for s in talk.segments
    ]
    assert min(speech) > 10 * max(pauses)


def test_fingerprint(talks: list[Talk], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "frozen.json"
    frozen.check("tst", talks, path=path)  # nothing is frozen yet
    frozen.freeze("tst", talks, path=path)
    frozen.check("tst", talks, path=path)
    frozen.check("tst", talks[:1], path=path)
    word = replace(talks[0].segments[0].words[0], end=talks[0].segments[0].words[0].end + 0.001)
    segment = replace(talks[0].segments[0], words=(word, *talks[0].segments[0].words[1:]))
    changed = replace(talks[0], segments=(segment, *talks[0].segments[1:]))
    for wrong in ([changed], [changed, talks[1]], talks[::-1]):
        with pytest.raises(ZooError, match="built-in tst set differs from the frozen one"):
            frozen.check("tst", wrong, path=path)
    frozen_talks = json.loads(path.read_text())
    frozen_talks["tst"]["talks"]["tst-000"]["audio"] = "0"
    path.write_text(json.dumps(frozen_talks))
    frozen.check("tst", talks, path=path)
    assert "audio of tst-000 differs" in caplog.text


def test_the_generators_give_what_this_version_gave() -> None:
    name, committed = frozen.frozen_samples()
    current = frozen.samples()
    advice = (
        "the generators of minitalks (or espeakng-loader, soxr) changed: increase VERSION in "
        "zoo/data/minitalks/version.py, then run python -m zoo minitalks --freeze"
    )
    assert name == version_name(), advice
    assert set(current) == set(committed) == set(SPLITS)
    for split, found in current.items():
        levels, expected = found.pop("levels"), committed[split].pop("levels")
        assert found == committed[split], f"{split}: {advice}"
        assert levels == pytest.approx(expected, rel=0.01, abs=2e-4), f"{split}: {advice}"


def test_freezing_other_samples_needs_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "frozen.json"
    monkeypatch.setattr(frozen, "samples", lambda: {"tst": {"texts": "a"}})
    frozen.freeze_samples(path)
    frozen.freeze_samples(path)
    monkeypatch.setattr(frozen, "samples", lambda: {"tst": {"texts": "b"}})
    with pytest.raises(ZooError, match=r"changed but version .* did not; increase VERSION"):
        frozen.freeze_samples(path)
    monkeypatch.setattr(version, "VERSION", 99)
    frozen.freeze_samples(path)
    assert frozen.frozen_samples(path) == (version_name(), {"tst": {"texts": "b"}})
    assert version_name().startswith("99-espeakng-loader")


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(
        ZooError, match="Unknown split 'test'; choose one of: tst, dev, train, tst_hard, tst_names"
    ):
        build("test", cache=tmp_path)
    with pytest.raises(ZooError, match="at least 1 talk"):
        build("tst", cache=tmp_path, talks=0)
    (tmp_path / "file").touch()
    with pytest.raises(ZooError, match="set SIMULZOO_CACHE to a writable folder"):
        build("tst", cache=tmp_path / "file", talks=1)


def test_cache_folder_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path))
    assert corpus.corpus_folder().parent == tmp_path
    monkeypatch.delenv("SIMULZOO_CACHE")
    assert corpus.corpus_folder().parent == Path.home() / ".cache" / "simulzoo"
