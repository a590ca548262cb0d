"""The dialogue: instruction, then speech and translation in turns. Knows token ids, but no network and no audio."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from zoo.backbones.infinisst.adapter import CHUNK_EMBEDDINGS
from zoo.errors import ZooError
from zoo.languages import Language

IGNORED = -100  # label of positions without a loss


@dataclass(frozen=True, slots=True)
class Template:
    """Strings of the dialogue; the default is Llama 3.1's chat format.

    instruction: may contain {source}, {target} (names of languages) and {multiplier}. speech: one token whose id
    stands where speech embeddings go. end_of_turn: the token that means READ; it also closes the speech.
    """

    instruction: str = (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
        "Translate the following speech from {source} to {target}.<|eot_id|>"
    )
    user: str = "<|start_header_id|>user<|end_header_id|>\n\n"
    assistant: str = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    end_of_turn: str = "<|eot_id|>"
    speech: str = "<|reserved_special_token_0|>"


LEAN = Template(
    instruction="<|begin_of_text|>Translate the following speech from {source} to {target}.<|eot_id|>",
    user="<|user|>",
    assistant="<|assistant|>",
    speech="<|speech|>",
)


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
        """Ids of the instruction, which the decoder's window always keeps."""
        text = self.template.instruction.format(source=source.name, target=target.name, multiplier=multiplier)
        return self._ids(text)

    def turn(self, chunks: int) -> list[int]:
        """Ids from the opening of the user's turn with ``chunks`` chunks of speech to the opening of the answer."""
        speech = [self.speech] * (CHUNK_EMBEDDINGS * chunks)
        return [*self._user, *speech, self.end_of_turn, *self._assistant]

    def answer(self, text: str) -> list[int]:
        """Ids of a turn's translation and its end. The text has no leading space (a tokenizer may add its own)."""
        return [*self._ids(text.strip()), self.end_of_turn]

    def trajectory(
        self, turns: Sequence[str], *, chunks: Sequence[int], source: Language, target: Language, multiplier: int
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
            raise ZooError(f"The tokenizer has no single token {token!r}, which the prompt template needs.")
        return ids[0]
