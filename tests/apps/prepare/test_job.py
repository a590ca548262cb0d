"""python -m zoo prepare: the whole way, killed and restarted, in shards and in processes."""

import shutil
import signal
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import soundfile
import torch
from omegaconf import DictConfig

from tests.apps.prepare.conftest import write_corpus
from tests.fixtures import processes
from zoo.apps.prepare.job import prepare
from zoo.apps.prepare.store import states_of
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.talks import Word
from zoo.config import compose
from zoo.data import manifest
from zoo.data.corpora import Aligned
from zoo.data.manifest import decode

STEPS = "steps=[audio,words,alignment,trajectories,filters]"


def run(corpus: Path, out: Path, *overrides: str) -> None:
    cfg = configuration(*overrides).copy()
    cfg.data.folder = str(corpus)
    if cfg.prepare.folder:
        cfg.prepare.folder = str(out)
    prepare(cfg)


@cache
def configuration(*overrides: str) -> DictConfig:
    """Composing takes longer than preparing."""
    return compose("prepare", [*arguments(Path("corpus"), Path("out")), *overrides])


def arguments(corpus: Path, out: Path) -> list[str]:
    return [
        "data=aligned",
        f"data.folder={corpus}",
        f"prepare.folder={out}",
        "prepare.splits=[train]",
        "prepare.part_seconds=7",  # two talks
        "device=cpu",
        "logger.mode=disabled",
        STEPS,
    ]


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_a_corpus_becomes_data_for_a_training(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "out")
    talks = Aligned(folder=str(tmp_path / "out")).talks("train")
    assert [talk.name for talk in talks] == [f"talk/{number}" for number in range(4)]
    for number, talk in enumerate(talks):
        info = soundfile.info(talk.file)
        assert talk.file == tmp_path / "out" / "audio" / "train" / f"talk%2F{number}.wav"
        assert (info.samplerate, info.channels, info.duration) == (16000, 1, 6.0)
        assert [segment.usable for segment in talk.segments] == [True, False, True]
        assert talk.segments[2].words == (Word("One,", 3.0, 3.5), Word("two.", 3.5, 4.0))
    table = (tmp_path / "out" / "train.segments.tsv").read_text().splitlines()
    assert len(table) == 1 + 4 * 3
    assert table[2].split("\t")[:7] == [
        *("talk/0", "1", "2.000", "0.500", "no", "only sounds", "(Laughter)")
    ]


