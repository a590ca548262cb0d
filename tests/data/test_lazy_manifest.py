"""data.lazy=true: trainings decode the segments that they need, and nothing else changes."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data import manifest, manifest_index
from zoo.data.chain_of_thought import SpeechChainOfThoughtConfig
from zoo.data.corpora import Aligned, training_talks
from zoo.data.excerpts import ExcerptConfig
from zoo.data.fingerprint import content_hash
from zoo.data.lazy_manifest import StoredTalks
from zoo.data.robust_segments import RobustSegmentConfig
from zoo.data.sampling import Sampler, Sampling, Stretches
from zoo.data.views import usable_parts
from zoo.data.windows import WindowedSampler
from zoo.training.schedule import Limits, Schedule

GERMAN = language("de")
SAMPLINGS = (
    RobustSegmentConfig(),
    RobustSegmentConfig(utterances=0.5),
    ExcerptConfig(),
    SpeechChainOfThoughtConfig(mixture={"streaming": 0.4, "non_streaming": 0.3, "partial": 0.3}),
    SpeechChainOfThoughtConfig(hours={"streaming": 0.01}, sentences=[0.5, 0.5], silence=1.0),
)


def segment(start: float, number: int, *, usable: bool = True) -> Segment:
    words = tuple(
        Word(f"wörd{number}-{place}", start + 0.5 * place, start + 0.5 * place + 0.4)
        for place in range(4)
    )
    target = Target("Ein „Satz“ da.", ("Ein", "„Satz“", "da."), ((0,), (2, 1), (3,)))
    source = " ".join(word.text for word in words)
    return Segment(start, 2.0, source, words, {"de": target}, usable=usable)


def talk(folder: Path, number: int) -> Talk:
    """A talk of five to nine sentences; every third talk has one that is not usable."""
    count = 5 + number % 5
    segments = tuple(
        segment(0.7 + 3.1 * place, number, usable=number % 3 > 0 or place != 2)
        for place in range(count)
    )
    name = f"tälk, {number}"
    return Talk(name, folder / f"{number}.wav", 3.1 * count + 1, "en", segments, offset=1.5)


@pytest.fixture
def talks(tmp_path: Path) -> list[Talk]:
    made = [talk(tmp_path, number) for number in range(12)]
    manifest.write(tmp_path / "train.jsonl", made)
    return made


def stored(folder: Path, **options: str) -> StoredTalks:
    found = Aligned(folder=str(folder), lazy=True, **options).stored_talks("train")  # type: ignore[arg-type]
    assert isinstance(found, StoredTalks)
    return found


def whole(one: Talk) -> Talk:
    return replace(one, segments=tuple(one.segments))


def test_talks_are_the_usable_parts_of_all_talks(tmp_path: Path, talks: list[Talk]) -> None:
    found = stored(tmp_path)
    assert [whole(one) for one in found] == list(usable_parts(talks))
    assert len(found) > len(talks)
    assert found.content_hash == content_hash(talks)
    assert found.hours == pytest.approx(sum(one.duration for one in found) / 3600)
    assert usable_parts(found) is found
    assert [one.name for one in found[2:4]] == [found[2].name, found[3].name]
    assert found[-1].name == talks[-1].name


def test_an_outline_has_the_times(tmp_path: Path, talks: list[Talk]) -> None:
    for one in stored(tmp_path):
        for known, decoded in zip(one.outline, one.segments, strict=True):
            assert (known.offset, known.end) == (decoded.offset, decoded.end)
            assert known.words[0].start == decoded.words[0].start
            assert known.words[0].end == decoded.words[0].end


def test_other_ways_to_write_the_same_json_are_read(tmp_path: Path, talks: list[Talk]) -> None:
    lines = (tmp_path / "train.jsonl").read_text().splitlines()
    items = [dict(reversed(json.loads(line).items())) for line in lines]
    (tmp_path / "train.jsonl").write_text(
        "".join(f"  {json.dumps(item, separators=(' , ', ' :  '))} \r\n" for item in items)
    )
    assert [whole(one) for one in stored(tmp_path)] == list(usable_parts(talks))


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_samplers_make_the_same_examples(
    tmp_path: Path, talks: list[Talk], sampling: Sampling
) -> None:
    parts = usable_parts(talks)
    found = stored(tmp_path)
    options = {"target": GERMAN, "chunk_seconds": 0.96, "stretches": Stretches((2, 4), (1, 2))}
    eager = sampling.sampler(parts, **options)  # type: ignore[arg-type]
    lazy = sampling.sampler(list(found), **options)  # type: ignore[arg-type]
    for kind in range(len(eager.kinds)):
        plans = [one.plan(kind, np.random.default_rng(1)) for one in (eager, lazy)]
        np.testing.assert_array_equal(plans[0].positions, plans[1].positions)
        np.testing.assert_array_equal(plans[0].seconds, plans[1].seconds)
        examples = [
            one.examples(kind, plans[0].positions[:6], np.random.default_rng(2))
            for one in (eager, lazy)
        ]
        for first, second in zip(*examples, strict=True):
            decoded = replace(second, talk=whole(second.talk))  # type: ignore[attr-defined, type-var]
            assert decoded == first


def windowed(folder: Path, windows: int) -> WindowedSampler:
    found = stored(folder)

    def make(talks: "list[Talk]", windows: int) -> Sampler:
        options = {"target": GERMAN, "chunk_seconds": 0.96, "stretches": Stretches((2,), (1,))}
        return ExcerptConfig().sampler(talks, **options)  # type: ignore[arg-type]

    return WindowedSampler(found, make, hours=found.hours / windows)  # type: ignore[arg-type]


def test_the_windows_of_a_pass_have_every_talk_once(tmp_path: Path, talks: list[Talk]) -> None:
    sampler = windowed(tmp_path, 4)
    assert sampler.windows(0) == 4
    orders = []
    for number_of_pass in range(2):
        windows = [sampler.window(4 * number_of_pass + place) for place in range(4)]
        orders.append([one.name for window in windows for one in window.talks])  # type: ignore[attr-defined]
        assert sorted(orders[-1]) == sorted(one.name for one in sampler._talks)
    assert orders[0] != orders[1]


def test_a_resumed_schedule_has_the_same_batches(tmp_path: Path, talks: list[Talk]) -> None:
    limits = Limits(20.0)
    whole_run = Schedule(windowed(tmp_path, 4), limits, steps=60, batches=2, seed=[3])
    expected = [
        (step, part, whole_run.examples(step, part)) for step in range(60) for part in (0, 1)
    ]
    assert whole_run.passes(59) > 1
    resumed = Schedule(windowed(tmp_path, 4), limits, steps=60, batches=2, seed=[3])
    for step, part, examples in expected[70:]:
        assert [(e.talk.name, e.start, e.end, e.target) for e in resumed.examples(step, part)] == [  # type: ignore[attr-defined]
            (e.talk.name, e.start, e.end, e.target)  # type: ignore[attr-defined]
            for e in examples
        ]


def test_a_window_is_made_once(tmp_path: Path, talks: list[Talk]) -> None:
    sampler = windowed(tmp_path, 4)
    made: list[int] = []
    make = sampler._make
    sampler._make = lambda *given: made.append(1) or make(*given)  # type: ignore[func-returns-value]
    schedule = Schedule(sampler, Limits(20.0), steps=40, batches=1, seed=[3])
    for step in range(40):
        schedule.examples(step, 0)
        schedule.passes(step)
        assert sampler.kinds
    windows = schedule.passes(39) * 4
    assert len(made) <= 2 * windows + 3  # the kinds of examples reach a window one after the other


def test_passes_and_their_steps_count_all_windows(tmp_path: Path, talks: list[Talk]) -> None:
    limits = Limits(20.0)
    schedule = Schedule(windowed(tmp_path, 4), limits, steps=200, batches=1, seed=[3])
    steps = next(step for step in range(200) if schedule.passes(step) >= 1)
    assert schedule.steps_per_pass == pytest.approx(steps, rel=0.4)


def test_the_index_is_made_once_and_again_for_another_manifest(
    tmp_path: Path, talks: list[Talk]
) -> None:
    index = tmp_path / "train.jsonl.index" / "index.json"
    stored(tmp_path)
    before = index.stat().st_mtime_ns
    stored(tmp_path)
    assert index.stat().st_mtime_ns == before
    manifest.write(tmp_path / "train.jsonl", talks[:3])
    assert len(stored(tmp_path)) == len(usable_parts(talks[:3]))
    (tmp_path / "train.jsonl.index" / "segments.bin").unlink()
    assert [whole(one) for one in stored(tmp_path)] == list(usable_parts(talks[:3]))


def test_an_index_that_came_with_the_manifest_is_not_used(
    tmp_path: Path, talks: list[Talk]
) -> None:
    """Size and time of modification are those that the index has, as an archive can set them."""
    path = tmp_path / "train.jsonl"
    stored(tmp_path)
    facts = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"duration": 2.0', b'"duration": 0/0'))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert path.stat().st_size == facts.st_size
    with pytest.raises(ZooError, match="line 1"):
        stored(tmp_path)


def test_a_folder_that_is_not_writable_has_its_index_in_the_cache(
    tmp_path: Path, talks: list[Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(manifest_index.os, "access", lambda *_: False)
    assert len(stored(tmp_path)) == len(usable_parts(talks))
    assert not (tmp_path / "train.jsonl.index").exists()
    assert len(list((tmp_path / "cache").glob("index-*/train.jsonl.index"))) == 1


def test_segments_without_alignment_can_be_left_out(tmp_path: Path, talks: list[Talk]) -> None:
    bare = replace(talks[1].segments[1], targets={"de": Target("Ohne.")})
    first, _, *rest = talks[1].segments
    talks[1] = replace(talks[1], segments=(first, bare, *rest))
    manifest.write(tmp_path / "train.jsonl", talks)
    eager = Aligned(folder=str(tmp_path), unaligned="skip").talks("train")
    expected = list(usable_parts(eager))
    found = stored(tmp_path, unaligned="skip")
    assert [[one.source for one in part.segments] for part in found] == [
        [one.source for one in part.segments] for part in expected
    ]
    assert len(stored(tmp_path)) == len(expected) - 1  # another choice has another index


def test_languages_are_checked_by_the_index(tmp_path: Path, talks: list[Talk]) -> None:
    found = stored(tmp_path)
    found.check(source="en", target="de")
    with pytest.raises(ZooError, match=r"'tälk, 0.*' is spoken in 'en', not in 'fr'"):
        found.check(source="fr", target="de")
    with pytest.raises(ZooError, match=r"translation into 'es'; all have: de\."):
        found.check(source="en", target="es")


@pytest.mark.parametrize(
    ("line", "message"),
    [("{}", "line 13"), ("nothing", "line 13"), (None, "earlier talk has the name 'tälk, 0'")],
)
def test_a_damaged_manifest_is_named(
    tmp_path: Path, talks: list[Talk], line: str | None, message: str
) -> None:
    path = tmp_path / "train.jsonl"
    with path.open("a") as file:
        file.write(path.read_text().splitlines()[0] if line is None else line)
    with pytest.raises(ZooError, match=message):
        stored(tmp_path)
    assert not (tmp_path / "train.jsonl.index").exists()


def test_a_manifest_without_segments_is_refused(tmp_path: Path, talks: list[Talk]) -> None:
    manifest.write(tmp_path / "train.jsonl", [replace(one, segments=()) for one in talks])
    with pytest.raises(ZooError, match="no segments to train on"):
        stored(tmp_path)


def test_only_trainings_on_all_talks_are_lazy(tmp_path: Path, talks: list[Talk]) -> None:
    corpus = Aligned(folder=str(tmp_path), lazy=True)
    assert isinstance(training_talks(corpus, "train"), StoredTalks)
    assert training_talks(corpus, "train", limit=2) == talks[:2]
    assert corpus.talks("train") == talks
    assert training_talks(Aligned(folder=str(tmp_path)), "train") == talks


def test_the_file_is_read_in_forked_workers(tmp_path: Path, talks: list[Talk]) -> None:
    found = stored(tmp_path)
    one = found[3]
    child = os.fork()
    if child == 0:
        os._exit(0 if one.segments[0].source.startswith("wörd") else 1)
    assert one.segments[1].source.startswith("wörd")
    assert os.waitpid(child, 0)[1] == 0
