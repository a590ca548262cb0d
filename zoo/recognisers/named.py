"""Speech recognisers of Transformers by hub id or folder: CTC (wav2vec 2.0, HuBERT, Wav2Vec2-BERT, ...) and
sequence-to-sequence (Whisper, ...). Knows no system and no score."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoFeatureExtractor,
    AutoModelForCTC,
    AutoModelForSpeechSeq2Seq,
    AutoTokenizer,
    PreTrainedConfig,
)

from zoo.backbones.base import dtype_named
from zoo.backbones.common.pretrained import hub
from zoo.backbones.common.pretrained.loading import UNREADABLE, check_extractor, part, weights
from zoo.backbones.ctc.best_path import best_paths, features
from zoo.errors import ZooError
from zoo.languages import language as known
from zoo.recognisers.pieces import pieces
from zoo.types import SAMPLE_RATE, Seconds

NOUN = "recogniser"
KINDS = {"ForCTC": AutoModelForCTC, "ForConditionalGeneration": AutoModelForSpeechSeq2Seq}


class NamedRecogniser:
    """``name``: hub id or folder of a model for CTC, or of a sequence-to-sequence one.

    language: code, told to a model of several languages (Whisper). optional: where it is missing, rows go without its
    scores. batch_size: pieces heard at once. piece_seconds: longer speech is heard in pieces that end in pauses.
    dtype: of the network. Greedy, so the same words every time; a language model beside the weights is not used.
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
        if batch_size < 1 or not 1 <= piece_seconds <= 30:
            raise ZooError(
                f"A recogniser needs batch_size of at least 1 and piece_seconds from 1 to 30, not {batch_size} and "
                f"{piece_seconds}."
            )
        self.name = name
        self.language = language
        self._separator = known(language).separator if language else " "
        self.optional = optional
        self.batch_size = batch_size
        self.piece_seconds = piece_seconds
        self.dtype = dtype_named(dtype)
        self._network: Any = None

    def missing(self) -> str | None:
        """See ``Recogniser``: only an ``optional`` one may be missing."""
        try:
            self._kind()
        except ZooError as error:
            if not self.optional:
                raise
            return f"Speech is not scored by its words, for want of a recogniser: {error}"
        return None

    def load(self, device: torch.device | None = None) -> None:
        """See ``Recogniser``. A second call only moves the network."""
        if self._network is None:
            kind = self._kind()
            self._extractor = part(
                "feature extractor", AutoFeatureExtractor.from_pretrained, self.name
            )
            check_extractor(self._extractor, self.name)
            self._tokenizer = part("tokenizer", AutoTokenizer.from_pretrained, self.name)
            self._network = weights(KINDS[kind], self.name, self.dtype).requires_grad_(False)
            self._generating = kind != "ForCTC"
            self._told = self._telling() if self._generating else {}
        self._network.to(device or "cpu")

    def _kind(self) -> str:
        """How the name of its class ends. Raises ZooError for what is missing or no recogniser."""
        hub.check(NOUN, self.name)
        try:
            settings, _ = PreTrainedConfig.get_config_dict(self.name)
        except UNREADABLE:
            settings = {}
        if not settings:
            raise ZooError(f"There is no {NOUN} in {self.name} (no config.json that can be read).")
        classes = settings.get("architectures") or ["nothing known"]
        for kind in KINDS:
            if str(classes[0]).endswith(kind):
                return kind
        raise ZooError(
            f"{self.name} is no {NOUN} but {classes[0]} by its config.json; name a model for CTC (Wav2Vec2ForCTC, "
            "HubertForCTC, ...) or a sequence-to-sequence one (WhisperForConditionalGeneration, ...)."
        )

    def _telling(self) -> dict[str, Any]:
        """What ``generate`` is told of language and task. Raises ZooError for a language that a Whisper lacks."""
        facts = self._network.generation_config.to_dict()
        languages = facts.get("lang_to_id")
        if not languages or self.language is None:
            return {}
        if f"<|{self.language}|>" not in languages:
            codes = ", ".join(sorted(code.strip("<|>") for code in languages))
            raise ZooError(
                f"{self.name} does not hear {self.language!r}; choose recogniser.language from: {codes}."
            )
        return {"language": self.language, "task": "transcribe"}

    @torch.inference_mode()
    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        """See ``Recogniser``; ``load`` comes first."""
        assert self._network is not None, "load comes first"
        cut = [(row, piece) for row, wave in enumerate(waves) for piece in self._pieces(wave)]
        by_length = sorted(
            range(len(cut)), key=lambda place: -len(cut[place][1])
        )  # little to fill up
        texts = [""] * len(cut)
        for first in range(0, len(by_length), self.batch_size):
            places = by_length[first : first + self.batch_size]
            for place, text in zip(
                places, self._texts([cut[place][1] for place in places]), strict=True
            ):
                texts[place] = text.strip()
        rows = [
            [text for (owner, _), text in zip(cut, texts, strict=True) if owner == row]
            for row in range(len(waves))
        ]
        return [self._separator.join(text for text in row if text) for row in rows]

    def _pieces(self, wave: Tensor) -> list[Tensor]:
        """Those that sound."""
        return [
            piece
            for piece in pieces(wave, round(self.piece_seconds * SAMPLE_RATE))
            if bool(piece.any())
        ]

    def _texts(self, waves: Sequence[Tensor]) -> list[str]:
        """What each wave (n,) says."""
        if not self._generating:
            paths = best_paths(self._network, self._extractor, waves)
            return [str(self._tokenizer.decode(path.tolist())) for path in paths]
        given = features(self._extractor, waves, return_attention_mask=True)
        heard = given[self._network.main_input_name].to(self._network.device, self.dtype)
        mask = given["attention_mask"].to(self._network.device)
        ids = self._network.generate(
            heard, attention_mask=mask, do_sample=False, num_beams=1, **self._told
        )
        return [str(text) for text in self._tokenizer.batch_decode(ids, skip_special_tokens=True)]
