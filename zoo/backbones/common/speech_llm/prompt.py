"""The dialogue of InfiniSST as token ids: instruction, then speech and translation in turns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.teacher_forcing import IGNORED
from zoo.backbones.common.text.prompt import ChatPrompt, bracketed, formatted
from zoo.backbones.common.wav2vec2.adapter import CHUNK_EMBEDDINGS
from zoo.errors import ZooError, unknown_choice
from zoo.languages import Language

MOST = 64  # latency multipliers whose tokens an error message lists


@dataclass(frozen=True, slots=True)
class Template:
    """Strings of the dialogue; the defaults are Llama 3's chat format.

    Attributes:
        instruction: May contain {source} and {target} (names of languages), {multiplier} (m) and
            {latency}.
        user: Before the speech of a turn.
        assistant: Before the translation of a turn.
        end_of_turn: The token that ends speech and translation; it means READ.
        speech: The token whose embeddings are replaced by speech; it is never generated.
        latency: The token that {latency} stands for; contains {multiplier}.
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

    def __post_init__(self) -> None:
        """Raises ZooError for other names in braces."""
        latency = formatted(self.latency, multiplier=1)
        names = {"source": "", "target": "", "multiplier": 1, "latency": latency}
        if latency is None or formatted(self.instruction, **names) is None:
            raise ZooError(
                "The template's instruction may have {source}, {target}, {multiplier} and "
                "{latency} in it and no other braces, its latency {multiplier} alone; not "
                f"{self.instruction!r} and {self.latency!r}."
            )

    def filled(self, *, source: str, target: str, multiplier: int) -> str:
        """The instruction for two languages, by name, and m."""
        latency = self.latency.format(multiplier=multiplier)
        return self.instruction.format(
            source=source, target=target, multiplier=multiplier, latency=latency
        )

    def special_tokens(self, most: int) -> list[str]:
        """All strings in angle brackets, for a small tokenizer; latency tokens of m = 1 ..

        ``most``.
        """
        filled = [self.filled(source="", target="", multiplier=m) for m in range(1, most + 1)]
        return bracketed([*filled, self.user, self.assistant, self.end_of_turn, self.speech])


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
)
OFFLINE = replace(  # as the authors' offline model, their baseline, was trained
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
    """A template, or the one of that name. Raises ZooError for an unknown name."""
    if isinstance(template, Template):
        return template
    if template not in TEMPLATES:
        raise unknown_choice("template", template, TEMPLATES)
    return TEMPLATES[template]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A dialogue as ids.

    Attributes:
        input_ids: Of the whole dialogue.
        labels: The id *at* each position that is learned, ``IGNORED`` elsewhere.
        speech_positions: Positions of the speech embeddings in order, 12 per chunk.
    """

    input_ids: list[int]
    labels: list[int]
    speech_positions: list[int]


class Prompt(ChatPrompt):
    """Builds the dialogue's ids.

    Attributes:
        end_of_turn: Id of the template's token.
        speech: Id of the template's token.
    """

    def __init__(self, *, tokenizer: PreTrainedTokenizerBase, template: Template) -> None:
        """Raises ZooError when the tokenizer lacks a special token of the template."""
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

    def instruction(self, *, source: Language, target: Language, multiplier: int) -> list[int]:
        """Ids of the instruction, which the decoder's window keeps.

        Raises:
            ZooError: For a multiplier whose latency token the tokenizer lacks.
        """
        if self.template.latency and not self._has_latency(multiplier):
            known = [m for m in range(1, MOST + 1) if self._has_latency(m)]
            there = f"for m = {', '.join(map(str, known))}" if known else "for no m"
            raise ZooError(
                f"The tokenizer has no latency token for m = {multiplier}; it has tokens {there}."
            )
        return self.ids(
            self.template.filled(source=source.name, target=target.name, multiplier=multiplier)
        )

    def _has_latency(self, multiplier: int) -> bool:
        return len(self.ids(self.template.latency.format(multiplier=multiplier))) == 1

    def turn(self, chunks: int) -> list[int]:
        """Ids from the opening of a user's turn with ``chunks`` chunks to the opening of the
        answer.
        """
        return self.spoken(CHUNK_EMBEDDINGS * chunks)

    def spoken(self, embeddings: int) -> list[int]:
        """``turn`` for a number of speech embeddings."""
        return [*self._user, *[self.speech] * embeddings, self.end_of_turn, *self._assistant]

    def answer(self, text: str) -> list[int]:
        """Ids of a turn's translation, without leading space, and its end."""
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
        """A dialogue to learn from; the loss covers each text and its end, empty texts included.

        Args:
            turns: Text of each turn.
            chunks: Chunks of speech of each turn.
            source: Language of the speech.
            target: Language of the texts.
            multiplier: m.
        """
        ids = self.instruction(source=source, target=target, multiplier=multiplier)
        labels = [IGNORED] * len(ids)
        for text, size in zip(turns, chunks, strict=True):
            turn, answer = self.turn(size), self.answer(text)
            ids += turn + answer
            labels += [IGNORED] * len(turn) + answer
        positions = [position for position, token in enumerate(ids) if token == self.speech]
        return Trajectory(ids, labels, positions)
