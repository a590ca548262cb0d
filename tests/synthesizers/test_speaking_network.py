"""SimulU on a real, tiny SeamlessM4T of random weights."""

from typing import ClassVar

import pytest
import torch

from tests.fixtures.streams import new_system
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.types import Action, Capability, Decision, Request, SpeechChunk
from zoo.history.recent_words import RecentWords
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session
from zoo.synthesizers.simulu import SimulU


class TwoTokens(Policy):
    """Writes as much with every chunk, whatever random weights attend to."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX})

    def decide(self, session: Session, state: None) -> DecisionGenerator:
        hypothesis = yield Request()
        return Decision(write=min(2, hypothesis.num_new_tokens))


def stream(folder: str, seeds: list[int], **options: object) -> list[list[Action]]:
    """Per stream, the text written in each of four seconds of noise."""
    backbone = SeamlessM4TSpeech(
        name=folder,
        dtype="float64",
        max_tokens=12,
        max_units=20,
        search=SearchConfig(),
        alignment=AlignmentConfig(layer=1),
        unit_layer=0,
    )
    system = new_system(
        backbone,
        TwoTokens(),
        RecentWords(words=3),
        chunk_seconds=1.0,
        synthesizer=SimulU(**options),
    )
    system.configure_model()
    t2u = backbone.speaker.t2u
    t2u.lm_head.weight.data[t2u.config.t2u_eos_token_id] = 0  # random weights end the speech there
    sessions = [system.open(f"talk {seed}") for seed in seeds]
    waves = [
        0.1 * torch.randn(4, 16_000, generator=torch.Generator().manual_seed(seed))
        for seed in seeds
    ]
    steps = [
        system.step(sessions, [SpeechChunk(wave[second], final=second == 3) for wave in waves])
        for second in range(4)
    ]
    return [list(actions) for actions in zip(*steps, strict=True)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"close": "at_end", "assignment": "monotone"},
        {"context": "none", "close": "never"},
    ],
)
def test_a_batch_synthesises_what_each_stream_does_alone(
    folder: str, options: dict[str, object]
) -> None:
    both = stream(folder, [1, 2], **options)
    alone = [stream(folder, [seed], **options)[0] for seed in (1, 2)]
    speech = [action.speech for actions in both for action in actions]
    assert sum(wave is not None and wave.numel() > 0 for wave in speech) >= 4
    for wave, expected in zip(
        speech, [action.speech for actions in alone for action in actions], strict=True
    ):
        assert (wave is None) == (expected is None)
        if wave is not None and expected is not None:
            torch.testing.assert_close(wave, expected)
