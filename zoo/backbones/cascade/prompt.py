"""What a text LLM is asked: a transcript and what was written of its translation. Knows token ids, but no network."""

import re
from dataclasses import dataclass
from typing import Literal

from transformers import PreTrainedTokenizerBase

from zoo.errors import ZooError
from zoo.languages import Language

FIELDS = ("source", "target", "transcript", "translation")
Written = Literal["prompt", "answer", "both"]


@dataclass(frozen=True, slots=True)
class Template:
    """Strings of one chat turn; the default is the paper's prompt (StreamUni, section 4.2) in Phi-4-mini's chat format.

    instruction: may contain {source} and {target}, names of languages; {transcript}, and {translation}, what was
    written of it. user, assistant: what opens the instruction and the answer. end: one token that ends either.
    """

    instruction: str = (
        "Translate the {source} text to {target} based on the given {target} translation. "
        "{source} text: {transcript}. {target} translation: {translation}"
    )
    user: str = "<|user|>"
    end: str = "<|end|>"
    assistant: str = "<|assistant|>"

    def __post_init__(self) -> None:
        """Raises ZooError for an instruction with other names in braces, and for one without a transcript."""
        try:
            told = self.instruction.format(**{name: f"<{name}>" for name in FIELDS})
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            told = ""
        if "<transcript>" not in told:
            raise ZooError(
                "The template's instruction must have {transcript} in it; it may have {source}, {target} and "
                f"{{translation}} and no other braces, not {self.instruction!r}."
            )

    @property
    def quotes(self) -> bool:
        """Whether the instruction says what was written."""
        return "{translation}" in self.instruction

    @property
    def tokens(self) -> list[str]:
        """All strings in angle brackets, for a tokenizer of one's own."""
        texts = (self.user, self.instruction, self.end, self.assistant)
        return list(
            dict.fromkeys(token for text in texts for token in re.findall(r"<[^<>\s]+>", text))
        )


class Prompt:
    """Builds the ids of a turn. Raises ZooError when the tokenizer lacks the template's end.

    written: where the translation written so far stands. prompt: in the instruction, as in the paper; the answer is
    what follows it. answer: forced as the begin of the answer. both: here and there.
    """

    def __init__(
        self, *, tokenizer: PreTrainedTokenizerBase, template: Template, written: Written
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.written = written
        end = self.ids(template.end)
        if len(end) != 1:
            raise ZooError(
                f"The tokenizer {tokenizer.name_or_path} has no single token {template.end!r}, which backbone.template "
                "needs; describe the chat format of your model there."
            )
        self.end = end[0]

    @property
    def forces(self) -> bool:
        """Whether the answer begins with what was written."""
        return self.written != "prompt"

    def opening(
        self, *, source: Language, target: Language, transcript: str, translation: str
    ) -> list[int]:
        """Ids of the instruction up to where the answer begins. translation: what was written of it."""
        return self.ids(self._turn(source, target, transcript, translation)[0])

    def quoted(
        self, *, source: Language, target: Language, transcript: str, translation: str
    ) -> tuple[list[int], list[bool]]:
        """The same, and which of the ids quote the translation."""
        text, begin = self._turn(source, target, transcript, translation)
        end = begin + len(translation.strip()) if self.written != "answer" else begin
        told = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return told["input_ids"], [begin < last <= end for _, last in told["offset_mapping"]]

    def _turn(
        self, source: Language, target: Language, transcript: str, translation: str
    ) -> tuple[str, int]:
        """The turn as text, and where in it the translation is quoted."""
        said = {"source": source.name, "target": target.name, "transcript": transcript.strip()}
        said["translation"] = "" if self.written == "answer" else translation.strip()
        before = self.template.instruction.partition("{translation}")[0].format(**said)
        opening = f"{self.template.user}{self.template.instruction.format(**said)}"
        return f"{opening}{self.template.end}{self.template.assistant}", len(
            self.template.user
        ) + len(before)

    def ids(self, text: str) -> list[int]:
        """Ids of a text, nothing added."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
        return ids
