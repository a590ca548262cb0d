"""SeamlessM4T v1 (Barrault et al., 2023) with speech output.

The backbone loads a published model, or creates a small network that can be trained.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import SeamlessM4TForSpeechToSpeech, SeamlessM4TModel, SeamlessM4TTokenizer

from zoo.backbones.architectures.encoder_decoder.branches import Branch
from zoo.backbones.architectures.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.base import TokenizerCorpus, Units, UnitSpeech
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.guessed_search import EarlierAnswers
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.decoding.teacher_forcing import token_losses
from zoo.backbones.decoding.unit_attention import UnitAttention, UnitQuery
from zoo.backbones.encoders.audio.spectrogram import Filterbank
from zoo.backbones.encoders.encoder_memory import EncodedStreamState
from zoo.backbones.pretrained.loading import check_sources, load_network, load_part
from zoo.backbones.seamless_m4t.data import SeamlessCollator, SpeechBatch
from zoo.backbones.seamless_m4t.encoder import (
    STRIDE,
    encode_frames,
    encode_padded,
    load_spectrogram,
)
from zoo.backbones.seamless_m4t.languages import CODES, SpokenLanguages
from zoo.backbones.seamless_m4t.network import random_network, save_network, train_pieces
from zoo.backbones.seamless_m4t.seamless_m4t import (
    ALIGNMENT,
    MAX_TOKENS,
    SEARCH,
    SeamlessM4T,
    SpeechToTextParts,
)
from zoo.backbones.seamless_m4t.speaker import UnitSpeaker
from zoo.backbones.seamless_m4t.units import FILE as UNITS_FILE
from zoo.backbones.seamless_m4t.units import Codebook
from zoo.backbones.seamless_m4t.weights import check_version, take_vocoder
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import Capability, Hypothesis, Samples
from zoo.streaming.session import Session, SpeechRequest


@dataclass(slots=True)
class SpeechState(EncodedStreamState):
    """State of one stream.

    Attributes:
        units: Units of its last emissions; the next emission repeats most of them.
    """

    units: EarlierAnswers = field(default_factory=EarlierAnswers)


class SeamlessM4TSpeech(SpeechToTextParts, EncoderDecoder):
    """An encoder-decoder that translates speech into text and text into speech.

    The speech encoder and the text decoder are used as in ``SeamlessM4T``. A text-to-unit model
    generates discrete speech units from the text decoder's states, and a vocoder converts units
    into a waveform. All parts can be trained.

    Attributes:
        codebook: Codebook that maps target speech to units; None for a published model, which has
            no codebook file.
        tokenizer: Tokenizer of the text decoder.
        encoder: Speech encoder.
        decoder: Text decoder.
        speaker: Text-to-unit model and vocoder.
    """

    exposes: ClassVar[frozenset[Capability]] = SeamlessM4T.exposes | {Capability.SPEECH}
    frame_samples = SeamlessM4T.frame_samples
    knob_values = SeamlessM4T.knob_values
    hub_task = "audio-to-audio"
    uneven_parts = frozenset({"adaptor"})  # it runs once per recording
    trains_on = "ExcerptConfig"
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
        unit_layer: int | None = None,
        unit_heads: Sequence[Sequence[int]] | None = None,
        unit_query: UnitQuery = "predicting",
        alignment: AlignmentConfig = ALIGNMENT,
        search: SearchConfig = SEARCH,
        unit_search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        max_tokens: int = MAX_TOKENS,
        **options: Any,
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id (facebook/hf-seamless-m4t-medium) or folder of a SeamlessM4T v1; None
                creates a randomly initialised network from ``config``.
            config: Fields of Transformers' ``SeamlessM4TConfig`` for a randomly initialised
                network.
            tokenizer: Hub id or folder of the tokenizer; None reads the tokenizer of ``name``.
            vocoder: Hub id or folder of a SeamlessM4T v1 whose vocoder replaces the vocoder of
                ``name``; None keeps the vocoder of ``name``.
            reader: Whether the text encoder is loaded, too.
            voice: Index of the voice in the vocoder.
            max_units: Largest number of units generated for a text.
            unit_layer: Layer of the text-to-unit decoder, from 0, whose cross-attention aligns
                units with text, as the mean of its heads. None: the mean of all layers.
            unit_heads: Pairs of a layer and a head whose mean aligns units with text, instead of
                ``unit_layer``. None: all heads of ``unit_layer``.
            unit_query: Decoder position whose attention is that of a unit. ``predicting``: the
                position that predicts the unit; ``own``: the position whose input is the unit.
            alignment: Which cross-attention aligns target tokens with encoder frames.
            search: Settings of greedy or beam search over text.
            unit_search: Settings of greedy or beam search over units, whose ids are not text:
                ``suppress`` must be empty.
            max_tokens: Largest number of new token ids per answer, the end included.
            options: Other arguments of ``EncoderDecoder``.

        Raises:
            ZooError: If ``name`` is None and ``config`` or ``tokenizer`` is missing,
                ``unit_search`` suppresses texts, or ``unit_heads`` or ``unit_query`` is malformed.
        """
        super().__init__(alignment=alignment, search=search, max_tokens=max_tokens, **options)
        check_sources("SeamlessM4T", name, config, tokenizer)
        if unit_search.suppress:
            raise ZooError(
                "backbone.unit_search.suppress must be empty, because units are not text."
            )
        self.name = name
        self.config = config or {}
        self.unit_search = unit_search
        self.tokenizer_source = str(tokenizer or name)
        self.vocoder_source = vocoder
        self.with_reader = reader
        self.voice = voice
        self.max_units = max_units
        self.unit_attention = UnitAttention(unit_layer, unit_heads, unit_query)

    @property
    def title(self) -> str:
        """The model's name in messages."""
        return self.name or "The randomly initialised SeamlessM4T"

    @property
    def unit_samples(self) -> Samples:
        """Number of samples per unit frame."""
        return self.speaker.unit_samples

    def build(self) -> None:
        """Read or create the network; read tokenizer and feature extractor.

        Raises:
            ZooError: If a file is missing or unreadable, or the tokenizer, the adaptor, the vocoder
                or the languages do not fit the network. Also if the model is a SeamlessM4T v2,
                whose text-to-unit model has no cross-attention to the text.
        """
        network = self._network()
        self.take_parts(network, name=self.title)
        if self.vocoder_source is not None:
            take_vocoder(network, self.vocoder_source, self.dtype)
        self.speaker = UnitSpeaker(
            network.t2u_model,
            network.vocoder,
            languages=SpokenLanguages.from_generation_config(self.title, network.generation_config),
            voice=self.voice,
            max_units=self.max_units,
            search=self.unit_search,
            capture=self.steps.capture,
        )
        if self.with_reader:
            self.reader = network.text_encoder
        vocoder_folder = self.vocoder_source or self.name
        if vocoder_folder is not None and (Path(vocoder_folder) / UNITS_FILE).is_file():
            self.codebook = Codebook.read(Path(vocoder_folder))
        self._whole = (network,)  # a tuple: its modules are registered under other names already

    def _network(self) -> Any:
        """Load or create the Transformers network; set ``tokenizer`` and ``spectrogram``."""
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
        network_class = SeamlessM4TModel if self.with_reader else SeamlessM4TForSpeechToSpeech
        return load_network(network_class, self.name, self.dtype)

    @classmethod
    def train_tokenizer(
        cls, corpus: TokenizerCorpus, folder: Path, arguments: Mapping[str, Any]
    ) -> None:
        """Train a byte-pair tokenizer on the translations and save it.

        Args:
            corpus: Translations, vocabulary size and languages.
            folder: Folder that the tokenizer is written to.
            arguments: Ignored; no constructor argument of the backbone changes the tokenizer.
        """
        train_pieces(
            corpus.translations,
            size=corpus.size,
            source=corpus.source.code,
            target=corpus.target.code,
        ).save_pretrained(folder)

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write the backbone to a folder that ``name`` can read.

        Network, tokenizer and feature extractor have the file layout of Transformers. The codebook
        is written beside them.

        Args:
            folder: Folder to write to.
            dtype: Data type of the written parameters; None keeps the data type of each parameter.
        """
        save_network(self._whole[0], self.tokenizer, folder, dtype)
        if self.codebook is not None:
            self.codebook.save(folder)

    def get_extra_state(self) -> Tensor:
        """Return the centroids of the codebook, which a training may have fitted; else no rows."""
        return torch.empty(0) if self.codebook is None else self.codebook.centroids

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the centroids of a checkpoint in place, because objectives refer to them."""
        if self.codebook is not None:
            self.codebook.centroids.copy_(state)

    def parts(self) -> dict[str, Iterable[nn.Parameter]]:
        """Return the parameters of each part, by the part's name.

        The parts are ``encoder``, ``adaptor``, ``decoder``, ``t2u`` and ``vocoder``. If the text
        encoder is loaded, there is also a part ``reader``. The text embeddings, which text encoder
        and text decoder share, belong to ``decoder``.
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
        if self.with_reader:
            parts["reader"] = _without(self.reader, decoder)
        return parts

    def collator(self) -> SeamlessCollator:
        """Return the function that converts excerpts into training batches."""
        languages = self.languages
        openings = {
            zoo_code: [languages.start, languages.ids[seamless_code]]
            for zoo_code, seamless_code in CODES.items()
            if seamless_code in languages.ids
        }
        return SeamlessCollator(
            tokenizer=self.tokenizer,
            spectrogram=self.spectrogram,
            opening=openings,
            end=self.end,
            padding=int(self.decoder.module.padding_idx),
            stride=STRIDE,
        )

    def forward(self, batch: SpeechBatch) -> dict[str, Tensor]:
        """Compute the training loss by teacher forcing.

        Args:
            batch: Collated excerpts.

        Returns:
            ``loss`` in nats per token, and ``token_accuracy``. Both include the end token.
        """
        memory, mask = self.memories(batch.features, batch.lengths)
        logits, labels = self.decoder.teacher_forced(batch.inputs, batch.labels, memory, mask)
        return token_losses(logits, labels)

    def memories(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode a padded batch.

        Args:
            features: Stacked filterbank features, (batch, F, 2 x bins).
            lengths: Number of feature frames without padding of each row, (batch,).

        Returns:
            Encoder output, (batch, frames, width), and its mask, (batch, frames) int64: 1 for
            frames, 0 for padding.
        """
        return encode_padded(self.encoder, features, lengths, self.part_dtype("encoder"))

    def encode_training(self, samples: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
        """Encode audio up to the adaptor.

        Args:
            samples: Audio, (batch, n) samples at 16 kHz.
            multiplier: Ignored, since the encoder has no blocks.

        Returns:
            Output before the adaptor and output of the middle layer, (batch, n // 320, width) each.
        """
        return encode_frames(self.encoder, self.spectrogram, samples, self.part_dtype("encoder"))

    def fit_units(self, waves: Iterable[Tensor]) -> None:
        """Fit the codebook to target speech.

        The codebook is fitted only if the vocoder is randomly initialised: a trained vocoder fixes
        the units.

        Args:
            waves: Target speech, (n,) samples at 16 kHz each.
        """
        if self.name is None and self.vocoder_source is None:
            units = self.speaker.vocoder.config.unit_hifi_gan_vocab_size
            self.codebook = Codebook.fit(waves, units=units)

    def check_speech(self, language: Language) -> None:
        """Raise ZooError if ``language`` is not spoken or a layer or head of units is missing."""
        self.speaker.check(language, self.unit_attention)

    def unit_attention_shape(self) -> tuple[int, int]:
        """Return the number of layers of the text-to-unit decoder, and of heads per layer."""
        return self.speaker.attention_shape

    def open(self, session: Session) -> SpeechState:
        """Create the empty state of a new stream; see ``EncoderDecoder.open``."""
        return SpeechState(features=super().open(session).features)

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Drop the decoder cache of the last hypothesis, which ``_ends`` would continue."""
        super().commit(session, hypothesis, tokens)
        session.backbone_state.branch = None

    @torch.inference_mode()
    def generate_units(self, requests: Sequence[SpeechRequest], *, close: bool) -> list[Units]:
        """Generate the units of each stream's kept and newly written text.

        Args:
            requests: One request per stream, with the number of tokens to write.
            close: Whether the text ends after the written tokens.

        Returns:
            Units of each stream, with cross-attention to the text.
        """
        sessions = [request.session for request in requests]
        return self.speaker.units(
            self.fed(requests, close=close),
            [session.target_language for session in sessions],
            self.unit_attention,
            earlier=[session.backbone_state.units for session in sessions],
        )

    def fed(self, requests: Sequence[SpeechRequest], *, close: bool) -> list[Tensor]:
        """Return the input of the text-to-unit model for each stream.

        Args:
            requests: One request per stream, with the number of tokens to write.
            close: Whether the decoder state of the end token is appended.

        Returns:
            Text decoder states, (control ids + kept tokens + written tokens, width) of each stream.
            With ``close``, each stream has one more row.
        """
        states = [_states(request) for request in requests]
        if not close:
            return states
        end_states = self._ends(requests)
        return [torch.cat(pair) for pair in zip(states, end_states, strict=True)]

    def _ends(self, requests: Sequence[SpeechRequest]) -> list[Tensor]:
        """Feed an end token after the written tokens and return its decoder states.

        Streams that were decoded in one batch share a decoder cache (``branch.texts``), so the end
        token is fed once per cache.

        Args:
            requests: One request per stream, with the number of tokens to write.

        Returns:
            Decoder state of the end token of each stream, (1, width).
        """
        ends: dict[int, Tensor] = {}
        branches: list[Branch] = [request.session.backbone_state.branch for request in requests]
        distinct_texts = {id(branch.texts): branch.texts for branch in branches}
        for texts in distinct_texts.values():
            # Stream of the cache -> index of its request
            streams = {
                branch.stream: index
                for index, branch in enumerate(branches)
                if branch.texts is texts
            }

            # Cached positions before each stream's end token; empty for streams without a request
            cache_positions = [branches[0].cache_positions[:0]] * texts.streams
            for stream, index in streams.items():
                cache_positions[stream] = branches[index].cache_positions[: requests[index].tokens]
            new = texts.append([self.end] * texts.streams, cache_positions)
            for stream, index in streams.items():
                ends[index] = texts.states(stream, new[stream])[-1:]
        return [ends[index] for index in range(len(requests))]

    @torch.inference_mode()
    def vocode(
        self,
        units: Sequence[Tensor],
        language: Language,
        *,
        needed: Sequence[range] | None = None,
    ) -> list[UnitSpeech]:
        """Synthesise speech from units.

        Args:
            units: Unit ids of each text, (n,).
            language: Language of the speech.
            needed: Units of each text whose samples are needed; None: all.

        Returns:
            Waveform and unit durations of each text.
        """
        return self.speaker.vocode(units, language, needed=needed)


def _without(module: nn.Module, excluded: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Return the parameters of ``module`` that are not in ``excluded``."""
    excluded_parameters = set(excluded)
    return [parameter for parameter in module.parameters() if parameter not in excluded_parameters]


def _states(request: SpeechRequest) -> Tensor:
    """Decoder states up to the last written token.

    Returns:
        (control ids + prefix + written tokens, width).
    """
    hypothesis = request.hypothesis
    states = hypothesis.decoder_states
    if states is None:
        raise ValueError("The backbone answered without the states it was asked for.")
    not_written = hypothesis.num_new_tokens - request.tokens
    return states[: len(states) - not_written]
