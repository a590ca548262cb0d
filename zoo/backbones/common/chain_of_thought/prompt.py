"""The speech chain of thought as token ids: speech, transcript, separator, translation. Knows no network."""

import re
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from zoo.errors import ZooError
from zoo.languages import Language

IGNORED = -100  # label of positions without a loss


@dataclass(frozen=True, slots=True)
class Template:
    """Strings around the speech (StreamUni, section 4.1); the default is Phi-4-Multimodal's chat format.

    user: all that stands before the speech. audio: one token whose id stands where speech embeddings go; it is never
    said. instruction: all that follows the speech in the user's turn; may contain {target}, the name of a language.
    end: one token that ends the user's turn, and the answer. assistant: what opens the answer. separator: between
    transcript and translation.
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
        """Raises ZooError for an instruction with other names in braces, and for a separator that says nothing."""
        if not self.separator.strip():
            raise ZooError("The template needs a separator between transcript and translation.")
        try:
            self.instruction.format(target="")
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ZooError(
                f"The template's instruction may have {{target}} in it and no other braces, not {self.instruction!r}."
            ) from error

    @property
    def tokens(self) -> list[str]:
        """All strings in angle brackets but the instruction's, for a tokenizer of one's own."""
        texts = (self.user, self.audio, self.end, self.assistant, self.separator)
        return list(
            dict.fromkeys(token for text in texts for token in re.findall(r"<[^<>\s]+>", text))
        )


class Prompt:
    """Builds ids by a template. Raises ZooError when the tokenizer lacks one of its single tokens.

    end, audio: ids of the template's. separator: ids between a transcript and a translation; a single one where the
    tokenizer has a token for it, else those of its text after a space.
    """

    def __init__(self, *, tokenizer: PreTrainedTokenizerBase, template: Template) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.end = self._single(template.end)
        self.audio = self._single(template.audio)
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
            self._instructions[target.name] = self.ids(
                self.template.instruction.format(target=target.name)
            )
        instruction = self._instructions[target.name]
        return [*self._user, *[self.audio] * embeddings, *instruction, self.end, *self._assistant]

    def transcript(self, text: str) -> list[int]:
        """Ids of a transcript and the separator."""
        return [*self.ids(text.strip()), *self.separator]

    def transcribed(self, said: list[int]) -> tuple[list[int], int] | None:
        """Ids of the transcript, once ``said`` has a separator at its end, and how many of them were said; else None.

        A separator of several pieces may come in others than its own, and in one piece with what stands beside it.
        """
        size, text = len(self.separator), self.template.separator
        if said[-size:] == self.separator:
            return said[:-size], len(said) - size
        tail = range(
            max(0, len(said) - len(text.encode())), len(said)
        )  # a piece has a byte at least
        if size == 1 or not tail or text not in self.text(said[tail[0] :]):
            return None
        begin = max(place for place in tail if text in self.text(said[place:]))
        before = self.text(said[begin:]).partition(text)[0].rstrip()
        while begin and not before and not self.text(said[begin - 1 : begin]).strip():
            begin -= 1
        return [*said[:begin], *self.ids(before)], begin

    def translation(self, text: str) -> list[int]:
        """Ids of a translation, which begins with a space, and its end."""
        text = text.strip()
        return [*(self.ids(f" {text}") if text else []), self.end]

    def text(self, ids: list[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return str(
            self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )

    def ids(self, text: str) -> list[int]:
        """Ids of a text, nothing added."""
        return self.tokenizer(text, add_special_tokens=False)["input_ids"] if text else []

    def _single(self, token: str) -> int:
        ids = self.ids(token)
        if len(ids) != 1:
            raise ZooError(
                f"The tokenizer {self.tokenizer.name_or_path} has no single token {token!r}, which backbone.template "
                "needs; describe its own prompt there or name another tokenizer."
            )
        return ids[0]
