"""A mixture: every talk in the direction of its entry, kinds and hours as the entry has them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.data.test_chain_of_thought import TALK
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import Seconds
from zoo.config import build, compose
from zoo.data.chain_of_thought import SpeechChainOfThought
from zoo.data.mixture import Mixture, MixtureEntry, by_direction
from zoo.evaluation.talks import of_directions
from zoo.training.preparation import development_samplers, make_samplers
from zoo.training.schedule import Limits, Schedule
from zoo.training.settings import TrainingSettings

EN, DE, ES, ZH = (language(code) for code in ("en", "de", "es", "zh"))
SENTENCE = 3.0  # seconds of every sentence


def translated(segment: Segment) -> Segment:
    """Add Spanish and Chinese translations, which contain the German one."""
    text = segment.targets["de"].text
    more = {code: Target(f"{code}:{text}") for code in ("es", "zh")}
    return replace(segment, targets={**segment.targets, **more})


TRANSLATED = replace(TALK, segments=tuple(map(translated, TALK.segments)))


@dataclass
class Copies:
    """A corpus of copies of one talk, in every split."""

    count: int
    talk: Talk = TRANSLATED
    name: str = "copies"

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        return [replace(self.talk, name=f"{split}{k}") for k in range(self.count)][:limit]


def mixture(**entries: tuple[int, str, Mapping[str, float]]) -> Mixture:
    """A mixture of entries with a number of talks, a target language and hours."""
    return Mixture(
        entries={
            name: MixtureEntry(
                corpus=Copies(count), source_language="en", target_language=target, hours=hours
            )
            for name, (count, target, hours) in entries.items()
        }
    )


def settings() -> tuple[Any, TrainingSettings]:
    """The system and settings of StreamUni's fine-tuning, without the published weights."""
    cfg = compose("train", ["experiment=streamuni_paper"])
    return build(cfg.system), build(cfg.training)


def drawn(talks: Sequence[Talk], limits: Limits, *, steps: int) -> list[list[SpeechChainOfThought]]:
    """The examples of each step, in two batches per step."""
    system, given = settings()
    sampler = make_samplers(system, talks, given)["chains_of_thought"]
    schedule = Schedule(sampler, limits, steps=steps, batches=2, seed=[0])
    found: list[Any] = [
        [*schedule.examples(step, 0), *schedule.examples(step, 1)] for step in range(steps)
    ]
    return found


def audio_shares(steps: Sequence[Sequence[SpeechChainOfThought]]) -> dict[tuple[str, str], float]:
    """The share of the audio of each target language and kind."""
    seconds: Counter[tuple[str, str]] = Counter()
    for one in (one for step in steps for one in step):
        seconds[one.language.code, one.kind] += one.seconds  # type: ignore[assignment]
    return {key: value / sum(seconds.values()) for key, value in seconds.items()}


@pytest.mark.parametrize("limits", [Limits(6.0), Limits(60.0, examples=4)])
def test_shares_of_the_audio_are_those_of_the_hours(limits: Limits) -> None:
    """As in the paper, but for one direction less; cut sentences are half as long on average."""
    talks = mixture(
        to_zh=(36, "zh", {"streaming": 50, "non_streaming": 50}),
        to_de=(12, "de", {"non_streaming": 100}),
        to_es=(20, "es", {"non_streaming": 100}),
    ).talks("train")
    steps = drawn(talks, limits, steps=1500)
    assert audio_shares(steps) == pytest.approx(
        {
            ("zh", "streaming"): 1 / 6,
            ("zh", "non_streaming"): 1 / 6,
            ("de", "non_streaming"): 1 / 3,
            ("es", "non_streaming"): 1 / 3,
        },
        abs=0.03,
    )
    assert all(len({(one.language, one.kind) for one in step}) == 1 for step in steps)


