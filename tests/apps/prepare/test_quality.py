"""The optional steps: WER of a recogniser, and estimates of COMET models without references."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from tests.fixtures.comet_environment import calls, imitation
from zoo.alignment.recognisers.named import NamedRecogniser
from zoo.apps.prepare.items import Item, Notes, new_item
from zoo.apps.prepare.steps.estimation import EstimationSettings, EstimationStep
from zoo.apps.prepare.steps.filters import Filters, FiltersStep
from zoo.apps.prepare.steps.recognition import RecognitionStep
from zoo.base.errors import ZooError
from zoo.base.talks import Target
from zoo.data.corpora import Aligned


@pytest.fixture
def item(corpus: Path) -> Item:
    """Segments "Good cats sleep.", "(Laughter)", which is not usable, and "One, two."."""
    talk = Aligned(folder=str(corpus)).talks("train")[0]
    found = new_item(talk)
    return replace(found, notes=(Notes(), Notes("only sounds"), Notes()))


class Cats:
    """A recogniser that recognises one sentence in everything, and remembers the lengths."""

    name = "cats"
    language = "en"

    def unavailable_reason(self) -> None: ...

    def load(self, device: object = None) -> None:
        self.lengths: list[float] = []

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        self.lengths += [len(wave) / 16000 for wave in waves]
        return ["good cats"] * len(waves)


def test_a_missing_recogniser_is_refused_before_other_steps_work() -> None:
    step = RecognitionStep(NamedRecogniser(name="/nowhere/recogniser", optional=True))
    with pytest.raises(ZooError, match=r"no recogniser: No recogniser .* from /nowhere/recogniser"):
        step.check()


def test_the_wer_is_that_of_normalised_texts(item: Item) -> None:
    recogniser = Cats()
    step = RecognitionStep(recogniser)
    step.load()
    [found] = step([item])
    assert recogniser.lengths == [1.5, 1.5]
    # one of three words is missing; "One, two." is normalised to the one word 12
    assert [note.scores for note in found.notes] == [{"WER": 33.33}, {}, {"WER": 200.0}]
    assert [note.recognised for note in found.notes] == ["good cats", "", "good cats"]
    [kept] = FiltersStep(Filters(max_wer=50))([found])
    assert [note.reason for note in kept.notes] == ["", "only sounds", "WER"]
    [kept] = FiltersStep(Filters())([found])
    assert [note.reason for note in kept.notes] == ["", "only sounds", ""]


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An imitated environment, with an empty cache."""
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path / "cache"))
    return imitation(tmp_path)


def test_estimates_are_of_what_was_recognised(item: Item, python: Path) -> None:
    targets = {"de": Target("Good Katzen sleep.")}
    segments = {place: replace(item.talk.segments[place], targets=targets) for place in (0, 2)}
    item = item.with_segments(segments, {2: Notes(scores={"WER": 0.0}, recognised="Good dogs")})
    step = EstimationStep(EstimationSettings(model="kiwi", python=str(python)))
    step.check()
    step.load()
    found = step([item, item])
    # the share of the words of the source that the translation has: 2 of 3, and 1 of 2
    for one in found:
        assert one.notes[0].scores == {"estimate de": 0.6667}
        assert one.notes[2].scores == {"WER": 0.0, "estimate de": 0.5}
    assert all("estimate de" not in one.notes[1].scores for one in found)  # a sound
    assert calls(python) == ["check 1", "score 2"]  # equal texts are scored once
    [kept] = FiltersStep(Filters(min_estimate=0.6))(found[:1])
    assert [note.reason for note in kept.notes] == ["", "only sounds", "estimated quality"]


def test_models_and_environments_that_cannot_be_used_are_named(python: Path) -> None:
    with pytest.raises(ZooError, match="wmt22-comet-da reads references"):
        EstimationStep(EstimationSettings(model="wmt22-comet-da", python=str(python))).check()
    with pytest.raises(ZooError, match=r"estimation\.python: there is no file nowhere"):
        EstimationStep(EstimationSettings(python="nowhere")).check()
