"""A mixture with lazy corpora: the same talks and examples, decoded when they are needed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.data.test_lazy_manifest import talk, whole
from tests.data.test_mixture import audio_shares, drawn, settings
from zoo.base.errors import ZooError
from zoo.base.talks import LazyTalks, Talk, Target
from zoo.data import manifest, windows
from zoo.data.corpora import Aligned, Corpus, training_talks
from zoo.data.mixture import Mixture, MixtureEntry
from zoo.data.views import usable_parts
from zoo.training.preparation import make_samplers
from zoo.training.schedule import Limits, Schedule

LARGE, SMALL = 20, 6  # talks
HOUR = {"non_streaming": 1.0}


def translated(one: Talk) -> Talk:
    """The talk with a Spanish translation of every segment, too."""
    segments = [
        replace(segment, targets={**segment.targets, "es": Target(f"es:{segment.source}")})
        for segment in one.segments
    ]
    return replace(one, segments=tuple(segments))


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Folders with a large and a small manifest."""
    made = {}
    for name, count in (("large", LARGE), ("small", SMALL)):
        folder = tmp_path / name
        folder.mkdir()
        manifest.write(
            folder / "train.jsonl", [translated(talk(folder, number)) for number in range(count)]
        )
        made[name] = folder
    return made


def mixture(
    folders: Mapping[str, Path], lazy: tuple[str, ...] = ("large", "small"), **given: Any
) -> Mixture:
    """A mixture of the large corpus in German and the small one in Spanish, one hour of each."""
    corpora: dict[str, Corpus] = {
        name: Aligned(folder=str(folder), lazy=name in lazy) for name, folder in folders.items()
    }
    options: dict[str, dict[str, Any]] = {
        "large": {"source_language": "en", "target_language": "de", "hours": HOUR},
        "small": {"source_language": "en", "target_language": "es", "hours": HOUR},
    }
    for name, changes in given.items():
        options[name] |= changes
    return Mixture(
        entries={
            name: MixtureEntry(corpus=corpora[name], **options[name])  # type: ignore[arg-type]
            for name in folders
        }
    )


def small_windows(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """Give the windows of a pass some hours of talks."""
    monkeypatch.setattr(windows.WindowedSampler.__init__, "__kwdefaults__", {"hours": hours})


def lazy_talks(corpus: Mixture) -> LazyTalks:
    found = training_talks(corpus, "train")
    assert isinstance(found, LazyTalks)
    return found


@pytest.mark.parametrize("lazy", [("large", "small"), ("small",)])
def test_the_talks_are_those_of_the_mixture_without_lazy_corpora(
    folders: dict[str, Path], lazy: tuple[str, ...]
) -> None:
    whole_mixture = mixture(folders, lazy=())
    assert not whole_mixture.lazy
    expected = list(usable_parts(training_talks(whole_mixture, "train")))
    found = lazy_talks(mixture(folders, lazy))
    assert [whole(one) for one in found] == expected
    assert len(found) == len(expected)
    assert found.hours == pytest.approx(sum(one.duration for one in expected) / 3600)
    assert [one.name for one in found[-2:]] == [one.name for one in expected[-2:]]
    assert found[-1].share == expected[-1].share
    in_memory = {one.name.partition("-")[0] for one in found.decoded}
    assert in_memory == {"large", "small"} - set(lazy)


def test_a_limit_reads_whole_talks(folders: dict[str, Path]) -> None:
    found = training_talks(mixture(folders), "train", limit=2)
    assert not isinstance(found, LazyTalks)
    assert len(found) == 4


def test_the_hash_follows_the_talks_of_every_entry(folders: dict[str, Path]) -> None:
    before = lazy_talks(mixture(folders)).content_hash
    assert lazy_talks(mixture(folders)).content_hash == before
    manifest.write(folders["small"] / "train.jsonl", [translated(talk(folders["small"], 1))])
    assert lazy_talks(mixture(folders)).content_hash != before


@pytest.mark.parametrize("hours_of_a_window", [100.0, 0.02])
def test_shares_and_translations_are_those_of_the_entries(
    folders: dict[str, Path], hours_of_a_window: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, hours_of_a_window)
    steps = drawn(lazy_talks(mixture(folders)), Limits(8.0), steps=600)
    shares = audio_shares(steps)
    assert shares == pytest.approx(
        {("de", "non_streaming"): 0.5, ("es", "non_streaming"): 0.5}, abs=0.1
    )
    for one in (one for step in steps for one in step):
        assert one.talk.name.startswith("large-" if one.language.code == "de" else "small-")
        assert one.translation.startswith("es:") == (one.language.code == "es")


def scheduled(talks: LazyTalks, steps: int) -> Schedule:
    """The schedule of StreamUni's fine-tuning, with small windows."""
    system, given = settings()
    sampler = make_samplers(system, talks, given)["chains_of_thought"]
    return Schedule(sampler, Limits(8.0), steps=steps, batches=1, seed=[0])


def test_every_share_has_windows_and_passes_of_its_own(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The large share has several windows per pass, the small one has one."""
    small_windows(monkeypatch, 0.04)
    talks = lazy_talks(mixture(folders))
    schedule = scheduled(talks, 400)
    first, second = (schedule._sampler.windows(kind) for kind in (0, 1))
    assert first > second == 1
    steps = [schedule.examples(step, 0) for step in range(400)]
    times_drawn = Counter(
        (one.talk.name, round(one.talk.offset + one.start, 2))  # type: ignore[attr-defined]
        for step in steps
        for one in step
    )
    for name in ("large-", "small-"):
        counts = [count for (talk, _), count in times_drawn.items() if talk.startswith(name)]
        sentences = sum(len(one.segments) for one in talks if one.name.startswith(name))
        assert len(counts) == sentences
        assert max(counts) - min(counts) <= 1  # a pass is complete before the next one begins
    assert schedule.passes(400) == pytest.approx(400 / schedule.steps_per_pass, rel=0.2)


def test_a_resumed_schedule_has_the_same_examples(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, 0.02)

    def names(schedule: Schedule, step: int) -> list[tuple[str, float]]:
        examples: Any = schedule.examples(step, 0)
        return [(one.talk.name, one.talk.offset + one.start) for one in examples]

    uninterrupted = scheduled(lazy_talks(mixture(folders)), 120)
    expected = [names(uninterrupted, step) for step in range(120)]
    resumed = scheduled(lazy_talks(mixture(folders)), 120)
    assert [names(resumed, step) for step in range(70, 120)] == expected[70:]


def test_wrong_directions_are_errors_of_one_sentence(folders: dict[str, Path]) -> None:
    with pytest.raises(ZooError, match=r"is spoken in 'en', not in 'fr'\.$"):
        lazy_talks(mixture(folders, small={"source_language": "fr"}))
    with pytest.raises(ZooError, match="have not all a translation into 'zh'; all have: de, es"):
        lazy_talks(mixture(folders, small={"target_language": "zh"}))
