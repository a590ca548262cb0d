"""Pretrained speech recognisers of Transformers, by hub id or folder.

Supported are CTC models (wav2vec 2.0, HuBERT, Wav2Vec2-BERT, ...) and sequence-to-sequence models
(Whisper, ...).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.languages import language as language_of
from zoo.base.types import Seconds
from zoo.config.shipped import how_to_get

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from zoo.alignment.recognisers.base import Recognised
    from zoo.alignment.recognisers.network import RecogniserNetwork

DTYPES = ("float32", "bfloat16", "float16", "float64")


class NamedRecogniser:
    """A pretrained recogniser that decodes greedily, without an external language model.

    Args:
        name: hub id or folder of a CTC model or a sequence-to-sequence model.
        language: language code, passed to models of several languages (Whisper).
        optional: whether ASR scores are skipped if the model is missing, instead of an error.
        batch_size: number of pieces that are transcribed at once.
        piece_seconds: maximum length of a piece; longer speech is split at pauses.
        dtype: dtype of the network, by its name in torch.

    Raises:
        ZooError: ``batch_size`` or ``piece_seconds`` is outside its range, or ``language`` or
            ``dtype`` is unknown.
    """

    def __init__(
        self,
        *,
        name: str,
        language: str | None = None,
        optional: bool = False,
        batch_size: int = 8,
        piece_seconds: Seconds = 25.0,
        dtype: str = "float32",
    ) -> None:
        check_numbers("A recogniser", least=1, batch_size=batch_size)
        check_numbers("A recogniser", least=1, most=30, piece_seconds=piece_seconds)
        check_choice("dtype", dtype, DTYPES)
        if language is not None:
            language_of(language)

        self.name = name
        self.language = language
        self.optional = optional
        self.batch_size = batch_size
        self.piece_seconds = piece_seconds
        self.dtype = dtype

    @cached_property
    def _network(self) -> RecogniserNetwork:
        """The network. Every evaluation has a recogniser, but only target speech needs torch."""
        from zoo.alignment.recognisers.network import RecogniserNetwork

        return RecogniserNetwork(
            name=self.name,
            language=self.language,
            batch_size=self.batch_size,
            piece_seconds=self.piece_seconds,
            dtype=self.dtype,
        )

    def unavailable_reason(self) -> str | None:
        """See ``Recogniser``; only an ``optional`` model may be missing."""
        try:
            self._network.kind()
        except ZooError as error:
            if not self.optional:
                raise
            return f"{command}." if (command := how_to_get(self.name)) else str(error)
        return None

    def load(self, device: torch.device | None = None) -> None:
        """See ``Recogniser``."""
        self._network.load(device)

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        """See ``Recogniser``; call ``load`` first."""
        return self._network.transcribe(waves)

    def recognise(self, waves: Sequence[Tensor]) -> list[Recognised]:
        """See ``TimedRecogniser``: CTC models of characters and Whisper give times."""
        return self._network.recognise(waves)
