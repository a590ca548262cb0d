"""The prompt of a cascade's text LLM: a transcript, and the translation that was written so far."""

from dataclasses import dataclass
from typing import Literal

from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.text.prompt import ChatPrompt, bracketed, formatted
from zoo.errors import ZooError
from zoo.languages import Language

FIELDS = ("source", "target", "transcript", "translation")
Written = Literal["prompt", "answer", "both"]


@dataclass(frozen=True, slots=True)
class Template:
    """Strings of one chat turn; the defaults are the paper's (StreamUni, section 4.2) in
    Phi-4-mini's chat format.

    Attributes:
        instruction: Contains {transcript}; may contain {source} and {target}, names of languages,
            and {translation}, the translation written so far.
        user: Before the instruction.
        end: The token that ends instruction and answer.
        assistant: Before the answer.
    """

    instruction: str = (
        "Translate the {source} text to {target} based on the given {target} translation. "
        "{source} text: {transcript}. {target} translation: {translation}"
    )
    user: str = "<|user|>"
    end: str = "<|end|>"
    assistant: str = "<|assistant|>"

    def __post_init__(self) -> None:
        """Raises ZooError for other names in braces and without {transcript}."""
        filled = formatted(self.instruction, **{name: f"<{name}>" for name in FIELDS})
        if filled is None or "<transcript>" not in filled:
            raise ZooError(
                "The template's instruction must have {transcript} in it; it may have "
                "{source}, {target} and {translation} and no other braces, not "
                f"{self.instruction!r}."
            )

    @property
    def quotes(self) -> bool:
        """Whether the instruction contains the translation written so far."""
        return "{translation}" in self.instruction

    @property
    def tokens(self) -> list[str]:
        """All strings in angle brackets, for a small tokenizer."""
        return bracketed([self.user, self.instruction, self.end, self.assistant])


class Prompt(ChatPrompt):
    """Builds the ids of a turn."""

    def __init__(
        self, *, tokenizer: PreTrainedTokenizerBase, template: Template, written: Written
    ) -> None:
        """Prepare the template's tokens.

        Args:
            tokenizer: Of the text LLM.
            template: Strings of the turn.
            written: Place of the translation written so far. prompt: in the instruction, as in the
                paper; the answer continues it. answer: forced as the beginning of the answer. both:
                in both.

        Raises:
            ZooError: When the tokenizer lacks the template's end.
        """
        super().__init__(tokenizer)
        self.template = template
        self.written = written
        advice = "describe the chat format of your model there"
        self.end = self.single(template.end, advice=advice)

    @property
    def forces(self) -> bool:
        """Whether the answer begins with the translation written so far."""
        return self.written != "prompt"

    def opening(
        self, *, source: Language, target: Language, transcript: str, translation: str
    ) -> list[int]:
        """Ids up to the beginning of the answer; ``translation`` is what was written so far."""
        return self.ids(self._turn(source, target, transcript, translation)[0])

    def quoted(
        self, *, source: Language, target: Language, transcript: str, translation: str
    ) -> tuple[list[int], list[bool]]:
        """``opening``, and which of its ids quote the translation."""
        text, begin = self._turn(source, target, transcript, translation)
        end = begin + len(translation.strip()) if self.written != "answer" else begin
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return encoded["input_ids"], [begin < last <= end for _, last in encoded["offset_mapping"]]

    def _turn(
        self, source: Language, target: Language, transcript: str, translation: str
    ) -> tuple[str, int]:
        """The turn as text, and the place in it where the translation is quoted."""
        fields = {
            "source": source.name,
            "target": target.name,
            "transcript": transcript.strip(),
            "translation": "" if self.written == "answer" else translation.strip(),
        }
        template = self.template
        before = template.instruction.partition("{translation}")[0].format(**fields)
        opening = f"{template.user}{template.instruction.format(**fields)}"
        text = f"{opening}{template.end}{template.assistant}"
        return text, len(template.user) + len(before)
