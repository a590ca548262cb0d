"""Dialogue format of InfiniSST as token ids: instruction, then speech and translation in turns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from transformers import PreTrainedTokenizerBase

from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.backbones.encoders.wav2vec2.adapter import CHUNK_EMBEDDINGS
from zoo.backbones.text.context import ContextStrings
from zoo.backbones.text.prompt import ChatPrompt, fill_fields, find_special_tokens
from zoo.base.errors import ZooError, check_choice
from zoo.base.languages import Language
from zoo.base.types import NO_CONTEXT, Context

MAX_LISTED_MULTIPLIER = 64  # largest latency multiplier that an error message lists


@dataclass(frozen=True, slots=True)
class Template(ContextStrings):
    """Strings of the dialogue; the defaults are Llama 3's chat format.

    The context ends the instruction, before its ``end_of_turn``.

    Attributes:
        instruction: First string of the dialogue. It may contain the fields {source} and {target}
            (language names), {multiplier} (latency multiplier m) and {latency}.
        user: String before the speech of a turn.
        assistant: String before the translation of a turn.
        end_of_turn: Token after the speech and after the translation of a turn. If the model
            generates this token, the policy reads more audio.
        speech: Placeholder token, whose embeddings are replaced by speech embeddings. The token is
            never generated.
        latency: Token that replaces {latency}; contains the field {multiplier}.
        adds_tokens: Whether a training adds the speech token and the latency tokens to a tokenizer
            that lacks them.
    """

    instruction: str = (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
        "Translate the following speech from {source} to {target}.<|eot_id|>"
    )
    user: str = "<|start_header_id|>user<|end_header_id|>\n\n"
    assistant: str = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    end_of_turn: str = "<|eot_id|>"
    speech: str = "<|reserved_special_token_0|>"
    latency: str = ""
    adds_tokens: bool = False

    def __post_init__(self) -> None:
        """Raises ZooError for unknown fields in braces."""
        self.check_context()
        latency = fill_fields(self.latency, multiplier=1)
        names = {"source": "", "target": "", "multiplier": 1, "latency": latency}
        if latency is None or fill_fields(self.instruction, **names) is None:
            raise ZooError(
                "The template's instruction may have {source}, {target}, {multiplier} and "
                "{latency} in it and no other braces, its latency {multiplier} alone; not "
                f"{self.instruction!r} and {self.latency!r}."
            )

    def filled(self, *, source: str, target: str, multiplier: int, known: str = "") -> str:
        """Return the instruction with values in place of its fields in braces.

        Args:
            source: English name of the source language.
            target: English name of the target language.
            multiplier: Latency multiplier m.
            known: The context of the talk, see ``ContextStrings.context``.
        """
        latency = self.latency.format(multiplier=multiplier)
        body = self.instruction.removesuffix(self.end_of_turn)
        end = self.instruction.removeprefix(body)
        filled = body.format(source=source, target=target, multiplier=multiplier, latency=latency)
        return f"{filled}{known}{end}"

    def added_tokens(self, most: int) -> list[str]:
        """Return the tokens that a training adds to the tokenizer of a pretrained language model.

        Args:
            most: Largest latency multiplier m; latency tokens for m = 1 to ``most`` are included.
        """
        if not self.adds_tokens:
            return []
        latencies = [self.latency.format(multiplier=m) for m in range(1, most + 1)]
        return [self.speech, *(token for token in latencies if token)]

    def special_tokens(self, most: int) -> list[str]:
        """Return all strings in angle brackets, the special tokens of a small tokenizer.

        Args:
            most: Largest latency multiplier m; latency tokens for m = 1 to ``most`` are included.
        """
        filled = [self.filled(source="", target="", multiplier=m) for m in range(1, most + 1)]
        return find_special_tokens(
            [*filled, self.user, self.assistant, self.end_of_turn, self.speech]
        )


LEAN = Template(
    instruction=(
        "<|begin_of_text|>Translate the following speech from {source} to {target}.<|eot_id|>"
    ),
    user="<|user|>",
    assistant="<|assistant|>",
    speech="<|speech|>",
)
# Llama 3.1's chat format as Transformers renders it, dates included, and new tokens
RELEASED = Template(
    instruction=(
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
        "Translate the following speech from {source} to {target} with latency {latency}.<|eot_id|>"
    ),
    speech="<sp_patch>",
    latency="<latency_{multiplier}>",
    adds_tokens=True,
)
OFFLINE = replace(  # format of the offline baseline of InfiniSST's authors
    RELEASED, instruction=RELEASED.instruction.replace(" with latency {latency}", ""), latency=""
)
CHATML = Template(  # Qwen
    instruction=(
        "<|im_start|>system\nTranslate the following speech from {source} to {target}.<|im_end|>"
    ),
    user="\n<|im_start|>user\n",
    assistant="\n<|im_start|>assistant\n",
    end_of_turn="<|im_end|>",
    speech="<|endoftext|>",
)
TEMPLATES = {
    "llama": Template(),
    "released": RELEASED,
    "offline": OFFLINE,
    "chatml": CHATML,
    "lean": LEAN,
}


def template_named(template: Template | str) -> Template:
    """Return a template, given as an object or by name. Raises ZooError for an unknown name."""
    if isinstance(template, Template):
        return template
    check_choice("template", template, TEMPLATES)
    return TEMPLATES[template]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A training dialogue as ids.

    Attributes:
        input_ids: Ids of the whole dialogue.
        labels: The label at position t is input id t if the position has a loss, else ``IGNORED``.
        speech_positions: Positions of the speech embeddings, in order, 12 per chunk.
    """

    input_ids: list[int]
    labels: list[int]
    speech_positions: list[int]


