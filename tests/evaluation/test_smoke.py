"""smoke=true: the shipped model passes all checks, broken models fail; checks by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.evaluation.conftest import Evaluate
from zoo.backbones.base import Backbone
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target
from zoo.base.types import Capability, Hypothesis, Instance, Request, SpeechOutput
from zoo.config import build, compose
from zoo.data.corpora import MiniTalks
from zoo.evaluation import smoke
from zoo.evaluation.smoke import Output
from zoo.history.keep_all import KeepAll
from zoo.policies.wait_k import WaitK
from zoo.streaming.session import Session
from zoo.systems.base import StreamingSystem

SOURCES = ("The small house is old.", "We read the long letter.", "My sister never sleeps.")
REFERENCES = (
    "Das kleine Haus ist alt.",
    "Wir lesen den langen Brief.",
    "Meine Schwester schläft nie.",
)
ENDED, NO_OUTPUT, PACE = (
    "turns that end by themselves",
    "sentences with any output",
    "words per second of speech",
)
OTHER_REFERENCE, REPEATED, FOREIGN = (
    "closest to their own reference",
    "repeated 4-grams",
    "letters that are not German",
)
COPIED, LATE = "words of the source", "sentences begun before they end"


def instance(text: str, *, first: float = 1.0, code: str = "de") -> Instance:
    """``text`` in a sentence of five seconds, a unit every tenth of a second."""
    target = language(code)
    units = tuple(target.units(text))
    delays = tuple(first + place / 10 for place in range(len(units)))
    return Instance(0, "talk", 5.0, text, units, delays, delays, unit=target.unit)


def outputs_of(*texts: str, truncated: int = 0, **options: object) -> list[Output]:
    """Hypotheses for SOURCES; by default their references."""
    hypotheses = texts or REFERENCES
    return [
        Output(source, reference, instance(text, **options), turns=5, truncated=truncated)
        for source, reference, text in zip(SOURCES, REFERENCES, hypotheses, strict=True)
    ]


def wrong(found: Sequence[Output], code: str = "de", step: float = 1.0) -> set[str]:
    return {
        check.name for check in smoke.check_outputs(found, language(code), step) if not check.ok
    }


def test_a_correct_run_passes_all_checks() -> None:
    assert wrong(outputs_of()) == set()


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (outputs_of(truncated=1), {ENDED}),
        (outputs_of(REFERENCES[0], REFERENCES[1], ""), {NO_OUTPUT, OTHER_REFERENCE}),
        (outputs_of("Das", "Wir", "Meine"), {PACE}),
        (outputs_of(*(f"{text} Nun folgt noch viel anderes Zeug." for text in REFERENCES)), {PACE}),
        (outputs_of(REFERENCES[1], REFERENCES[0], REFERENCES[2]), {OTHER_REFERENCE}),
        (outputs_of(REFERENCES[0], REFERENCES[1], "Meine Schwester ja ja ja ja ja"), {REPEATED}),
        (outputs_of(REFERENCES[0], REFERENCES[1], "Meine сестра не спит."), {FOREIGN}),
        (
            outputs_of(
                REFERENCES[0],
                REFERENCES[1],
                "Meine \ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd schläft nie.",
            ),
            {FOREIGN},
        ),
        (
            outputs_of("Das small house is old.", "We read the langen Brief.", REFERENCES[2]),
            {COPIED},
        ),
        (outputs_of(first=5.0), {LATE}),
    ],
)
def test_each_check_sees_its_own(found: list[Output], names: set[str]) -> None:
    assert wrong(found) == names


def test_short_sentences_cannot_be_begun_early() -> None:
    assert wrong(outputs_of(first=5.0), step=2.5) == set()


def test_synthesised_speech_is_transcribed_and_scored() -> None:
    def outputs_with_speech(seconds: float) -> list[Output]:
        speech = (SpeechOutput(torch.full((round(seconds * 16_000),), 0.5), 1.0, 1.0, 0, ""),)
        return [replace(one, instance=replace(one.instance, speech=speech)) for one in outputs_of()]

    for found, passed in (
        (outputs_with_speech(2.0), True),
        (outputs_with_speech(30.0), False),
        (outputs_with_speech(0.0), False),
        (outputs_of(), False),
    ):
        assert [
            check.ok for check in smoke.check_outputs(found, language("de"), 1.0, with_speech=True)
        ] == [True] * 8 + [passed]
    assert len(smoke.check_outputs(outputs_of(), language("de"), 1.0)) == 8


def test_characters_count_and_names_may_keep_their_letters() -> None:
    references = ("这座小房子很旧了。", "我们读那封很长的信。", "David从来不睡觉也不休息。")
    found = [
        Output(source, reference, instance(reference, code="zh"), turns=1)
        for source, reference in zip(SOURCES, references, strict=True)
    ]
    assert wrong(found, "zh") == set()  # David: 5 of 31 letters
    found[0] = replace(found[0], instance=instance("This house is old.", code="zh"))
    assert wrong(found, "zh") == {"letters that are not Chinese", OTHER_REFERENCE}
    [pace] = [
        check
        for check in smoke.check_outputs(found[1:], language("zh"), 1.0)
        if "per second" in check.name
    ]
    assert (pace.name, pace.value) == ("characters per second of speech", "2.50")


class Knowing(Backbone):
    """An offline model whose hypothesis is the reference up to the received audio."""

    exposes = frozenset({Capability.PREFIX})
    frame_samples = 320

    def __init__(self, texts: dict[str, str], seconds: dict[str, float]) -> None:
        super().__init__()
        self.words = {name: text.split() for name, text in texts.items()}
        self.seconds = seconds
        self.known = sorted({word for words in self.words.values() for word in words})
        self.weight = torch.nn.Parameter(torch.zeros(2))

    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        return [self._answer(session) for session in sessions]

    def _answer(self, session: Session) -> Hypothesis:
        words = self.words[session.talk]
        share = (
            1.0
            if session.source_ended
            else session.received_samples / 16_000 / self.seconds[session.talk]
        )
        ids = torch.tensor(
            [self.known.index(word) for word in words[: int(share * len(words))]], dtype=torch.long
        )
        prefix = session.prefix_ids.numel()
        return Hypothesis(
            ids[prefix:],
            torch.ones(max(len(ids), prefix), dtype=torch.bool),
            prefix_length=prefix,
            finished=True,
        )

    def text(self, token_ids: list[int]) -> str:
        return "".join(f" {self.known[token]}" for token in token_ids)


def offline_system(talks: Sequence[Talk]) -> StreamingSystem:
    texts = {talk.name: talk.segments[0].targets["de"].text for talk in talks}
    return StreamingSystem(
        name="offline",
        backbone=Knowing(texts, {talk.name: talk.duration for talk in talks}),
        policy=WaitK(k=1),
        history=KeepAll(),
        source_language="en",
        target_language="de",
        chunk_seconds=0.5,
    )


@pytest.fixture(scope="module")
def talks() -> list[Talk]:
    return smoke.pick_sentences(MiniTalks(), "tst")


def test_speech_of_any_system_can_be_synthesised(talks: list[Talk]) -> None:
    system = offline_system(talks)
    found = smoke.translate(system, talks)
    assert [one.instance.text for one in found] == [
        talk.segments[0].targets["de"].text for talk in talks
    ]
    assert all(one.turns > 3 and one.truncated == 0 for one in found)
    assert "decode" not in vars(system.backbone)
    assert wrong(found, step=0.5) == set()
    assert smoke.check_weights(system).ok
    system.backbone.weight.data[1] = torch.nan
    bad = smoke.check_weights(system)
    assert (bad.ok, bad.value) == (False, "1")
    assert "weight" in bad.causes


def test_sentences_of_several_turns_are_chosen(talks: list[Talk]) -> None:
    assert len(talks) == smoke.SENTENCES
    assert all(
        smoke.SHORTEST <= talk.duration <= smoke.LONGEST and len(talk.segments) == 1
        for talk in talks
    )


class Given:
    """A corpus of talks of one segment each, ``lengths`` in seconds."""

    name = "given"

    def __init__(self, *lengths: float) -> None:
        self.lengths = lengths

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        segments = [
            Segment(0.0, length, "a", targets={"de": Target("b")}) for length in self.lengths
        ]
        return [Talk(split, None, segment.end, "en", (segment,)) for segment in segments][:limit]


def test_more_talks_are_asked_for_where_one_is_not_enough() -> None:
    found = smoke.pick_sentences(Given(4, 2.9, 15, 3, 16, 9, 8, 7), "tst")
    assert [talk.duration for talk in found] == [4, 15, 3, 9, 8]
    with pytest.raises(ZooError, match="needs 5 sentences of 3 to 15 s, but 'dev' has only 2"):
        smoke.pick_sentences(Given(4, 2.9, 15), "dev")


def test_the_shipped_model_passes(evaluate: Evaluate, here: Path) -> None:
    result = evaluate("smoke=true", "logger=csv", tiny=False)
    assert result.code == 0, result.out
    assert "passed: all 9 checks" in result.out
    assert "21 turns" in result.out
    assert "hypothesis [0.96 s] " in result.out
    assert list(here.iterdir()) == []


def test_random_weights_fail(evaluate: Evaluate, here: Path) -> None:
    result = evaluate("smoke=true", "evaluation.knob_values=[2]")
    assert result.code == 1
    assert "FAILED" in result.out
    assert "1.92 s per step" in result.out
    assert (
        "closest to their own reference: often the audio does not reach the decoder" in result.out
    )
    assert "failed: " in result.out.splitlines()[-1]
    assert list(here.iterdir()) == []


def test_a_turn_stopped_at_its_limit_is_counted() -> None:
    limit = [
        "++backbone.search.tokens_per_chunk=1",
        "backbone.search.beams=1",
        "system.latency_multiplier=1",
    ]
    system: StreamingSystem = build(compose("evaluate", limit).system)
    system.configure_model()
    found = smoke.translate(system, smoke.pick_sentences(MiniTalks(), "tst")[:1])
    num_units = sum(unit != "" for unit in found[0].instance.units)
    assert (found[0].turns, found[0].truncated > 0, num_units <= 4) == (4, True, True)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["smoke=maybe"], "Unknown value of smoke 'maybe'; choose one of: true, false."),
        (["smoke=true", "source_language=de"], "is spoken in 'en', not in 'de'"),
        (
            ["smoke=true", "evaluation.knob_values=[0]"],
            "Knob m must be a whole number of at least 1, not 0",
        ),
    ],
)
def test_bad_input_is_an_error_of_one_sentence(
    evaluate: Evaluate, given: list[str], sentence: str
) -> None:
    result = evaluate(*given)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err


def test_a_recorded_system_has_nothing_to_stream(evaluate: Evaluate) -> None:
    result = evaluate(
        "smoke=true", "system=replay", "data=recorded", "system.log=x", "logger=csv", tiny=False
    )
    assert result.code == 2
    assert "nothing to stream" in result.err
