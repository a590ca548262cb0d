"""Speech that a model generates itself passes through unchanged."""

from dataclasses import replace

import pytest
import torch

from tests.fixtures.streams import new_session
from zoo.base.types import Hypothesis
from zoo.streaming.session import SpeechRequest
from zoo.synthesizers.own_speech import OwnSpeech


def test_the_speech_of_a_hypothesis_is_emitted() -> None:
    hypothesis = Hypothesis(torch.tensor([1]), torch.tensor([True]), speech=torch.arange(3.0))
    request = SpeechRequest(new_session(), hypothesis, tokens=1, text="yes")
    assert torch.equal(OwnSpeech().synthesize([request])[0], torch.arange(3.0))
    silent = replace(request, hypothesis=replace(hypothesis, speech=None))
    with pytest.raises(ValueError, match="returned no speech"):
        OwnSpeech().synthesize([silent])
