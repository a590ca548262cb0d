"""The dialogue: instruction, then speech and translation in turns. Knows token ids, but no network and no audio."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from transformers import PreTrainedTokenizerBase

from zoo.backbones.common.text.vocabulary import containing
from zoo.backbones.common.wav2vec2.adapter import CHUNK_EMBEDDINGS
from zoo.errors import ZooError, unknown_choice
from zoo.languages import Language

IGNORED = -100  # label of positions without a loss
MOST = 64  # latency tokens to look for


@dataclass(frozen=True, slots=True)
class Template:
    """Strings of the dialogue; the default is Llama 3's chat format.

    instruction: may contain {source}, {target} (names of languages), {multiplier} (m) and {latency}, the one token
    that ``latency`` names, itself with {multiplier}. speech: one token whose id stands where speech embeddings go; it
    is never said. end_of_turn: the token that means READ; it also closes the speech.
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
        """Raises ZooError for an instruction with other names in braces."""
        try:
            self.filled(source="", target="", multiplier=1)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ZooError(
                "The template's instruction may have {source}, {target}, {multiplier} and {latency} in it and no other "
                f"braces, its latency {{multiplier}} alone; not {self.instruction!r} and {self.latency!r}."
            ) from error

    def filled(self, *, source: str, target: str, multiplier: int) -> str:
        """The instruction for two languages, by name, and m."""
        latency = self.latency.format(multiplier=multiplier)
        return self.instruction.format(
            source=source, target=target, multiplier=multiplier, latency=latency
        )

    def special_tokens(self, most: int) -> list[str]:
        """All strings in angle brackets, for a tokenizer of one's own; latency tokens of m = 1 .. ``most``."""
        filled = [self.filled(source="", target="", multiplier=m) for m in range(1, most + 1)]
        texts = [*filled, self.user, self.assistant, self.end_of_turn, self.speech]
        return list(
            dict.fromkeys(token for text in texts for token in re.findall(r"<[^<>\s]+>", text))
        )


LEAN = Template(
    instruction="<|begin_of_text|>Translate the following speech from {source} to {target}.<|eot_id|>",
    user="<|user|>",
    assistant="<|assistant|>",
    speech="<|speech|>",
)
RELEASED = Template(  # Llama 3.1's chat format as Transformers renders it, dates included, and tokens of its own
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
    instruction="<|im_start|>system\nTranslate the following speech from {source} to {target}.<|im_end|>",
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
    """A template, or the one of that name. Raises ZooError for a name that there is not."""
    if isinstance(template, Template):
        return template
    if template not in TEMPLATES:
        raise unknown_choice("template", template, TEMPLATES)
    return TEMPLATES[template]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A dialogue as ids. labels: the id where the model learns to write it, IGNORED elsewhere.

    speech_positions: where the speech embeddings stand, in order, 12 per chunk.
    """

    input_ids: list[int]
    labels: list[int]
    speech_positions: list[int]


class Prompt:
    """Builds the dialogue's ids. Raises ZooError when the tokenizer lacks a special token of the template."""

    def __init__(self, *, tokenizer: PreTrainedTokenizerBase, template: Template) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.end_of_turn = self._special(template.end_of_turn)
        self.speech = self._special(template.speech)
        self._user = self._ids(template.user)
        self._assistant = self._ids(template.assistant)

    def instruction(self, *, source: Language, target: Language, multiplier: int) -> list[int]:
        """Ids of the instruction, which the decoder's window keeps.

        Raises ZooError for a multiplier whose latency token the tokenizer lacks.
        """
        if (
            self.template.latency
            and len(self._ids(self.template.latency.format(multiplier=multiplier))) != 1
        ):
            known = [
                m
                for m in range(1, MOST + 1)
                if len(self._ids(self.template.latency.format(multiplier=m))) == 1
            ]
            raise ZooError(
                f"The tokenizer has no latency token for m = {multiplier}; "
                + (
                    f"it has those for m = {', '.join(map(str, known))}."
                    if known
                    else "it has none at all."
                )
            )
        return self._ids(
            self.template.filled(source=source.name, target=target.name, multiplier=multiplier)
        )

    def containing(self, texts: Sequence[str]) -> list[int]:
        """Ids of all tokens, special ones aside, whose own text contains one of ``texts``.

        Raises ZooError for a text that no token contains whole: its parts may stand in any other word.
        """
        return containing(self.tokenizer, texts)

    def turn(self, chunks: int) -> list[int]:
        """Ids from the opening of the user's turn with ``chunks`` chunks of speech to the opening of the answer."""
        return self.spoken(CHUNK_EMBEDDINGS * chunks)

    def spoken(self, embeddings: int) -> list[int]:
        """The same for a number of speech embeddings."""
        return [*self._user, *[self.speech] * embeddings, self.end_of_turn, *self._assistant]

    def answer(self, text: str) -> list[int]:
        """Ids of a turn's translation and its end. The text has no leading space (a tokenizer may add its own)."""
        return [*self._ids(text.strip()), self.end_of_turn]

    def trajectory(
        self,
        turns: Sequence[str],
        *,
        chunks: Sequence[int],
        source: Language,
        target: Language,
        multiplier: int,
    ) -> Trajectory:
        """One text and number of chunks per turn; the loss covers each text and its end, empty texts included."""
        ids = self.instruction(source=source, target=target, multiplier=multiplier)
        labels = [IGNORED] * len(ids)
        for text, size in zip(turns, chunks, strict=True):
            turn, answer = self.turn(size), self.answer(text)
            ids += turn + answer
            labels += [IGNORED] * len(turn) + answer
        positions = [position for position, token in enumerate(ids) if token == self.speech]
        return Trajectory(ids, labels, positions)

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"] if text else []

    def _special(self, token: str) -> int:
        ids = self._ids(token)
        if len(ids) != 1:
            raise ZooError(
                f"The tokenizer {self.tokenizer.name_or_path} has no single token {token!r}, which backbone.template "
                f"needs; describe its own dialogue there or name one that fits it ({', '.join(TEMPLATES)})."
            )
        return ids[0]
