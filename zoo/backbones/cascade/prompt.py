"""Prompts of a cascade's text LLM, with a transcript and the translation written so far.

The opening is the part of the prompt before the answer: the user's turn and the header of the
assistant's turn.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from transformers import PreTrainedTokenizerBase

from zoo.backbones.decoding.partial_text import PartialText
from zoo.backbones.text.context import ContextStrings
from zoo.backbones.text.prompt import ChatPrompt, fill_fields, find_special_tokens
from zoo.backbones.text.vocabulary import CLOSING, detokenise
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import NO_CONTEXT, Context

FIELDS = ("source", "target", "transcript", "translation")
PrefixPlace = Literal["prompt", "answer", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFields:
    """What a prompt contains.

    Attributes:
        source: Source language.
        target: Target language.
        transcript: Text of the transcript.
        translation: Text of the translation written so far.
        context: What is known of the talk.
    """

    source: Language
    target: Language
    transcript: str
    translation: str
    context: Context = NO_CONTEXT


@dataclass(frozen=True, slots=True)
class Template(ContextStrings):
    """Strings of the prompt around transcript and translation.

    The default instruction is the instruction of StreamUni (section 4.2), in the chat format of
    Phi-4-mini. The context precedes the instruction, which may end with the translation.

    Attributes:
        instruction: Text with {transcript}. The text may also contain {source} and {target}, the
            names of the languages, and {translation}, the translation written so far.
        user: String before the instruction.
        end: Token at the end of the instruction and at the end of the answer.
        assistant: String before the answer.
    """

    document: str = "Context: {text}\n\n"
    terms: str = "term_map:\n{terms}\n\n"
    instruction: str = (
        "Translate the {source} text to {target} based on the given {target} translation. "
        "{source} text: {transcript}. {target} translation: {translation}"
    )
    user: str = "<|user|>"
    end: str = "<|end|>"
    assistant: str = "<|assistant|>"

    def __post_init__(self) -> None:
        """Check the instruction.

        Raises:
            ZooError: If ``instruction`` lacks {transcript} or contains an unknown name in braces,
                or if a string of the context has wrong fields.
        """
        self.check_context()
        filled = fill_fields(self.instruction, **{name: f"<{name}>" for name in FIELDS})
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
        """All strings in angle brackets: the special tokens of a newly trained tokenizer."""
        return find_special_tokens([self.user, self.instruction, self.end, self.assistant])


def check_texts(template: Template, prefix_place: PrefixPlace, tokenizer: str | None) -> None:
    """Check that a template suits its place of the prefix, and that a tokenizer is named.

    Args:
        template: Strings of the prompt.
        prefix_place: Place of the translation written so far.
        tokenizer: Hub id or folder of the tokenizer.

    Raises:
        ZooError: If the template lacks {translation}, or if there is no tokenizer.
    """
    if prefix_place != "answer" and not template.quotes:
        raise ZooError(
            "An instruction without {translation} goes with backbone.prefix_place=answer only."
        )
    if tokenizer is None:
        raise ZooError(
            "A cascade's translator needs a tokenizer: name a folder that has one, or a trained "
            "model."
        )


class CascadePrompt(ChatPrompt):
    """Converts a ``Template`` with transcript and written translation to token ids.

    Attributes:
        template: Strings of the prompt.
        prefix_place: Place of the translation written so far.
        end: Token id of ``template.end``.
    """

    def __init__(
        self, *, tokenizer: PreTrainedTokenizerBase, template: Template, prefix_place: PrefixPlace
    ) -> None:
        """Look up the token id of the template's end.

        Args:
            tokenizer: Tokenizer of the text LLM.
            template: Strings of the prompt.
            prefix_place: Place of the translation written so far. ``prompt`` inserts the
                translation in the instruction, as in the paper. ``answer`` forces the translation
                as the beginning of the answer. ``both`` does both.

        Raises:
            ZooError: If ``template.end`` is not a single token.
        """
        super().__init__(tokenizer)
        self.template = template
        self.prefix_place = prefix_place
        advice = "describe the chat format of your model there"
        self.end = self.single(template.end, advice=advice)

    @property
    def forces(self) -> bool:
        """Whether the answer begins with the translation written so far."""
        return self.prefix_place != "prompt"

    def opening(self, fields: PromptFields) -> list[int]:
        """Token ids before the answer."""
        text, _, _ = self._format(fields)
        return self.ids(text)

    def transcript_characters(self, fields: PromptFields) -> list[int | None]:
        """Characters of the transcript at the token ids before the answer.

        If the instruction has the transcript more than once, the first place counts.

        Returns:
            For each id of ``opening``, the index of its last character in the transcript without
            surrounding spaces. None for tokens without a character of the transcript.
        """
        text, begin, _ = self._format(fields)
        end = begin + len(fields.transcript.strip())
        _, offsets = self._encode(text)
        return [
            min(token_end, end) - 1 - begin if token_begin < end and token_end > begin else None
            for token_begin, token_end in offsets
        ]

    def quoted(self, fields: PromptFields) -> tuple[list[int], list[bool]]:
        """Token ids before the answer, with a mask of the translation in the instruction.

        Returns:
            Token ids (T,), and a mask (T,) that is True at ids of the translation. All values are
            False if the instruction does not contain the translation.
        """
        text, _, begin = self._format(fields)
        end = begin
        if self.prefix_place != "answer":
            end = begin + len(fields.translation.strip())
        ids, offsets = self._encode(text)
        return ids, [begin < token_end <= end for _, token_end in offsets]

    def _encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids of a text, with the first character and the end of each token."""
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return encoded["input_ids"], encoded["offset_mapping"]

    def insert_space(self, partial_text: PartialText, tokens: list[int]) -> list[int]:
        """Insert a space before the first word of an answer, unless a closing mark comes first.

        An answer starts without a space if the written translation stands in the prompt only. The
        space separates the answer from the written translation.
        """
        if self.forces or not partial_text.prefix or not tokens:
            return tokens
        vocabulary = partial_text.vocabulary
        if vocabulary.unit == "char":  # a language without spaces
            return tokens
        if bool(vocabulary.starts[tokens[0]]):
            return tokens

        word_starts = vocabulary.word_starts(torch.tensor(tokens)).tolist()
        word_length = len(tokens)  # number of tokens of the first word
        if True in word_starts[1:]:
            word_length = word_starts.index(True, 1)
        word = detokenise(self.tokenizer, tokens[:word_length])
        if word[:1] in CLOSING:
            return tokens
        return [*self.ids(f" {word}"), *tokens[word_length:]]

    def _format(self, fields: PromptFields) -> tuple[str, int, int]:
        """The text before the answer, and where the transcript and the translation begin in it."""
        values = {
            "source": fields.source.name,
            "target": fields.target.name,
            "transcript": fields.transcript.strip(),
            "translation": "" if self.prefix_place == "answer" else fields.translation.strip(),
        }
        template = self.template
        instruction = template.instruction.format(**values)
        opening = f"{template.user}{template.context(fields.context, self.reserved)}"
        text = f"{opening}{instruction}{template.end}{template.assistant}"
        before = [
            template.instruction.partition(field)[0].format(**values)
            for field in ("{transcript}", "{translation}")
        ]
        transcript_begin, translation_begin = (len(opening) + len(part) for part in before)
        return text, transcript_begin, translation_begin
