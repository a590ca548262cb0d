"""Messages: audio in both forms, and the beginning of an answer."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.fixtures.chat_server import samples
from tests.fixtures.streams import white_noise
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.extras.chat_server.prompt import SHORTEST, ChatServerPrompt, Message, Template

PROMPT = ChatServerPrompt(
    template=Template(), prefix_place="answer", audio_part="input_audio", direct=False
)
NOISE = white_noise(4000, scale=0.1)
GERMAN = language("de")


def continued(prompt: ChatServerPrompt, transcript: str, written: str) -> list[Message]:
    return prompt.translation(NOISE, GERMAN, transcript=transcript, written=written)


def test_both_forms_have_the_samples_of_the_audio() -> None:
    expected = (NOISE * 32768).round().numpy().astype(np.int16)
    for prompt in (PROMPT, replace(PROMPT, audio_part="audio_url")):
        sent = samples({"messages": prompt.transcription(NOISE, GERMAN)})
        assert np.array_equal(sent, expected)


def test_short_audio_is_padded_with_silence() -> None:
    sent = samples({"messages": PROMPT.transcription(torch.full((3,), 0.5), GERMAN)})
    assert len(sent) == SHORTEST
    assert sent[:4].tolist() == [16384, 16384, 16384, 0]


def test_the_answer_begins_with_the_transcript_and_the_written_translation() -> None:
    _, answer = continued(PROMPT, "The house.", "Das")
    assert answer == {"role": "assistant", "content": "The house. <sep> Das"}
    _, answer = continued(PROMPT, "The house.", "")
    assert answer["content"] == "The house. <sep>"


def test_a_direct_answer_begins_with_the_written_translation() -> None:
    direct = replace(PROMPT, direct=True)
    user, answer = continued(direct, "", "Das")
    assert user["content"][1]["text"] == "Translate the audio to German."
    assert answer["content"] == "Das"
    assert len(continued(direct, "", "")) == 1


def test_a_server_that_cannot_continue_has_all_of_it_in_the_instruction() -> None:
    quoting = replace(PROMPT, prefix_place="prompt")
    (user,) = continued(quoting, "The house.", "Das")
    text = user["content"][1]["text"]
    assert text.startswith("Translate the audio to German. The transcript of the audio: The house.")
    assert text.endswith(" Das")
    (user,) = continued(quoting, "The house.", "")
    assert user["content"][1]["text"].endswith("The house.")


def test_a_template_with_other_fields_is_refused() -> None:
    with pytest.raises(ZooError, match=r"backbone.template.written may have \{translation\} in it"):
        Template(written="{target}")
    with pytest.raises(ZooError, match="needs a separator"):
        Template(separator=" ")
