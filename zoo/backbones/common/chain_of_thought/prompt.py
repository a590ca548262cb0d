"""The speech chain of thought as token ids: speech, transcript, separator, translation."""

from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.text.prompt import ChatPrompt, bracketed, formatted
from zoo.errors import ZooError
from zoo.languages import Language


@dataclass(frozen=True, slots=True)
class Template:
    """Strings around the speech (StreamUni, section 4.1); the defaults are Phi-4-Multimodal's chat
    format.

    Attributes:
        user: Before the speech.
        audio: The token whose embeddings are replaced by speech; it is never generated.
        instruction: After the speech; may contain {target}, the name of a language.
        end: The token that ends the user's turn and the answer.
        assistant: Before the answer.
        separator: Between transcript and translation.
    """

    user: str = "<|user|>"
    audio: str = "<|endoftext11|>"
    instruction: str = (
        "Transcribe the audio to text, and then translate the audio to {target}. "
        "Use <sep> as a separator between the original transcript and the translation."
    )
    end: str = "<|end|>"
    assistant: str = "<|assistant|>"
    separator: str = "<sep>"

    def __post_init__(self) -> None:
        """Raises ZooError for other names in braces and for a blank separator."""
        if not self.separator.strip():
            raise ZooError("The template needs a separator between transcript and translation.")
        if formatted(self.instruction, target="") is None:
            raise ZooError(
                "The template's instruction may have {target} in it and no other braces, not "
                f"{self.instruction!r}."
            )

    @property
    def tokens(self) -> list[str]:
        """Special tokens of a small tokenizer: all in angle brackets but the instruction's."""
        return bracketed([self.user, self.audio, self.end, self.assistant, self.separator])


class Prompt(ChatPrompt):
    """Builds ids by a template.

    Attributes:
        end: Id of the template's token.
        audio: Id of the template's token.
        separator: Ids between transcript and translation: a single one where the tokenizer has a
            token for it, else those of its text after a space.
    """

    def __init__(self, *, tokenizer: PreTrainedTokenizerBase, template: Template) -> None:
        """Raises ZooError when the tokenizer lacks a special token of the template."""
        super().__init__(tokenizer)
        self.template = template
        advice = "describe its own prompt there or name another tokenizer"
        self.end = self.single(template.end, advice=advice)
        self.audio = self.single(template.audio, advice=advice)
        separator = self.ids(template.separator)
        self.separator = separator if len(separator) == 1 else self.ids(f" {template.separator}")
        self._instructions: dict[str, list[int]] = {}
        self._user = self.ids(template.user)
        self._assistant = self.ids(template.assistant)

    @property
    def speech(self) -> int:
        """Position of the first speech embedding in an opening."""
        return len(self._user)

    def opening(self, embeddings: int, target: Language) -> list[int]:
        """Ids before the answer, for so many speech embeddings."""
        if target.name not in self._instructions:
            instruction = self.template.instruction.format(target=target.name)
            self._instructions[target.name] = self.ids(instruction)
        instruction_ids = self._instructions[target.name]
        speech = [self.audio] * embeddings
        return [*self._user, *speech, *instruction_ids, self.end, *self._assistant]

    def transcript(self, text: str) -> list[int]:
        """Ids of a transcript and the separator."""
        return [*self.ids(text.strip()), *self.separator]

    def transcribed(self, generated: list[int]) -> tuple[list[int], int] | None:
        """Split a transcript from the separator that ends ``generated``.

        A separator of several tokens may be generated as other tokens than its own, and in one
        token with neighbouring text.

        Returns:
            Ids of the transcript, and how many of them ``generated`` begins with; None without
            separator.
        """
        size, text = len(self.separator), self.template.separator
        if generated[-size:] == self.separator:
            return generated[:-size], len(generated) - size
        longest = len(text.encode())  # a token has at least one byte
        tail = range(max(0, len(generated) - longest), len(generated))
        if size == 1 or not tail or text not in self.text(generated[tail[0] :]):
            return None

        begin = max(place for place in tail if text in self.text(generated[place:]))
        before = self.text(generated[begin:]).partition(text)[0].rstrip()
        while begin and not before and not self.text(generated[begin - 1 : begin]).strip():
            begin -= 1
        return [*generated[:begin], *self.ids(before)], begin

    def translation(self, text: str) -> list[int]:
        """Ids of a translation, which begins with a space, and its end."""
        text = text.strip()
        return [*(self.ids(f" {text}") if text else []), self.end]
