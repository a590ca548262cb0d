"""Parts that do not fit are refused in one sentence, before anything is loaded."""

import pytest

from tests.contract.parts import UnitSynthesizer
from tests.contract.scripted import Scripted, TurnTaker
from tests.fixtures.streams import new_system
from zoo.base.errors import ZooError
from zoo.base.types import Capability
from zoo.history.keep_all import KeepAll
from zoo.history.recent_words import RecentWords
from zoo.history.voice_activity import VoiceActivity
from zoo.policies.alignatt import AlignAtt
from zoo.policies.retranslate import Retranslate
from zoo.policies.transcript_wait_k import TranscriptWaitK
from zoo.policies.turn_taking import TurnTaking
from zoo.systems.binding import bind


class WithoutCapabilities(Scripted):
    """Exposes nothing and must never be loaded."""

    exposes = frozenset()

    def load(self) -> None:
        raise AssertionError("loaded")


def test_the_needs_of_all_parts_are_joined() -> None:
    needs = bind(Scripted(), AlignAtt(frames=2), VoiceActivity(), UnitSynthesizer())
    assert needs == {
        Capability.ALIGNMENT,
        Capability.PREFIX,
        Capability.AUDIO_TRIMMING,
        Capability.SPEECH,
    }
    assert bind(TurnTaker(), TurnTaking(), KeepAll()) == {Capability.TURNS}


def test_a_policy_that_does_not_fit_is_refused_with_the_ones_that_do() -> None:
    with pytest.raises(ZooError) as refusal:
        bind(TurnTaker(), AlignAtt(frames=2), KeepAll())
    sentence, choices = str(refusal.value).removesuffix(".").split(": ")
    assert sentence == (
        "Policy AlignAtt needs alignment, prefix, which backbone TurnTaker does not expose; "
        "policy choices that fit it"
    )
    assert "turn_taking" in choices.split(", ")
    assert not {"alignatt", "base", "local_agreement", "wait_k"} & set(choices.split(", "))


def test_a_policy_that_revises_its_output_needs_text_alone_and_no_kept_text() -> None:
    bind(Scripted(), Retranslate(), VoiceActivity())
    with pytest.raises(ZooError, match="RecentWords selects; choose history from: keep_all, refer"):
        bind(Scripted(), Retranslate(), RecentWords(words=2))
    with pytest.raises(ZooError, match="emitted speech cannot be revised; set synthesizer=null"):
        bind(Scripted(), Retranslate(), KeepAll(), UnitSynthesizer())


def test_a_history_that_does_not_fit_is_refused_with_the_ones_that_do() -> None:
    with pytest.raises(ZooError) as refusal:
        bind(TurnTaker(), TurnTaking(), RecentWords(words=2))
    assert str(refusal.value) == (
        "History RecentWords needs alignment, audio_trimming, which backbone TurnTaker "
        "does not expose; "
        "history choices that fit it: keep_all."
    )


def test_a_synthesizer_that_does_not_fit_is_refused() -> None:
    with pytest.raises(
        ZooError,
        match=r"Synthesizer UnitSynthesizer needs speech.*synthesizer choices that fit it: ",
    ):
        bind(TurnTaker(), TurnTaking(), KeepAll(), UnitSynthesizer())


def test_a_system_refuses_before_it_loads() -> None:
    with pytest.raises(ZooError, match="TranscriptWaitK needs audio_trimming, prefix, transcript"):
        new_system(WithoutCapabilities(), TranscriptWaitK(k=1), chunk_seconds=1.0)
