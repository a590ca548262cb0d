"""SeamlessM4T (Barrault et al., 2023), both versions, speech to text, by hub id or folder."""

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor
from transformers import (
    SeamlessM4TForSpeechToText,
    SeamlessM4TTokenizer,
    SeamlessM4Tv2ForSpeechToText,
)

from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.encoder_decoder.decoder import Decoder
from zoo.backbones.common.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.common.encoder_memory import OFFLINE, StreamState
from zoo.backbones.common.pretrained.loading import (
    check_tokenizer,
    load_network,
    load_part,
    model_type,
)
from zoo.backbones.common.search import SearchConfig
from zoo.backbones.seamless_m4t.encoder import (
    FRAME_SAMPLES,
    SUBSAMPLING,
    check_adaptor,
    encode_waves,
    load_spectrogram,
)
from zoo.backbones.seamless_m4t.languages import WrittenLanguages
from zoo.streaming.session import Session
from zoo.types import Capability, Task

NETWORKS = {
    "seamless_m4t": SeamlessM4TForSpeechToText,
    "seamless_m4t_v2": SeamlessM4Tv2ForSpeechToText,
}
# as simulstream's StreamAtt has them
ALIGNMENT = AlignmentConfig(layer=3, query="own", normalisation="z_score")
SEARCH = SearchConfig(beams=5, no_repeat_ngram=5)
MAX_TOKENS = 128


class SeamlessM4T(EncoderDecoder):
    """A SeamlessM4T of either version that writes; of a model that speaks, only these parts are
    read.

    The source language is not given to the model. A transcript is a translation into the source
    language.
    """

    exposes: ClassVar[frozenset[Capability]] = OFFLINE | {Capability.TRANSCRIPT}
    frame_samples = SUBSAMPLING * FRAME_SAMPLES  # 160 ms

    def __init__(
        self,
        *,
        name: str,
        alignment: AlignmentConfig = ALIGNMENT,
        search: SearchConfig = SEARCH,
        max_tokens: int = MAX_TOKENS,
        dtype: str = "float32",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id (facebook/hf-seamless-m4t-medium, facebook/seamless-m4t-v2-large) or
                folder.
            alignment: See ``EncoderDecoder``.
            search: See ``EncoderDecoder``.
            max_tokens: See ``EncoderDecoder``.
            dtype: Of weights and activations.
        """
        super().__init__(alignment=alignment, search=search, max_tokens=max_tokens, dtype=dtype)
        self.name = name

    def build(self) -> None:
        """Read network, tokenizer and feature extractor.

        Raises ZooError on what is missing or differs.
        """
        version = model_type(self.name, wanted=tuple(NETWORKS), noun="SeamlessM4T")
        self.spectrogram = load_spectrogram(self.name)
        self.tokenizer = load_part("tokenizer", SeamlessM4TTokenizer.from_pretrained, self.name)
        network = load_network(NETWORKS[version], self.name, self.dtype)
        check_adaptor(network.config, self.name)
        self.languages = WrittenLanguages.from_generation_config(
            self.name, network.generation_config
        )
        scores = network.lm_head.out_features
        check_tokenizer(self.tokenizer, self.name, scores=scores, tokens=self.languages.tokens)
        self.end = self.languages.end
        self.encoder = network.speech_encoder
        self.decoder = Decoder(network.text_decoder, network.lm_head)

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