class DialoguePrompt(ChatPrompt):
    """Builder of the ids of a dialogue.

    Attributes:
        template: Strings of the dialogue.
        end_of_turn: Id of the template's ``end_of_turn`` token.
        speech: Id of the template's ``speech`` token.
    """

    def __init__(self, *, tokenizer: PreTrainedTokenizerBase, template: Template) -> None:
        """Look up the special tokens of the template.

        Args:
            tokenizer: Tokenizer of the causal LM.
            template: Strings of the dialogue.

        Raises:
            ZooError: If the tokenizer lacks a special token of the template.
        """
        super().__init__(tokenizer)
        self.template = template
        advice = (
            "describe its own dialogue there or name a template that fits it "
            f"({', '.join(TEMPLATES)})"
        )
        self.end_of_turn = self.single(template.end_of_turn, advice=advice)
        self.speech = self.single(template.speech, advice=advice)
        self._user = self.ids(template.user)
        self._assistant = self.ids(template.assistant)

    def instruction(
        self,
        *,
        source: Language,
        target: Language,
        multiplier: int,
        context: Context = NO_CONTEXT,
    ) -> list[int]:
        """Return the ids of the instruction, which the decoder's window always keeps.

        Args:
            source: Language of the speech.
            target: Language of the translation.
            multiplier: Latency multiplier m.
            context: What is known of the talk.

        Raises:
            ZooError: If the template has a latency token and the tokenizer lacks the token for m.
        """
        if self.template.latency and not self._has_latency(multiplier):
            multipliers = [m for m in range(1, MAX_LISTED_MULTIPLIER + 1) if self._has_latency(m)]
            available = f"for m = {', '.join(map(str, multipliers))}" if multipliers else "for no m"
            raise ZooError(
                f"The tokenizer has no latency token for m = {multiplier}; "
                f"it has tokens {available}."
            )
        names = {"source": source.name, "target": target.name}
        known = self.template.context(context, self.reserved)
        return self.ids(self.template.filled(**names, multiplier=multiplier, known=known))

    def _has_latency(self, multiplier: int) -> bool:
        return len(self.ids(self.template.latency.format(multiplier=multiplier))) == 1

    def turn(self, chunks: int) -> list[int]:
        """Return the ids of a turn with ``chunks`` chunks of speech, up to the translation."""
        return self.spoken(CHUNK_EMBEDDINGS * chunks)

    def spoken(self, embeddings: int) -> list[int]:
        """Return the ids of a turn with a number of speech embeddings, up to the translation."""
        return [*self._user, *[self.speech] * embeddings, self.end_of_turn, *self._assistant]

    def answer(self, text: str) -> list[int]:
        """Return the ids of a turn's translation, without outer spaces, and the end-of-turn id."""
        return [*self.ids(text.strip()), self.end_of_turn]

    def trajectory(
        self,
        turns: Sequence[str],
        *,
        chunks: Sequence[int],
        source: Language,
        target: Language,
        multiplier: int,
    ) -> Trajectory:
        """Build a training dialogue.

        The loss covers the translation and the end-of-turn id of each turn. A turn with an empty
        translation has a loss on the end-of-turn id only.

        Args:
            turns: Translation of each turn.
            chunks: Number of speech chunks of each turn.
            source: Language of the speech.
            target: Language of the translations.
            multiplier: Latency multiplier m.
        """
        ids = self.instruction(source=source, target=target, multiplier=multiplier)
        labels = [IGNORED] * len(ids)
        for text, size in zip(turns, chunks, strict=True):
            turn = self.turn(size)
            answer = self.answer(text)
            ids += turn + answer
            labels += [IGNORED] * len(turn) + answer
        positions = [position for position, token in enumerate(ids) if token == self.speech]
        return Trajectory(ids, labels, positions)
