"""Whole talks and single sentences on cases worked out by hand."""

from dataclasses import replace

import pytest

from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Target
from zoo.base.types import ChunkTime, Instance
from zoo.metrics.longform import relative_times, score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.resegmentation import Resegmentation, Resegmenter
from zoo.metrics.sentences import score_sentences

DE, ZH = language("de"), language("zh")
SEGMENTS = [ReferenceSegment(1.0, 2.0, "eins zwei"), ReferenceSegment(5.0, 2.0, "drei vier")]
CHUNKS = tuple(ChunkTime(float(second), 0.25) for second in range(1, 9))
TALK = Instance(
    index=0,
    talk="talk",
    source_length=8.0,
    text="eins zwei drei vier",
    units=("eins", "zwei", "drei", "vier"),
    delays=(2.0, 3.0, 6.0, 8.0),
    elapsed=(),
    reference="eins zwei drei vier",
    chunk_indices=(1, 2, 5, 7),
    chunks=CHUNKS,
)


def test_talk_by_hand() -> None:
    result = score_talks([TALK], [SEGMENTS], language=DE)
    values = {name: score.value for name, score in result.scores.items()}
    # segment 1: times 1, 2, pace 1: lags 1, 1. segment 2: 1, 3: lags 1, 2
    assert values["StreamLAAL"] == pytest.approx((1.0 + 1.5) / 2)
    # each chunk takes 0.25 s: everything is that much later; now 2.25 in segment 1 is still scored
    assert values["StreamLAAL_CA"] == pytest.approx((1.25 + 1.75) / 2)
    # the recording ends at 7.0: "vier" (8.0) does not count
    assert values["LongYAAL"] == pytest.approx((1.0 + 1.0) / 2)
    assert values["BLEU"] == pytest.approx(0, abs=100)
    assert values["DocBLEU"] == pytest.approx(100)
    assert values["StartOffset"] == 2.0
    assert values["EndOffset"] == 0.0
    assert values["EndOffset_CA"] == pytest.approx(0.25)
    assert values["RTF"] == pytest.approx(0.25)
    assert [segment.hypothesis for segment in result.segments] == ["eins zwei", "drei vier"]
    assert result.segments[1].delays == (1.0, 3.0)


@pytest.mark.parametrize("resegmentation", ["mwer", "soft"])
@pytest.mark.parametrize("rules", ["zoo", "simuleval", "omnisteval", "simulstream"])
def test_all_rules_run_and_sign(resegmentation: Resegmentation, rules: str) -> None:
    scores = score_talks(
        [TALK], [SEGMENTS], language=DE, resegmenter=Resegmenter(resegmentation), rules=rules
    ).scores
    assert f"length:{rules}" in scores["StreamLAAL"].signature
    assert f"reseg:{resegmentation}" in scores["BLEU"].signature
    assert "elapsed:queue" in scores["StreamLAAL_CA"].signature
    assert all(
        score.name == name and "simulzoo:" in score.signature for name, score in scores.items()
    )


def test_a_unit_at_the_end_of_its_segment_is_at_the_end() -> None:
    assert relative_times(27.4, [33.66]) == (6.26,)
    assert 33.66 - 27.4 < 6.26, "in seconds it is not"


def test_clamp_is_a_rule() -> None:
    early = replace(TALK, delays=(0.5, 3.0, 6.0, 8.0))
    clamped = score_talks([early], [SEGMENTS], language=DE).scores["StreamLAAL"]
    free = score_talks([early], [SEGMENTS], language=DE, rules="simulstream").scores["StreamLAAL"]
    assert clamped.value == pytest.approx(((0.0 + 1.0) / 2 + 1.5) / 2)
    assert free.value == pytest.approx(((-0.5 + 1.0) / 2 + 1.5) / 2)


@pytest.mark.parametrize(
    ("convention", "late"), [("queue", 0.25), ("chunk", 0.25), ("cumulative", None)]
)
def test_convention_is_a_choice(convention: str, late: float | None) -> None:
    score = score_talks(
        [TALK], [SEGMENTS], language=DE, convention=convention, repair=False
    ).scores["EndOffset_CA"]  # type: ignore[arg-type]
    assert score.value == pytest.approx(8 * 0.25 if late is None else late)
    assert f"elapsed:{convention}" in score.signature


def test_empty_hypothesis() -> None:
    silent = replace(TALK, text="", units=(), delays=(), chunk_indices=())
    scores = score_talks([silent], [SEGMENTS], language=DE).scores
    assert scores["BLEU"].value == 0.0
    assert scores["StreamLAAL"].value is None
    assert "StreamLAAL_CA" not in scores
    other = score_talks(
        [silent, replace(TALK, talk="other")], [SEGMENTS, SEGMENTS], language=DE
    ).scores
    assert (
        other["StreamLAAL"].value
        == score_talks([TALK], [SEGMENTS], language=DE).scores["StreamLAAL"].value
    )


