"""Re-translation of bad references by a causal language model (InfiniSST, appendix A.1)."""

from typing import Any, ClassVar

from zoo.apps.prepare.translators.causal_lm import CausalLM
from zoo.base.errors import check_numbers

# The prompt with which TowerInstruct was trained to translate (Alves et al., 2024).
PROMPT = (
    "Translate the following text from {source} into {target}.\n{source}: {transcript}\n{target}:"
)


class Retranslation(CausalLM):
    """A translator of transcripts, and which translations of the corpus it replaces.

    The defaults are those of the paper, which names no limit of the WER: 40 % is that of the filter
    in the released code. ``name`` may be Unbabel/TowerInstruct-7B-v0.2.

    Args:
        max_estimate: translations with at most this estimated quality are replaced; None: with any,
            and the step ``estimation`` is not needed.
        max_wer: only where the WER of the recogniser is at most this many percent, so that the
            transcript is what was spoken; None: with any, and the step ``recognition`` is not
            needed.
        options: other arguments of ``CausalLM``; ``prompt``, ``frequency_penalty`` and
            ``max_tokens`` have defaults of their own.

    Raises:
        ZooError: an argument is impossible.
    """

    owner: ClassVar[str] = "retranslation"

    def __init__(
        self,
        *,
        max_estimate: float | None = 0.5,
        max_wer: float | None = 40.0,
        prompt: str = PROMPT,
        frequency_penalty: float = 0.1,
        max_tokens: int = 512,
        **options: Any,
    ) -> None:
        super().__init__(
            prompt=prompt, frequency_penalty=frequency_penalty, max_tokens=max_tokens, **options
        )
        check_numbers(self.owner, least=0, max_wer=max_wer)
        self.max_estimate = max_estimate
        self.max_wer = max_wer
