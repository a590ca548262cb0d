"""Messages of a chat: audio with an instruction, and the beginning of the answer."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.text.context import ContextStrings
from zoo.backbones.text.prompt import fill_fields
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import NO_CONTEXT, Context, Samples

AudioPart = Literal["input_audio", "audio_url"]
PrefixPlace = Literal["answer", "prompt"]
Message = dict[str, Any]
SHORTEST: Samples = 1600  # encoders of speech LLMs need some audio; silence is appended to less
FIELDS = {
    "instruction": ("target",),
    "direct": ("target",),
    "transcript": ("transcript",),
    "written": ("translation",),
}


@dataclass(frozen=True, slots=True)
class Template(ContextStrings):
    """Texts of the requests. The server adds the chat format of its model.

    The context follows the instruction.

    Attributes:
        instruction: Instruction of a chain of thought (StreamUni, section 4.1); may contain
            {target}, the name of the target language.
        direct: Instruction to translate; may contain {target}.
        separator: Text between transcript and translation.
        transcript: What follows ``direct`` if there is a transcript and the server continues no
            answer; contains {transcript}.
        written: What follows if a part of the translation is written and the server continues no
            answer; contains {translation}.
    """

    instruction: str = (
        "Transcribe the audio to text, and then translate the audio to {target}. "
        "Use <sep> as a separator between the original transcript and the translation."
    )
    direct: str = "Translate the audio to {target}."
    separator: str = "<sep>"
    transcript: str = " The transcript of the audio: {transcript}"
    written: str = (
        " The beginning of the translation is given; answer only with the words after it: "
        "{translation}"
    )

    def __post_init__(self) -> None:
        """Check the texts.

        Raises:
            ZooError: If the separator is blank, or a text has other fields in braces than its own.
        """
        self.check_context()
        if not self.separator.strip():
            raise ZooError("The template needs a separator between transcript and translation.")
        for name, fields in FIELDS.items():
            text = getattr(self, name)
            if fill_fields(text, **dict.fromkeys(fields, "")) is None:
                allowed = " and ".join(f"{{{field}}}" for field in fields)
                raise ZooError(
                    f"backbone.template.{name} may have {allowed} in it and no other braces, not "
                    f"{text!r}."
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatServerPrompt:
    """Builds the messages of requests.

    Attributes:
        template: Texts.
        prefix_place: Place of transcript and written translation: at the beginning of the answer,
            which the server continues, or in the instruction.
        audio_part: Form in which messages contain audio.
        direct: Whether answers have no transcript.
    """

    template: Template
    prefix_place: PrefixPlace
    audio_part: AudioPart
    direct: bool

    def transcription(
        self, samples: Tensor, target: Language, context: Context = NO_CONTEXT
    ) -> list[Message]:
        """Messages whose answer is the transcript, the separator and a translation.

        Args:
            samples: Audio (n,).
            target: Target language.
            context: What is known of the talk.
        """
        instruction = self.template.instruction.format(target=target.name)
        return [self._user(samples, instruction + self.template.context(context))]

    def translation(
        self,
        samples: Tensor,
        target: Language,
        *,
        transcript: str,
        written: str,
        context: Context = NO_CONTEXT,
    ) -> list[Message]:
        """Messages whose answer continues the translation.

        Args:
            samples: Audio (n,).
            target: Target language.
            transcript: Transcript of the audio; empty if ``direct``.
            written: Translation written so far.
            context: What is known of the talk.
        """
        template = self.template
        known = template.context(context)
        if self.prefix_place == "prompt":
            text = template.direct.format(target=target.name) + known
            if transcript:
                text += template.transcript.format(transcript=transcript)
            if written:
                text += template.written.format(translation=written)
            return [self._user(samples, text)]

        instruction = template.direct if self.direct else template.instruction
        user = self._user(samples, instruction.format(target=target.name) + known)
        texts = [written] if self.direct else [transcript, template.separator, written]
        answer = " ".join(text for text in texts if text)
        return [user, {"role": "assistant", "content": answer}] if answer else [user]

    def _user(self, samples: Tensor, instruction: str) -> Message:
        """The user's message: audio, then the instruction."""
        audio: Mapping[str, Any]
        data = wav(samples)
        if self.audio_part == "input_audio":
            audio = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
        else:
            address = f"data:audio/wav;base64,{data}"
            audio = {"type": "audio_url", "audio_url": {"url": address}}
        return {"role": "user", "content": [audio, {"type": "text", "text": instruction}]}


def wav(samples: Tensor) -> str:
    """Encode audio (n,) as a 16-bit WAV file in base64."""
    padded = F.pad(samples, (0, max(0, SHORTEST - len(samples))))
    return base64.b64encode(audio.wav(padded)).decode("ascii")