def test_sounds_stay_and_names_go_as_in_infinisst(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    write_corpus(folder)
    talks = []
    for talk in Aligned(folder=str(folder)).talks("train"):
        first = talk.segments[0]
        german = replace(first.targets["de"], text=f"CA: {first.targets['de'].text}")
        named = replace(first, source=f"CA: {first.source}", targets={"de": german})
        talks.append(replace(talk, segments=(named, *talk.segments[1:])))
    manifest.write(folder / "train.jsonl", talks)
    run(folder, tmp_path / "out", "filters=infinisst")
    for talk in Aligned(folder=str(tmp_path / "out")).talks("train"):
        named, sound, _ = talk.segments
        assert "CA:" not in f"{named.source} {named.targets['de'].text}"
        assert sound.usable
        assert sound.words == (Word("(Laughter)", 2.0, 2.5),)
        assert sound.targets["de"].alignment == ((0,),)


def test_audio_is_written_to_tar_archives(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(corpus, tmp_path / "files")
    out = tmp_path / "tars"
    run(corpus, out, "prepare.tar_megabytes=1")  # a talk has 0.19 MB
    [archive] = (out / "audio").glob("*.tar")
    talks, others = (Aligned(folder=str(one)).talks("train") for one in (out, tmp_path / "files"))
    for talk, other in zip(talks, others, strict=True):
        assert talk.file == archive / f"{talk.name.replace('/', '%2F')}.wav"
        assert torch.equal(audio.load(talk.file), audio.load(other.file))
        assert replace(talk, audio=other.audio) == other
    with tarfile.open(archive) as file:
        names = file.getnames()
        assert names[:2] == ["talk%2F0.wav", "talk%2F0.json"]
        line = file.extractfile("talk%2F3.json")
        assert line is not None
        assert decode(line.read().decode(), folder=out).name == "talk/3"

    before = content(out)
    run(corpus, tmp_path / "others", "prepare.tar_megabytes=1")
    assert content(tmp_path / "others") == before  # copied at another time
    written = archive.stat().st_mtime_ns
    run(corpus, out, "prepare.tar_megabytes=1")
    assert (content(out), archive.stat().st_mtime_ns) == (before, written)
    (out / "audio" / "train" / "talk%2F3.wav").touch()  # newer than the archive
    run(corpus, out, "prepare.tar_megabytes=1")
    assert content(out) == before
    assert archive.stat().st_mtime_ns > written
    written = archive.stat().st_mtime_ns
    surplus = archive.with_name("train-000001.tar")  # of a preparation with more talks
    other_split = archive.with_name("train-b-000001.tar")
    for one in (surplus, other_split):
        shutil.copy(archive, one)
    run(corpus, out, "prepare.tar_megabytes=1", "filters.min_rate=8")
    assert archive.stat().st_mtime_ns != written  # the lines have changed
    assert not surplus.exists()
    assert other_split.exists()

    again = tmp_path / "again"
    cfg = configuration("prepare.tar_megabytes=1").copy()
    cfg.data.folder, cfg.prepare.folder = str(out), str(again)
    prepare(cfg)  # a corpus in archives can be prepared
    assert len(Aligned(folder=str(again)).talks("train")) == 4

    refiltered = tmp_path / "refiltered"
    cfg.prepare.folder, cfg.steps = str(refiltered), ["filters", "card"]
    monkeypatch.setattr(
        "zoo.apps.prepare.job.log_cards", lambda *_: None
    )  # needs Hydra's run folder
    prepare(cfg)  # also without a copy of its audio
    [found] = (refiltered / "audio").glob("*.tar")
    with tarfile.open(archive) as old, tarfile.open(found) as new:
        for name in ("talk%2F0.wav", "talk%2F3.wav"):
            one, two = old.extractfile(name), new.extractfile(name)
            assert one is not None
            assert two is not None
            assert two.read() == one.read()


def test_processes_and_shards_write_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "one")
    run(corpus, tmp_path / "two", "prepare.workers=2")
    assert content(tmp_path / "one") == content(tmp_path / "two")

    run(corpus, tmp_path / "three", "prepare.shard=2/2")
    assert not (tmp_path / "three" / "train.jsonl").exists()
    with pytest.raises(ZooError, match="have not prepared 1 of 2 parts of the split 'train'"):
        run(corpus, tmp_path / "three", "prepare.merge=true")
    run(corpus, tmp_path / "three", "prepare.shard=1/2")
    assert content(tmp_path / "one") == content(tmp_path / "three")
    (tmp_path / "three" / "train.jsonl").unlink()
    run(corpus, tmp_path / "three", "prepare.merge=true")
    assert content(tmp_path / "one") == content(tmp_path / "three")


class Crash(BaseException):
    """An end of the process without clean-up."""


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None, bool], None]:
    """Make the n-th rename of a file crash, before or after it; None: never. Counts from 0."""
    rename = Path.replace

    def install(number: int | None, after: bool) -> None:
        renamed = []

        def crashing(path: Path, target: Path) -> Path:
            now = len(renamed) == number
            renamed.append(path)
            if now and not after:
                raise Crash
            moved = rename(path, target)
            if now:
                raise Crash
            return moved

        monkeypatch.setattr(Path, "replace", crashing)

    return install


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_write_leaves_the_same_bytes_after_a_restart(
    corpus: Path, tmp_path: Path, crash_at: Callable[[int | None, bool], None], after: bool
) -> None:
    run(corpus, tmp_path / "whole")
    expected = content(tmp_path / "whole")
    number = 0
    while True:
        out = tmp_path / f"crash-{number}"
        crash_at(number, after)
        try:
            run(corpus, out)
        except Crash:
            crash_at(None, after)
            run(corpus, out)
            assert content(out) == expected, number
            number += 1
            continue
        break
    # audio of 4 talks, 5 steps of 2 parts, table and manifest
    assert number == 4 + 10 + 2


@pytest.mark.parametrize("files", [1, 6])
def test_killed_and_restarted_writes_the_same_bytes(
    corpus: Path, tmp_path: Path, files: int
) -> None:
    run(corpus, tmp_path / "whole")
    out = tmp_path / "killed"
    job = processes.start("-m", "zoo", "prepare", *arguments(corpus, out), folder=tmp_path)
    while job.poll() is None and len(list(out.rglob("*.jsonl"))) < files:
        time.sleep(0.002)
    job.send_signal(signal.SIGKILL)
    job.wait()
    run(corpus, out)
    leftovers = [name for name in content(out) if name.endswith(".part")]
    assert leftovers == []
    assert content(out) == content(tmp_path / "whole")