def test_segment_without_length_is_skipped() -> None:
    segments = [SEGMENTS[0], ReferenceSegment(5.0, 0.0, "drei vier")]
    assert score_talks([TALK], [segments], language=DE).scores["StreamLAAL"].value == pytest.approx(
        1.0
    )


def test_characters_keep_the_spaces_of_the_text_but_do_not_count_them() -> None:
    units = tuple("你好AIxy模型")
    talk = replace(
        TALK,
        text="你好 AI xy模型",
        units=units,
        delays=tuple(range(1, 9)),
        unit="char",
        chunk_indices=(),
        chunks=(),
        reference="",
    )
    segments = [ReferenceSegment(0.0, 4.0, "你好 AI xy"), ReferenceSegment(4.0, 4.0, "模型")]
    result = score_talks([talk], [segments], language=ZH)
    assert [segment.hypothesis for segment in result.segments] == ["你好 AI xy", "模型"]
    # segment 1: times 1..6 up to 4, pace 4/6
    assert result.scores["StreamLAAL"].value == pytest.approx(
        (sum(t - (t - 1) * 4 / 6 for t in (1, 2, 3, 4)) / 4 + (3.0 + 4.0 - 2.0) / 2) / 2
    )


def test_batched_runs_are_tagged() -> None:
    scores = score_talks([replace(TALK, batched=True)], [SEGMENTS], language=DE).scores
    assert "|batched|" in scores["StreamLAAL_CA"].signature
    assert "|batched|" in scores["RTF"].signature
    assert "batched" not in scores["StreamLAAL"].signature


def test_recorded_log_signs_its_own_convention() -> None:
    recorded = replace(
        TALK, elapsed=(2.5, 3.5, 7.0, 9.5), convention="cumulative", chunks=(), chunk_indices=()
    )
    scores = score_talks([recorded], [SEGMENTS], language=DE, convention="queue").scores
    assert "elapsed:cumulative" in scores["StreamLAAL_CA"].signature
    assert "repair:fbk" in scores["StreamLAAL_CA"].signature
    assert "repair:omnisteval" in scores["LongYAAL_CA"].signature
    assert "RTF" not in scores
    raw = score_talks([recorded], [SEGMENTS], language=DE, repair=False).scores["StreamLAAL_CA"]
    assert "repair" not in raw.signature
    assert raw.value == pytest.approx(((1.5 + 1.5) / 2 + 2.0) / 2)


@pytest.mark.parametrize(
    ("instances", "references", "message"),
    [
        ([TALK], [], "1 talks to score but references for 0"),
        ([TALK], [[]], "'talk' has no reference"),
        ([TALK], [[ReferenceSegment(0, 1, " ")]], "'talk' has no reference"),
        ([TALK, TALK], [SEGMENTS, SEGMENTS], "'talk' occurs twice"),
        ([replace(TALK, delays=(1.0,))], [SEGMENTS], "'talk' has 4 words but 1 delays"),
        (
            [replace(TALK, chunks=(), elapsed=(1.0,))],
            [SEGMENTS],
            "'talk' has 4 words but 1 elapsed",
        ),
        (
            [TALK, replace(TALK, talk="mute", chunks=(), chunk_indices=())],
            [SEGMENTS, SEGMENTS],
            "'mute' has no elapsed times",
        ),
    ],
)
def test_errors_name_their_cause(
    instances: list[Instance], references: list[list[ReferenceSegment]], message: str
) -> None:
    with pytest.raises(ZooError, match=message):
        score_talks(instances, references, language=DE)


def test_unknown_choices() -> None:
    with pytest.raises(ZooError, match="mwer, soft, meaning"):
        Resegmenter("hard")  # type: ignore[arg-type]
    with pytest.raises(ZooError, match="zoo, simuleval, fbk_v1, omnisteval, simulstream"):
        score_talks([TALK], [SEGMENTS], language=DE, rules="mine")
    with pytest.raises(ZooError, match="queue, cumulative, chunk"):
        score_talks([TALK], [SEGMENTS], language=DE, convention="wall")  # type: ignore[arg-type]


def test_reference_of_a_manifest_segment() -> None:
    segment = Segment(1.0, 2.0, "one two", targets={"de": Target("eins zwei")})
    assert ReferenceSegment.of(segment, target="de", talk="t") == SEGMENTS[0]
    with pytest.raises(ZooError, match="Talk 't' has no reference in 'zh'"):
        ReferenceSegment.of(segment, target="zh", talk="t")


def test_sentences_by_hand() -> None:
    stream = replace(TALK, delays=(2.0, 4.0, 6.0, 8.0), chunk_indices=(1, 3, 5, 7))
    scores = score_sentences([stream], language=DE)
    values = {name: score.value for name, score in scores.items()}
    assert set(values) >= {
        "BLEU",
        "chrF",
        "AL",
        "LAAL",
        "AP",
        "DAL",
        "ATD",
        "YAAL",
        "StartOffset",
        "EndOffset",
        "RTF",
    }
    assert set(values) >= {"AL_CA", "LAAL_CA", "AP_CA", "DAL_CA", "ATD_CA", "YAAL_CA"}
    assert values["AL"] == values["LAAL"] == values["DAL"] == pytest.approx(2.0)
    assert values["YAAL"] == pytest.approx(2.0)
    assert values["AP"] == pytest.approx(20 / 32)
    assert values["AL_CA"] == pytest.approx(2.25)
    assert values["BLEU"] == pytest.approx(100)