def test_an_example_has_the_translation_of_its_direction() -> None:
    talks = mixture(a=(2, "de", {"non_streaming": 1}), b=(2, "zh", {"streaming": 1})).talks("train")
    for one in (one for step in drawn(talks, Limits(30.0), steps=40) for one in step):
        assert one.talk.name.startswith("a-" if one.language == DE else "b-")
        assert one.talk.share
        assert one.talk.share.target_language == one.language.code
        if one.translation:
            assert one.translation.startswith("zh:") == (one.language == ZH)


def seconds_of(steps: Sequence[Sequence[SpeechChainOfThought]], target: str) -> Seconds:
    """The duration of the different sentences of one target language."""
    sentences = {
        (one.talk.name, one.transcript)
        for step in steps
        for one in step
        if one.language.code == target
    }
    return len(sentences) * SENTENCE


def test_hours_limit_the_sentences_of_an_entry_and_of_no_other() -> None:
    hour = 1 / 3600
    talks = mixture(
        a=(4, "de", {"non_streaming": 30 * hour}), b=(4, "es", {"non_streaming": 60 * hour})
    ).talks("train")
    steps = drawn(talks, Limits(12.0), steps=200)
    assert seconds_of(steps, "de") == 30
    assert seconds_of(steps, "es") == 60


def test_development_losses_have_all_sentences_in_the_shares_of_the_mixture() -> None:
    system, given = settings()
    hour = 1 / 3600
    talks = mixture(
        a=(2, "de", {"non_streaming": 3 * hour}), b=(1, "es", {"non_streaming": 9 * hour})
    ).talks("dev")
    sampler = development_samplers(system, talks, given)["chains_of_thought"]
    assert list(sampler.kinds) == pytest.approx([0.25, 0.75])
    schedule = Schedule(sampler, Limits(12.0), steps=200, batches=2, seed=[0])
    examples: list[Any] = [list(schedule.examples(step, 0)) for step in range(200)]
    assert seconds_of(examples, "de") == 2 * len(TALK.segments) * SENTENCE


def test_the_limit_of_talks_holds_for_each_entry_and_names_are_unique() -> None:
    both = mixture(a=(4, "de", {"non_streaming": 1}), b=(2, "zh", {"non_streaming": 1}))
    assert len(both.talks("dev", limit=3)) == 5
    names = [talk.name for talk in both.talks("dev", limit=1)]
    assert names == ["a-dev0", "b-dev0"]
    assert both.directions == [(EN, DE), (EN, ZH)]


def test_talks_of_one_direction_are_found_for_an_evaluation() -> None:
    talks = mixture(a=(2, "de", {"non_streaming": 1}), b=(1, "zh", {"non_streaming": 1})).talks("x")
    assert [talk.name for talk in of_directions(talks, [(EN, ZH)])] == ["b-x0"]
    groups = by_direction([*talks, TRANSLATED], (EN, ES))
    assert {target.code: len(group) for (_, target), group in groups.items()} == {
        "de": 2,
        "zh": 1,
        "es": 1,
    }


def test_wrong_entries_are_errors_of_one_sentence() -> None:
    with pytest.raises(ZooError, match=r"^data=mixture needs data\.entries, a corpus with"):
        Mixture(entries={}).talks("train")
    with pytest.raises(ZooError, match=r"^data\.entries\.a needs hours, such as"):
        mixture(a=(1, "de", {}))
    with pytest.raises(ZooError, match=r"^data\.entries\.a.*hours\.non_streaming"):
        mixture(a=(1, "de", {"non_streaming": 0}))
    with pytest.raises(ZooError, match=r"^Unknown language 'xx'"):
        mixture(a=(1, "xx", {"non_streaming": 1}))
    french = MixtureEntry(
        corpus=Copies(1), source_language="fr", target_language="en", hours={"non_streaming": 1}
    )
    with pytest.raises(ZooError, match=r"'train0' of data\.entries\.a is spoken in 'en', not in"):
        Mixture(entries={"a": french}).talks("train")
    talks = mixture(a=(1, "de", {"whole": 1})).talks("train")
    with pytest.raises(ZooError, match=r"^Unknown kind of chain of thought 'whole'"):
        drawn(talks, Limits(12.0), steps=1)
