"""SeamlessM4T, first version, which writes and speaks: the published models and a small one."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import SeamlessM4TForSpeechToSpeech, SeamlessM4TModel, SeamlessM4TTokenizer

from zoo.backbones.base import TokenizerCorpus, Units, UnitSpeech
from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.audio.spectrogram import Filterbank
from zoo.backbones.common.encoder_decoder.branches import Branch
from zoo.backbones.common.encoder_decoder.decoder import Decoder
from zoo.backbones.common.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.common.encoder_memory import StreamState
from zoo.backbones.common.pretrained.loading import check_tokenizer, load_network, load_part
from zoo.backbones.common.search import SearchConfig
from zoo.backbones.common.teacher_forcing import token_accuracy, token_loss
from zoo.backbones.seamless_m4t.data import Collator, SpeechBatch
from zoo.backbones.seamless_m4t.encoder import (
    STRIDE,
    check_adaptor,
    encode_frames,
    encode_padded,
    encode_waves,
    load_spectrogram,
)
from zoo.backbones.seamless_m4t.languages import CODES, SpokenLanguages, WrittenLanguages
from zoo.backbones.seamless_m4t.network import random_network, save_network, train_pieces
from zoo.backbones.seamless_m4t.seamless_m4t import ALIGNMENT, MAX_TOKENS, SEARCH, SeamlessM4T
from zoo.backbones.seamless_m4t.speaker import UnitSpeaker
from zoo.backbones.seamless_m4t.weights import check_version, take_vocoder
from zoo.data.excerpts import ExcerptConfig
from zoo.data.units import FILE as UNITS_FILE
from zoo.data.units import Codebook
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.streaming.session import Session, SpeechRequest
from zoo.types import Capability, Hypothesis, Samples, Task


class SeamlessM4TSpeech(EncoderDecoder):
    """``SeamlessM4T`` with text-to-unit model and vocoder; it can be trained.

    Attributes:
        codebook: Of a small model: the units of its target speech.
    """

    exposes: ClassVar[frozenset[Capability]] = SeamlessM4T.exposes | {Capability.SPEECH}
    frame_samples = SeamlessM4T.frame_samples
    trains_on = ExcerptConfig
    codebook: Codebook | None = None

    def __init__(
        self,
        *,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        tokenizer: str | None = None,
        vocoder: str | None = None,
        reader: bool = False,
        voice: int = 0,
        max_units: int = 1024,
        alignment: AlignmentConfig = ALIGNMENT,
        search: SearchConfig = SEARCH,
        max_tokens: int = MAX_TOKENS,
        dtype: str = "float32",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: SeamlessM4T v1 of the hub (facebook/hf-seamless-m4t-medium or -large) or folder;
                None: a randomly initialised network by ``config``.
            config: Fields of Transformers' ``SeamlessM4TConfig``.
            tokenizer: Folder or hub id; None: that of ``name``.
            vocoder: Another model whose vocoder is used.
            reader: Whether the text encoder is loaded as well.
            voice: Number of the vocoder's speaker.
            max_units: Most units of the speech of a text.
            alignment: See ``EncoderDecoder``.
            search: See ``EncoderDecoder``.
            max_tokens: See ``EncoderDecoder``.
            dtype: Of weights and activations.
        """
        super().__init__(alignment=alignment, search=search, max_tokens=max_tokens, dtype=dtype)
        if name is None and (config is None or tokenizer is None):
            raise ZooError(
                "SeamlessM4T needs backbone.name, or backbone.config and backbone.tokenizer."
            )
        self.name = name
        self.config = config or {}
        self.tokenizer_source = str(tokenizer or name)
        self.vocoder_source = vocoder
        self.with_reader = reader
        self.voice = voice
        self.max_units = max_units

    @property
    def title(self) -> str:
        """The model's name in messages."""
        return self.name or "The randomly initialised SeamlessM4T"

    @property
    def unit_samples(self) -> Samples:
        """Samples of a unit frame."""
        return self.speaker.unit_samples

    def build(self) -> None:
        """Read or create network, tokenizer and features.

        Raises:
            ZooError: On what is missing or does not fit, and for the second version, whose
                text-to-unit model attends to no text.
        """
        network = self._network()
        check_adaptor(network.config, self.title)
        generation = network.generation_config
        self.languages = WrittenLanguages.from_generation_config(self.title, generation)
        scores = network.lm_head.out_features
        check_tokenizer(self.tokenizer, self.title, scores=scores, tokens=self.languages.tokens)
        self.end = self.languages.end
        self.encoder = network.speech_encoder
        self.decoder = Decoder(network.text_decoder, network.lm_head)

        if self.vocoder_source is not None:
            take_vocoder(network, self.vocoder_source, self.dtype)
        self.speaker = UnitSpeaker(
            network.t2u_model,
            network.vocoder,
            languages=SpokenLanguages.from_generation_config(self.title, generation),
            voice=self.voice,
            max_units=self.max_units,
        )
        if self.with_reader:
            self.reader = network.text_encoder
        vocoder_folder = self.vocoder_source or self.name
        if vocoder_folder is not None and (Path(vocoder_folder) / UNITS_FILE).is_file():
            self.codebook = Codebook.read(Path(vocoder_folder))
        self._whole = (network,)  # a tuple: its modules are registered under other names already

    def _network(self) -> Any:
        """The network of Transformers; sets ``tokenizer`` and ``spectrogram``."""
        if self.name is not None:
            check_version(self.name)
        self.tokenizer = load_part(
            "tokenizer", SeamlessM4TTokenizer.from_pretrained, self.tokenizer_source
        )
        if self.name is None:
            network = random_network(self.config, self.tokenizer, dtype=self.dtype)
            self.spectrogram = Filterbank(network.config.feature_projection_input_dim // STRIDE)
            return network
        self.spectrogram = load_spectrogram(self.name)
        kind = SeamlessM4TModel if self.with_reader else SeamlessM4TForSpeechToSpeech
        return load_network(kind, self.name, self.dtype)

    @classmethod
    def train_tokenizer(
        cls, corpus: TokenizerCorpus, folder: Path, arguments: Mapping[str, Any]
    ) -> None:
        """Byte pairs of the translations, with the tokens of both languages."""
        train_pieces(
            corpus.translations,
            size=corpus.size,
            source=corpus.source.code,
            target=corpus.target.code,
        ).save_pretrained(folder)

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write network, tokenizer and feature extractor as Transformers lays them out, and the
        codebook.
        """
        save_network(self._whole[0], self.tokenizer, folder, dtype)
        if self.codebook is not None:
            self.codebook.save(folder)

    def open(self, session: Session) -> StreamState:
        """An empty state. Raises ZooError for a target language that the model does not write."""
        self.opening(session, Task.TRANSLATION)
        return StreamState(features=self.spectrogram.open())

    def opening(self, session: Session, task: Task) -> list[int]:
        """Start and the language of the text."""
        transcribed = task is Task.TRANSCRIPTION
        return self.languages.opening(
            session.source_language if transcribed else session.target_language
        )

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """See ``EncoderDecoder`` and ``encoder.encode_waves``."""
        return encode_waves(self.encoder, self.spectrogram, sessions, waves)

    def parts(self) -> dict[str, Iterable[nn.Parameter]]:
        """``encoder``, ``adaptor``, ``decoder``, ``t2u``, ``vocoder`` and, if it is loaded,
        ``reader``.

        The text embeddings, which reader and decoder share, are the decoder's.
        """
        adaptor = [*self.encoder.adapter.parameters(), *self.encoder.inner_layer_norm.parameters()]
        decoder = list(self.decoder.parameters())
        parts: dict[str, Iterable[nn.Parameter]] = {
            "encoder": _without(self.encoder, adaptor),
            "adaptor": adaptor,
            "decoder": decoder,
            "t2u": list(self.speaker.t2u.parameters()),
            "vocoder": list(self.speaker.vocoder.parameters()),
        }
        return parts | {"reader": _without(self.reader, decoder)} if self.with_reader else parts

    def collator(self) -> Collator:
        """Makes training batches of excerpts."""
        languages = self.languages
        openings = {
            ours: [languages.start, languages.ids[code]]
            for ours, code in CODES.items()
            if code in languages.ids
        }
        return Collator(
            tokenizer=self.tokenizer,
            spectrogram=self.spectrogram,
            opening=openings,
            end=self.end,
            padding=int(self.decoder.module.padding_idx),
            stride=STRIDE,
        )

    def forward(self, batch: SpeechBatch) -> dict[str, Tensor]:
        """Teacher forcing: ``loss`` and ``token_accuracy`` of the translation, its end included."""
        memory, inside = self.memories(batch.features, batch.lengths)
        logits, labels = self.decoder.teacher_forced(batch.inputs, batch.labels, memory, inside)
        return {
            "loss": token_loss(logits, labels),
            "token_accuracy": token_accuracy(logits, labels),
        }

    def memories(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """See ``encoder.encode_padded``."""
        return encode_padded(self.encoder, features, lengths, self.dtype)

    def encode_training(self, samples: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
        """See ``encoder.encode_frames``; ``multiplier`` is ignored: there are no blocks."""
        return encode_frames(self.encoder, self.spectrogram, samples, self.dtype)

    def fit_units(self, waves: Iterable[Tensor]) -> None:
        """Learn the codebook from target speech, waves (n,); a trained vocoder keeps its units."""
        if self.name is None and self.vocoder_source is None:
            units = self.speaker.vocoder.config.unit_hifi_gan_vocab_size
            self.codebook = Codebook.fit(waves, units=units)

    def check_speech(self, language: Language, *, layer: int | None) -> None:
        """Raise ZooError for a language that it does not speak, and for a layer that it lacks."""
        self.speaker.check(language, layer=layer)

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Drop what was kept to end the text."""
        session.backbone_state.branch = None

    @torch.inference_mode()
    def generate_units(
        self, writes: Sequence[SpeechRequest], *, layer: int | None, close: bool
    ) -> list[Units]:
        """Units of each stream's kept and written text: see ``Speaking``."""
        languages = [write.session.target_language for write in writes]
        return self.speaker.units(self.fed(writes, close=close), languages, layer=layer)

    def fed(self, writes: Sequence[SpeechRequest], *, close: bool) -> list[Tensor]:
        """Input of the text-to-unit model, (opening + kept + written, width) each.

        With ``close`` the decoder's state of an end follows.
        """
        states = [_states(write) for write in writes]
        if not close:
            return states
        return [torch.cat(pair) for pair in zip(states, self._ends(writes), strict=True)]

    def _ends(self, writes: Sequence[SpeechRequest]) -> list[Tensor]:
        """(1, width) each: the decoder's state of an end after the written tokens, in batches."""
        ends: dict[int, Tensor] = {}
        branches: list[Branch] = [write.session.backbone_state.branch for write in writes]
        for texts in {id(branch.texts): branch.texts for branch in branches}.values():
            streams = {
                branch.stream: index
                for index, branch in enumerate(branches)
                if branch.texts is texts
            }
            places = [branches[0].places[:0]] * texts.streams
            for stream, index in streams.items():
                places[stream] = branches[index].places[: writes[index].tokens]
            new = texts.append([self.end] * texts.streams, places)
            for stream, index in streams.items():
                ends[index] = texts.states(stream, new[stream])[-1:]
        return [ends[index] for index in range(len(writes))]

    @torch.inference_mode()
    def vocode(self, units: Sequence[Tensor], language: Language) -> list[UnitSpeech]:
        """Speech of (n_i,) unit ids, in the voice of a language."""
        return self.speaker.vocode(units, language)


def _without(module: nn.Module, left_out: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    others = set(left_out)
    return [parameter for parameter in module.parameters() if parameter not in others]


def _states(write: SpeechRequest) -> Tensor:
    """(opening + prefix + tokens, width) of the text that is kept after the write."""
    hypothesis = write.hypothesis
    if hypothesis.decoder_states is None:
        raise ValueError("The backbone answered without the states it was asked for.")
    return hypothesis.decoder_states[
        : len(hypothesis.decoder_states) - hypothesis.num_new_tokens + write.tokens
    ]
