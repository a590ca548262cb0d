"""Re-translation of bad references by a causal language model (InfiniSST, appendix A.1)."""

from typing import ClassVar

from zoo.errors import check_numbers
from zoo.translators.causal_lm import CausalLM

# The prompt with which TowerInstruct was trained to translate (Alves et al., 2024).
PROMPT = (
    "Translate the following text from {source} into {target}.\n{source}: {transcript}\n{target}:"
)


class Retranslation(CausalLM):
    """A translator of transcripts, and which translations of the corpus it replaces.

    The defaults are those of the paper, which names no limit of the WER: 40 % is that of the filter
    in the released code.

    Args:
        name: hub id or folder of a causal language model, such as Unbabel/TowerInstruct-7B-v0.2.
        max_estimate: translations with at most this estimated quality are replaced; None: with any,
            and the step ``estimation`` is not needed.
        max_wer: only where the WER of the recogniser is at most this many percent, so that the
            transcript is what was spoken; None: with any, and the step ``recognition`` is not
            needed.
        prompt: message of the user, with {transcript}; it may have {source} and {target}, the
            English names of the languages.
        chat: whether the prompt is a message in the chat template of the tokenizer; false: it is
            the beginning of a text, and the translation is the rest of its last line.
        frequency_penalty: what the score of a token loses for each time that the translation
            already has it.
        max_tokens: maximum number of generated tokens of a translation, including its end.
        batch_size: number of texts that are translated at once.
        dtype: dtype of the network, by its name in torch.

    Raises:
        ZooError: an argument is impossible.
    """

    owner: ClassVar[str] = "retranslation"

    def __init__(
        self,
        *,
        name: str | None,
        max_estimate: float | None = 0.5,
        max_wer: float | None = 40.0,
        prompt: str = PROMPT,
        chat: bool = True,
        frequency_penalty: float = 0.1,
        max_tokens: int = 512,
        batch_size: int = 32,
        dtype: str = "float32",
    ) -> None:
        super().__init__(
            name=name,
            prompt=prompt,
            chat=chat,
            frequency_penalty=frequency_penalty,
            max_tokens=max_tokens,
            batch_size=batch_size,
            dtype=dtype,
        )
        check_numbers(self.owner, least=0, max_wer=max_wer)
        self.max_estimate = max_estimate
        self.max_wer = max_wer
