"""Token ids of a speech chain of thought: speech, transcript, separator and translation.

The opening is the part of the prompt before the answer. The answer consists of a transcript, a
separator, a translation and an end token.
"""

from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from zoo.backbones.text.context import ContextStrings
from zoo.backbones.text.prompt import ADVICE, ChatPrompt, fill_fields, find_special_tokens
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import NO_CONTEXT, Context

KEPT = 64  # instructions whose ids are kept: streams have few contexts, training examples many


@dataclass(frozen=True, slots=True)
class Template(ContextStrings):
    """Strings of the prompt around the speech embeddings (StreamUni, section 4.1).

    The defaults follow the chat format of Phi-4-Multimodal. The context follows the instruction.

    Attributes:
        user: String before the speech embeddings.
        audio: Token that speech embeddings replace. The model never generates this token.
        instruction: String after the speech embeddings; may contain {target}, the name of the
            target language.
        direct: Instruction without a chain of thought, for ``Prompt(direct=True)``; may contain
            {target}.
        end: Token at the end of the user's turn and at the end of the answer.
        assistant: String before the answer; may contain {target}.
        separator: String between transcript and translation.
    """

    user: str = "<|user|>"
    audio: str = "<|endoftext11|>"
    instruction: str = (
        "Transcribe the audio to text, and then translate the audio to {target}. "
        "Use <sep> as a separator between the original transcript and the translation."
    )
    direct: str = "Translate the audio to {target}."
    end: str = "<|end|>"
    assistant: str = "<|assistant|>"
    separator: str = "<sep>"

    def __post_init__(self) -> None:
        """Check the strings.

        Raises:
            ZooError: If ``separator`` is blank, or if an instruction or ``assistant`` contains a
                name in braces other than {target}, or if a string of the context has wrong fields.
        """
        self.check_context()
        if not self.separator.strip():
            raise ZooError("The template needs a separator between transcript and translation.")
        for name in ("instruction", "direct", "assistant"):
            text = getattr(self, name)
            if fill_fields(text, target="") is None:
                noun = "assistant" if name == "assistant" else "instruction"
                raise ZooError(
                    f"The template's {noun} may have {{target}} in it and no other braces, not "
                    f"{text!r}."
                )

    @property
    def tokens(self) -> list[str]:
        """Strings in angle brackets outside the instruction: special tokens of a new tokenizer."""
        return find_special_tokens(
            [self.user, self.audio, self.end, self.assistant, self.separator]
        )


class ThoughtPrompt(ChatPrompt):
    """Converts prompts and answers to token ids, and generated token ids to transcripts.

    Attributes:
        template: Strings of the prompt.
        direct: Whether the answer is the translation alone.
        end: Token id of ``template.end``.
        audio: Token id of ``template.audio``.
        separator: Token ids of ``template.separator``. If the tokenizer needs several tokens, a
            space precedes the separator.
    """

    def __init__(
        self, *, tokenizer: PreTrainedTokenizerBase, template: Template, direct: bool = False
    ) -> None:
        """Encode the strings of the template.

        Args:
            tokenizer: Tokenizer of the causal LM.
            template: Strings of the prompt.
            direct: Whether the answer is the translation alone, without transcript and separator.

        Raises:
            ZooError: If ``template.end`` or ``template.audio`` is not a single token.
        """
        super().__init__(tokenizer)
        self.template = template
        self.direct = direct
        self.end = self.single(template.end, advice=ADVICE)
        self.audio = self.single(template.audio, advice=ADVICE)
        self.separator = self.ids(template.separator)
        if len(self.separator) != 1:
            self.separator = self.ids(f" {template.separator}")
        self._instruction_ids: dict[tuple[str, Context], list[int]] = {}
        self._assistant_ids: dict[str, list[int]] = {}  # by the name of the target language
        self._user_ids = self.ids(template.user)

    @property
    def speech(self) -> int:
        """Position of the first speech embedding in an opening."""
        return len(self._user_ids)

    def opening(
        self, embeddings: int, target: Language, context: Context = NO_CONTEXT
    ) -> list[int]:
        """Token ids before the answer.

        Args:
            embeddings: Number of speech embeddings; ``audio`` is repeated for each embedding.
            target: Target language of the translation.
            context: What is known of the talk.
        """
        key = target.name, context
        if key not in self._instruction_ids:
            if len(self._instruction_ids) >= KEPT:
                self._instruction_ids.clear()
            template = self.template.direct if self.direct else self.template.instruction
            known = self.template.context(context, self.reserved)
            self._instruction_ids[key] = self.ids(template.format(target=target.name) + known)
        instruction_ids = self._instruction_ids[key]
        if target.name not in self._assistant_ids:
            text = self.template.assistant.format(target=target.name)
            self._assistant_ids[target.name] = self.ids(text)
        assistant_ids = self._assistant_ids[target.name]
        speech_ids = [self.audio] * embeddings
        return [*self._user_ids, *speech_ids, *instruction_ids, self.end, *assistant_ids]

    def transcript(self, text: str) -> list[int]:
        """Token ids of a transcript and the separator; none if the answer has no transcript."""
        if self.direct:
            return []
        return [*self.ids(text.strip()), *self.separator]

    def transcribed(self, generated: list[int]) -> tuple[list[int], int] | None:
        """Split a transcript from the separator at the end of ``generated``.

        The model may spell a separator of several tokens with other tokens than ``self.separator``.
        The first of these tokens may also contain the end of the transcript.

        Args:
            generated: Generated token ids of an answer.

        Returns:
            Token ids of the transcript, and the number of leading ids that the transcript shares
            with ``generated``. None if ``generated`` does not end with a separator.
        """
        size = len(self.separator)
        if generated[-size:] == self.separator:
            return generated[:-size], len(generated) - size
        if size == 1:
            return None

        separator_text = self.template.separator
        longest = len(separator_text.encode())  # in tokens, since a token has at least one byte
        tail = range(max(0, len(generated) - longest), len(generated))
        if not tail or separator_text not in self.text(generated[tail[0] :]):
            return None

        begin = max(index for index in tail if separator_text in self.text(generated[index:]))
        before = self.text(generated[begin:]).partition(separator_text)[0].rstrip()
        # Blank tokens directly before the separator do not belong to the transcript.
        while begin and not before and not self.text(generated[begin - 1 : begin]).strip():
            begin -= 1
        return [*generated[:begin], *self.ids(before)], begin

    def translation(self, text: str) -> list[int]:
        """Token ids of a translation and the end token; a space follows the separator."""
        text = text.strip()
        if not text:
            return [self.end]
        return [*self.ids(text if self.direct else f" {text}"), self.end]
