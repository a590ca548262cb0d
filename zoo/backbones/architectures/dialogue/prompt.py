"""Token ids of a dialogue: instruction, then turns of speech and of words or ``<wait>``."""

from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from zoo.backbones.text.context import ContextStrings
from zoo.backbones.text.prompt import ADVICE, ChatPrompt, fill_fields, find_special_tokens
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import NO_CONTEXT, Context


@dataclass(frozen=True, slots=True)
class DialogueTemplate(ContextStrings):
    """Strings of the dialogue; the defaults are the chat format of Qwen2.5-Omni.

    The context of a talk ends the instruction, before its ``end``.

    Attributes:
        instruction: First string of the dialogue, which is never dropped. It may contain {source}
            and {target}, the names of the languages.
        user: String before the speech embeddings of a user turn.
        audio: Token that speech embeddings replace. The model never generates this token.
        audio_end: String after the speech embeddings.
        end: Token at the end of each turn.
        assistant: String before the words of an assistant turn.
        wait: Token of an assistant turn without words. A tokenizer that lacks it gets it as a
            special token, whose embeddings begin as the mean of those of its characters' tokens.
            The token is no part of the translation.
    """

    instruction: str = (
        "<|im_start|>system\nTranslate the speech from {source} to {target}.<|im_end|>"
    )
    user: str = "\n<|im_start|>user\n<|audio_bos|>"
    audio: str = "<|AUDIO|>"
    audio_end: str = "<|audio_eos|>"
    end: str = "<|im_end|>"
    assistant: str = "\n<|im_start|>assistant\n"
    wait: str = "<wait>"

    def __post_init__(self) -> None:
        """Raises ZooError for unknown names in braces, and for a blank ``wait``."""
        self.check_context()
        if fill_fields(self.instruction, source="", target="") is None:
            raise ZooError(
                "The template's instruction may have {source} and {target} in it and no other "
                f"braces, not {self.instruction!r}."
            )
        if not self.wait.strip():
            raise ZooError("The template needs a token for turns without words (template.wait).")

    @property
    def tokens(self) -> list[str]:
        """Strings in angle brackets outside the instruction: special tokens of a new tokenizer."""
        return find_special_tokens(
            [self.user, self.audio, self.audio_end, self.end, self.assistant, self.wait]
        )


class TurnPrompt(ChatPrompt):
    """Converts the turns of a dialogue to token ids.

    Attributes:
        template: Strings of the dialogue.
        audio: Token id of ``template.audio``.
        end: Token id of ``template.end``.
        wait: Token id of ``template.wait``.
    """

    def __init__(self, *, tokenizer: PreTrainedTokenizerBase, template: DialogueTemplate) -> None:
        """Encode the strings of the template.

        Args:
            tokenizer: Tokenizer of the causal LM.
            template: Strings of the dialogue.

        Raises:
            ZooError: If ``template.audio``, ``end`` or ``wait`` is not a single token, or if
                ``wait`` is one of the others.
        """
        super().__init__(tokenizer)
        self.template = template
        self.audio = self.single(template.audio, advice=ADVICE)
        self.end = self.single(template.end, advice=ADVICE)
        self.wait = self.single(template.wait, advice=ADVICE)
        if self.wait in (self.audio, self.end):
            raise ZooError(
                f"The template has {template.wait!r} as wait and as another token; name a token of "
                "its own (backbone.template.wait)."
            )
        self._user_ids = self.ids(template.user)
        self._assistant_ids = [
            *self.ids(template.audio_end),
            self.end,
            *self.ids(template.assistant),
        ]

    def instruction(
        self, source: Language, target: Language, context: Context = NO_CONTEXT
    ) -> list[int]:
        """Token ids of the instruction for a source and a target language.

        Args:
            source: Language of the speech.
            target: Language of the translation.
            context: What is known of the talk.
        """
        text = self.template.instruction.format(source=source.name, target=target.name)
        body = text.removesuffix(self.template.end)
        known = self.template.context(context, self.reserved)
        return self.ids(f"{body}{known}{text.removeprefix(body)}")

    def user(self, embeddings: int) -> list[int]:
        """Token ids of a user turn with this number of speech embeddings, up to the answer."""
        return [*self._user_ids, *[self.audio] * embeddings, *self._assistant_ids]

    def answer(self, words: str, *, last: bool = False) -> list[int]:
        """Token ids of an assistant turn.

        Args:
            words: Words of the turn; without words, the turn is ``<wait>``.
            last: Whether the source ends with this turn. Without words, the last turn is the end
                token alone: the translation has ended.
        """
        words = words.strip()
        if not words:
            return [self.end] if last else [self.wait, self.end]
        return [*self.ids(words), self.end]


@dataclass(frozen=True, slots=True)
class DialogueBound:
    """Number of turns that a dialogue keeps.

    Attributes:
        max_turns: Most user turns in a dialogue, each with its answer. A dialogue that has this
            number drops its oldest turns before the next turn; the instruction stays.
        kept_turns: Number of turns that remain then. ``max_turns - 1`` drops one turn at a time,
            and computes the keys and values of all turns anew at each turn; a smaller number does
            so once every ``max_turns - kept_turns`` turns.
    """

    max_turns: int = 24
    kept_turns: int = 8

    def __post_init__(self) -> None:
        """Raises ZooError unless 0 <= kept_turns < max_turns."""
        if not 0 <= self.kept_turns < self.max_turns:
            raise ZooError(
                "A dialogue needs 0 <= kept_turns < max_turns, not "
                f"{self.kept_turns} and {self.max_turns}."
            )

    def dropped(self, turns: int) -> int:
        """Number of oldest turns to drop of ``turns`` turns, before the next one."""
        return turns - self.kept_turns if turns >= self.max_turns else 0

    def dialogues(self, turns: int) -> list[tuple[range, int]]:
        """Return the dialogues that generate the turns of a stream, one after the other.

        Example:
            With max_turns=4 and kept_turns=1, the turns 0 to 3 of a stream are generated in one
            dialogue, and the turns 4 to 6 in a dialogue that begins with turn 3.

        Args:
            turns: Number of turns of the stream, at least 1.

        Returns:
            Turns of each dialogue, and its first turn that no earlier dialogue generated.
        """
        end = min(turns, self.max_turns)
        dialogues = [(range(end), 0)]
        while end < turns:
            first, begun = end - self.kept_turns, end
            end = min(turns, first + self.max_turns)
            dialogues.append((range(first, end), begun))
        return dialogues
