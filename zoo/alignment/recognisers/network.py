"""The network of a pretrained speech recogniser of Transformers."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoFeatureExtractor,
    AutoModelForCTC,
    AutoModelForSpeechSeq2Seq,
    AutoProcessor,
    AutoTokenizer,
)

from zoo.alignment.recognisers.base import Recognised
from zoo.alignment.recognisers.pauses import split_at_pauses
from zoo.alignment.recognisers.word_times import Timing, shift, timing_of
from zoo.backbones.base import dtype_named
from zoo.backbones.ctc.best_path import best_paths, features
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.loading import (
    check_extractor,
    find_config,
    load_network,
    load_part,
)
from zoo.base.errors import ZooError
from zoo.base.languages import language as language_of
from zoo.base.talks import Word
from zoo.base.types import SAMPLE_RATE, Samples, Seconds

NOUN = "recogniser"
# Suffix of a model's class name in its config.json, and the class that loads such models.
KINDS = {"ForCTC": AutoModelForCTC, "ForConditionalGeneration": AutoModelForSpeechSeq2Seq}
# Model types of sequence-to-sequence recognisers. Other models of the library need an instruction
# or an audio placeholder, and generate something else without it.
SEQUENCE_TYPES = ("whisper", "canary", "moonshine", "moonshine_streaming", "speech_to_text")
PROMPTED = ("canary",)  # the decoder input begins with a prompt that contains the language


class RecogniserNetwork:
    """The network, tokenizer and feature extractor of a ``NamedRecogniser``.

    Args:
        name: hub id or folder of a CTC model or a sequence-to-sequence model.
        language: language code, passed to models of several languages (Whisper).
        batch_size: number of pieces that are transcribed at once.
        piece_seconds: maximum length of a piece; longer speech is split at pauses.
        dtype: dtype of the network, by its name in torch.
    """

    def __init__(
        self,
        *,
        name: str,
        language: str | None,
        batch_size: int,
        piece_seconds: Seconds,
        dtype: str,
    ) -> None:
        self.name = name
        self.language = language
        self.batch_size = batch_size
        self.piece_seconds = piece_seconds
        self.dtype = dtype_named(dtype)
        self._separator = language_of(language).separator if language else " "
        self._network: Any = None

    def load(self, device: torch.device | None = None) -> None:
        """See ``Recogniser``."""
        if self._network is None:
            kind = self.kind()
            self._extractor = load_part(
                "feature extractor", AutoFeatureExtractor.from_pretrained, self.name
            )
            check_extractor(self._extractor, self.name)
            self._tokenizer = load_part("tokenizer", AutoTokenizer.from_pretrained, self.name)
            self._network = load_network(KINDS[kind], self.name, self.dtype).requires_grad_(False)
            self._is_ctc = kind == "ForCTC"
            self._generate_options = {} if self._is_ctc else self._language_options()
            self._prompt = self._language_prompt()
            self._timing = timing_of(
                self._network, self._extractor, self._tokenizer, name=self.name, code=self.language
            )
        self._network.to(device or "cpu")

    def kind(self) -> str:
        """Return the key of ``KINDS`` for the model, from its config.json.

        Raises:
            ZooError: the model is missing or not a recogniser.
        """
        hub.check(NOUN, self.name)
        config = find_config(self.name)
        if not config:
            raise ZooError(f"There is no {NOUN} in {self.name} (no readable config.json).")

        class_name = str((config.get("architectures") or ["unknown"])[0])
        is_known = config.get("model_type") in SEQUENCE_TYPES
        for suffix in KINDS:
            if class_name.endswith(suffix) and (suffix == "ForCTC" or is_known):
                return suffix
        raise ZooError(
            f"{self.name} is not a {NOUN} but {class_name} according to its config.json; choose a "
            "CTC model (Wav2Vec2ForCTC, HubertForCTC, ...) or a sequence-to-sequence model "
            f"of type {', '.join(SEQUENCE_TYPES)}."
        )

    def _language_options(self) -> dict[str, Any]:
        """Return the language and task options of ``generate``; empty for monolingual models.

        Raises:
            ZooError: the model does not support the language.
        """
        languages = self._network.generation_config.to_dict().get("lang_to_id")
        if not languages or self.language is None:
            return {}
        if f"<|{self.language}|>" not in languages:
            codes = ", ".join(sorted(code.strip("<|>") for code in languages))
            raise ZooError(
                f"{self.name} does not recognise {self.language!r}; choose recogniser.language "
                f"from: {codes}."
            )
        return {"language": self.language, "task": "transcribe"}

    def _language_prompt(self) -> Tensor | None:
        """Return the decoder ids (n,) before a transcript, from the model's chat template.

        None for a model whose decoder input begins with its start token.

        Raises:
            ZooError: the model does not support the language, or no language is set.
        """
        if self._network.config.model_type not in PROMPTED:
            return None
        processor = load_part("processor", AutoProcessor.from_pretrained, self.name)
        silence = torch.zeros(SAMPLE_RATE).numpy()  # the template contains no audio
        try:
            [prompt] = processor.apply_transcription_request(
                [silence], source_language=self.language or "", tokenize=False
            )
        except ValueError as error:
            raise ZooError(
                f"{self.name} does not recognise {self.language!r}; set recogniser.language to a "
                "language of the model."
            ) from error
        ids: Tensor = processor.tokenizer(
            prompt, add_special_tokens=False, return_tensors="pt"
        ).input_ids
        return ids[0]

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        """See ``Recogniser``; call ``load`` first."""
        return [found.text for found in self._recognise(waves, None)]

    def recognise(self, waves: Sequence[Tensor]) -> list[Recognised]:
        """See ``TimedRecogniser``; call ``load`` first."""
        return self._recognise(waves, self._timing)

    @torch.inference_mode()
    def _recognise(self, waves: Sequence[Tensor], timing: Timing | None) -> list[Recognised]:
        """Transcribe waveforms, with the times of their words if ``timing`` gives them."""
        assert self._network is not None, "call load first"
        pieces = [
            (row, start, piece)
            for row, wave in enumerate(waves)
            for start, piece in self._audible_pieces(wave)
        ]

        # Pieces of similar length share a batch, which keeps the padding short.
        longest_first = sorted(range(len(pieces)), key=lambda index: -len(pieces[index][2]))
        found = [Recognised("", ())] * len(pieces)
        for start in range(0, len(pieces), self.batch_size):
            batch = longest_first[start : start + self.batch_size]
            results = self._recognise_batch([pieces[index][2] for index in batch], timing)
            for index, result in zip(batch, results, strict=True):
                found[index] = result

        rows: list[list[tuple[Samples, Recognised]]] = [[] for _ in waves]
        for (row, start, _), one in zip(pieces, found, strict=True):
            if one.text:
                rows[row].append((start, one))
        return [self._joined(row) for row in rows]

    def _joined(self, parts: Sequence[tuple[Samples, Recognised]]) -> Recognised:
        """Join what was found in the pieces of a waveform, each with its start."""
        text = self._separator.join(one.text for _, one in parts)
        words: list[Word] = []
        for start, one in parts:
            if one.words is None:
                return Recognised(text, None)
            words += shift(one.words, start / SAMPLE_RATE)
        return Recognised(text, tuple(words))

    def _audible_pieces(self, wave: Tensor) -> list[tuple[Samples, Tensor]]:
        """Split a waveform into pieces with their starts, without those of digital silence."""
        pieces = split_at_pauses(wave, round(self.piece_seconds * SAMPLE_RATE))
        starts = accumulate((len(piece) for piece in pieces), initial=0)
        return [
            (start, piece)
            for start, piece in zip(starts, pieces, strict=False)
            if bool(piece.any())
        ]

    def _recognise_batch(self, waves: Sequence[Tensor], timing: Timing | None) -> list[Recognised]:
        """Transcribe waveforms in one pass of the network; ``timing`` as in ``_recognise``."""
        paths: list[Tensor] | None = None
        if self._is_ctc:
            paths = best_paths(self._network, self._extractor, waves)
            texts = [str(self._tokenizer.decode(path.tolist())) for path in paths]
        else:
            texts = self._generate(waves)
        texts = [text.strip() for text in texts]
        if timing is None:
            return [Recognised(text, None) for text in texts]
        return [
            Recognised(text, words)
            for text, words in zip(texts, timing.words(waves, texts, paths), strict=True)
        ]

    def _generate(self, waves: Sequence[Tensor]) -> list[str]:
        """Transcribe waveforms with a sequence-to-sequence model."""
        inputs = features(self._extractor, waves, return_attention_mask=True)
        options = dict(self._generate_options)
        if self._prompt is not None:
            prompts = self._prompt.expand(len(waves), -1)
            options["decoder_input_ids"] = prompts.to(self._network.device)
            room = self._network.config.get_text_config().max_position_embeddings
            options["max_new_tokens"] = room - len(self._prompt)
        ids = self._network.generate(
            inputs[self._network.main_input_name].to(self._network.device, self.dtype),
            attention_mask=inputs["attention_mask"].to(self._network.device),
            do_sample=False,
            num_beams=1,
            **options,
        )
        return [str(text) for text in self._tokenizer.batch_decode(ids, skip_special_tokens=True)]