def test_only_what_depends_on_a_changed_setting_is_done_again(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(corpus, out)
    times = {path: path.stat().st_mtime_ns for path in (out / "work").rglob("*.jsonl")}
    run(corpus, out, "filters.sounds=false", "filters.tags=false", "filters.min_rate=8")
    changed = {
        path.parent.name for path, before in times.items() if path.stat().st_mtime_ns != before
    }
    assert changed == {"filters"}
    table = (out / "train.segments.tsv").read_text()
    reasons = [line.split("\t")[5] for line in table.splitlines()]
    assert reasons[1:4] == ["", "", "characters per second"]


def test_a_split_of_which_no_segment_can_be_used_is_refused(corpus: Path, tmp_path: Path) -> None:
    """The manifest and the table with the reasons are written."""
    message = (
        r"Trainings can use none of the 12 segments of the split 'train' "
        r"\(characters per second 8, only sounds 4\); .*train\.segments\.tsv has the details\."
    )
    with pytest.raises(ZooError, match=message):
        run(corpus, tmp_path / "out", "filters.min_rate=30")
    assert (tmp_path / "out" / "train.jsonl").is_file()
    assert (tmp_path / "out" / "train.segments.tsv").is_file()


def test_a_changed_talk_is_prepared_again(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(corpus, out)
    lines = (corpus / "train.jsonl").read_text()
    (corpus / "train.jsonl").write_text(lines.replace("Good cats sleep.", "Good dogs sleep."))
    run(corpus, out)
    assert "dogs" in (out / "train.jsonl").read_text()


def test_a_changed_file_of_an_aligner_changes_its_step(corpus: Path, tmp_path: Path) -> None:
    out, links = tmp_path / "out", tmp_path / "links.txt"
    links.write_text("0-0 1-1 2-2\n0-0\n0-0 1-1\n" * 4)
    settings = ("word_alignment=pharaoh", f"word_alignment.path={links}")
    run(corpus, out, *settings)
    before = Aligned(folder=str(out)).talks("train")
    work = {path: path.stat().st_mtime_ns for path in (out / "work").rglob("*.jsonl")}
    run(corpus, out, *settings)
    links.write_text("0-1 1-0 2-2\n0-0\n0-0 1-1\n" * 4)
    run(corpus, out, *settings)
    after = Aligned(folder=str(out)).talks("train")
    assert before[0].segments[0].targets["de"].alignment == ((0,), (1,), (2,))
    assert after[0].segments[0].targets["de"].alignment == ((1,), (0,), (2,))
    same = {path.parent.name for path, time in work.items() if path.stat().st_mtime_ns == time}
    assert same == {"audio", "words"}


def test_files_of_settings_are_those_of_folders_and_lists(tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / "inner").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    settings = {"name": str(model), "more": [{"path": str(model / "config.json")}], "number": 1}
    first = states_of(settings)
    assert [name for name, _ in first] == ["config.json", "."]
    (model / "inner" / "weights").write_text("1")
    assert [name for name, _ in states_of(settings)] == ["config.json", "inner/weights", "."]
    assert states_of({"a": "owner/model@x", "b": "x" * 5000, "c": "", "d": "\0"}) == []


def test_damaged_audio_is_refused_before_words_are_timed_or_left_out(
    corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for number in (0, 3):
        (corpus / f"talk-{number}.wav").write_bytes(b"noise")
    with pytest.raises(ZooError, match=r"talk-0\.wav is damaged.* 1 more talks have"):
        run(corpus, out)
    assert {path.name for path in (out / "work" / "train").iterdir()} == {".lock", "audio"}
    run(corpus, out, "audio.damaged=drop")
    talks = Aligned(folder=str(out)).talks("train")
    assert [talk.name for talk in talks] == ["talk/1", "talk/2"]
    rows = [row.split("\t") for row in (out / "train.segments.tsv").read_text().splitlines()]
    assert [row[0] for row in rows if row[5] == "audio"] == ["talk/0", "talk/3"]


def test_a_corpus_is_not_overwritten(corpus: Path) -> None:
    before = (corpus / "train.jsonl").read_bytes()
    with pytest.raises(ZooError, match=r"as data\.folder; choose another folder"):
        run(corpus, corpus)
    assert (corpus / "train.jsonl").read_bytes() == before


def test_results_that_are_gone_are_made_again_with_all_that_follow(
    corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run(corpus, out)
    expected = content(out)
    for path in (out / "work" / "train" / "words").iterdir():
        path.unlink()
    damaged = out / "work" / "train" / "filters" / "000000.jsonl"
    damaged.write_text("{}\n")
    run(corpus, out)
    assert content(out) == expected


def test_bad_settings_are_one_sentence(corpus: Path, tmp_path: Path) -> None:
    for override, sentence in (
        ("prepare.folder=null", "needs prepare.folder"),
        ("steps=[sound]", "Unknown step 'sound'; choose one of: audio, words"),
        ("steps=[audio,audio]", "each step once"),
        ("steps=[card]", "A card needs another step"),
        ("prepare.shard=0/4", r"prepare\.shard is '0/4'"),
        ("prepare.workers=0", "workers of at least 1"),
        ("filters.max_ratio=0.5", "max_ratio of at least 1"),
        ("filters.min_rate=40", r"filters\.min_rate is 40, above filters\.max_rate"),
        ("audio.damaged=keep", r"audio\.damaged must be one of refuse, drop"),
        ("prepare.splits=[test]", "no split 'test'"),
        (
            "prepare.targets=[es]",
            r"Segment 0 of talk 'talk/0' has no translation into 'es'; it has: de",
        ),
        ("word_times=ctc", "needs name, the hub id or folder"),
    ):
        with pytest.raises(ZooError, match=sentence):
            run(corpus, tmp_path / "out", override)
    assert not (tmp_path / "out").exists()