def test_sentences_without_elapsed_or_reference() -> None:
    recorded = replace(TALK, chunks=(), chunk_indices=())
    assert not any(name.endswith("_CA") for name in score_sentences([recorded], language=DE))
    with pytest.raises(ZooError, match=r"'talk' \(index 0\) has no reference"):
        score_sentences([TALK], [""], language=DE)
    with pytest.raises(ZooError, match="1 streams to score but 2"):
        score_sentences([TALK], ["a", "b"], language=DE)


def test_how_spaces_in_the_reference_count() -> None:
    stream = replace(TALK, delays=(2.0, 4.0, 6.0, 8.0), chunks=(), chunk_indices=())
    spaced = "eins  zwei drei vier"  # SimulEval sees five words
    plain = score_sentences([stream], [spaced], language=DE)["AL"].value
    simuleval = score_sentences([stream], [spaced], language=DE, rules="simuleval")["AL"].value
    assert plain == pytest.approx(2.0)
    assert simuleval == pytest.approx(sum(2 * (t + 1) - t * 8 / 5 for t in range(4)) / 4)


@pytest.mark.parametrize(
    ("rules", "units"), [("zoo", 4), ("simuleval", 5), ("omnisteval", 5), ("simulstream", 5)]
)
def test_how_spaces_between_characters_of_a_sentence_count(rules: str, units: int) -> None:
    """OmniSTEval removes them from the references of talks only."""
    stream = replace(
        TALK,
        unit="char",
        text="AB号船",
        units=tuple("AB号船"),
        delays=(2.0, 4.0, 6.0, 8.0),
        chunks=(),
        chunk_indices=(),
    )
    scores = score_sentences([stream], ["AB 号船"], language=language("zh"), rules=rules)
    assert scores["AP"].value == pytest.approx(20.0 / (8.0 * units))


def test_simuleval_rules_compare_milliseconds_in_floating_point() -> None:
    """FBK's script: 32.63 s are 32630.000000000004 ms, so a unit at 32630 ms is not the last."""
    duration = 32.63
    talk = replace(
        TALK,
        units=("a", "b", "c"),
        text="a b c",
        delays=(1.0, duration, 40.0),
        elapsed=(),
        chunk_indices=(),
        chunks=(),
        source_length=50.0,
    )
    segments = [ReferenceSegment(0.0, duration, "a b c")]
    pace = duration / 3
    ended = (1.0 + duration - pace) / 2
    going_on = (1.0 + duration - pace + 40.0 - 2 * pace) / 3
    for rules, expected in (("zoo", ended), ("simuleval", going_on), ("fbk_v1", going_on)):
        found = score_talks([talk], [segments], language=DE, rules=rules).scores["StreamLAAL"]
        assert found.value == pytest.approx(expected, abs=1e-9), rules


def test_the_first_version_of_stream_laal_keeps_negative_times() -> None:
    talk = replace(
        TALK,
        units=("a", "b"),
        text="a b",
        delays=(1.0, 6.0),
        elapsed=(3.0, 9.0),
        chunk_indices=(),
        chunks=(),
        convention="cumulative",
        source_length=8.0,
    )
    segments = [ReferenceSegment(2.0, 6.0, "a b")]
    scores = {
        rules: score_talks([talk], [segments], language=DE, rules=rules).scores
        for rules in ("simuleval", "fbk_v1")
    }
    # ideal: -1 and 4 s from the start of the segment, at a pace of 3 s
    assert scores["fbk_v1"]["StreamLAAL"].value == pytest.approx((-1.0 + 4.0 - 3.0) / 2)
    assert scores["simuleval"]["StreamLAAL"].value == pytest.approx((0.0 + 4.0 - 3.0) / 2)
    # elapsed: 3 - 2 s, then 9 - 3 + 1 - 2 s
    assert scores["fbk_v1"]["StreamLAAL_CA"].value == pytest.approx((1.0 + 5.0 - 3.0) / 2)
    assert "length:fbk_v1" in scores["fbk_v1"]["StreamLAAL"].signature


def test_latencies_need_no_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(target: object) -> None:
        raise ZooError("BLEU needs a tokenizer.")

    monkeypatch.setattr("zoo.metrics.scores.BLEU", missing)
    scores = score_talks([TALK], [SEGMENTS], language=DE).scores
    assert scores["BLEU"].value is None
    assert scores["DocBLEU"].value is None
    assert scores["chrF"].value is not None
    assert scores["StreamLAAL"].value is not None


def test_references_of_another_scale_are_refused() -> None:
    segments = [replace(segment, offset=segment.offset * 1000) for segment in SEGMENTS]
    with pytest.raises(ZooError, match="but its references end at 5002 s; are its times seconds"):
        score_talks([TALK], [segments], language=DE)
