"""SeamlessM4T (Barrault et al., 2023), versions 1 and 2, as a speech-to-text model.

The weights are read from the Hugging Face hub or from a folder.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor
from transformers import (
    PreTrainedTokenizerBase,
    SeamlessM4TForSpeechToText,
    SeamlessM4TTokenizer,
    SeamlessM4Tv2ForSpeechToText,
)

from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.architectures.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.encoders.audio.spectrogram import Spectrogram
from zoo.backbones.encoders.encoder_memory import OFFLINE
from zoo.backbones.pretrained.loading import (
    check_tokenizer,
    load_network,
    load_part,
    model_type,
)
from zoo.backbones.seamless_m4t.conformer import speed_up
from zoo.backbones.seamless_m4t.encoder import (
    FRAME_SAMPLES,
    SUBSAMPLING,
    check_adaptor,
    encode_waves,
    keep_exact_positions,
    load_spectrogram,
)
from zoo.backbones.seamless_m4t.languages import WrittenLanguages
from zoo.base.types import Capability, Task
from zoo.streaming.session import Session

NETWORKS = {
    "seamless_m4t": SeamlessM4TForSpeechToText,
    "seamless_m4t_v2": SeamlessM4Tv2ForSpeechToText,
}
# The defaults of StreamAtt in simulstream
ALIGNMENT = AlignmentConfig(layer=3, query="own", normalisation="z_score")
SEARCH = SearchConfig(beams=5, no_repeat_ngram=5)
MAX_TOKENS = 128


class SpeechToTextParts:
    """Speech encoder and text decoder of a SeamlessM4T, for subclasses of ``EncoderDecoder``.

    Attributes:
        languages: Languages that the text decoder writes.
        encoder: Speech encoder.
        decoder: Text decoder.
    """

    spectrogram: Spectrogram
    tokenizer: PreTrainedTokenizerBase
    end: int
    languages: WrittenLanguages
    encoder: Any
    decoder: Decoder

    def take_parts(self, network: Any, *, name: str) -> None:
        """Set the parts of a loaded network.

        Args:
            network: SeamlessM4T of Transformers.
            name: Name of the network in error messages.

        Raises:
            ZooError: If the adaptor, the languages or the tokenizer do not fit.
        """
        check_adaptor(network.config, name)
        self.languages = WrittenLanguages.from_generation_config(name, network.generation_config)
        scores = network.lm_head.out_features
        check_tokenizer(self.tokenizer, name, scores=scores, tokens=self.languages.tokens)
        self.end = self.languages.end
        self.encoder = network.speech_encoder
        keep_exact_positions(self.encoder)
        speed_up(self.encoder)
        self.decoder = Decoder(network.text_decoder, network.lm_head)

    def opening(self, session: Session, task: Task) -> list[int]:
        """Return the control ids before the text: start, and the language of the text.

        Args:
            session: Stream whose languages are used.
            task: Whether the text is a translation or a transcript.

        Raises:
            ZooError: If the model does not write the language of the text.
        """
        if task is Task.TRANSCRIPTION:
            return self.languages.opening(session.source_language)
        return self.languages.opening(session.target_language)

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encode the kept audio of streams.

        Args:
            sessions: The streams.
            waves: Audio of each stream, (n,) samples at 16 kHz.

        Returns:
            Encoder output of each stream, (frames, width), in frames of 160 ms. A wave of n samples
            has ``ceil(n / 2560)`` frames or one frame less. A wave shorter than 35 ms has no
            frames.
        """
        return encode_waves(self.encoder, self.spectrogram, sessions, waves)


class SeamlessM4T(SpeechToTextParts, EncoderDecoder):
    """An encoder-decoder that translates or transcribes speech, by a SeamlessM4T.

    Only the speech encoder and the text decoder of the model are loaded. The model does not receive
    the source language as an input. The decoder input begins with a token of the output language.
    For a transcript, the output language is the source language.
    """

    exposes: ClassVar[frozenset[Capability]] = OFFLINE | {Capability.TRANSCRIPT}
    frame_samples = SUBSAMPLING * FRAME_SAMPLES  # 160 ms
    knob_values: ClassVar[Mapping[str, Sequence[int]]] = {"policy.frames": (2, 4, 6, 8)}
    uneven_parts = frozenset({"encoder"})  # its adaptor runs once per recording

    def __init__(
        self,
        *,
        name: str,
        alignment: AlignmentConfig = ALIGNMENT,
        search: SearchConfig = SEARCH,
        max_tokens: int = MAX_TOKENS,
        **options: Any,
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id (facebook/hf-seamless-m4t-medium, facebook/seamless-m4t-v2-large) or
                folder of the model.
            alignment: Which cross-attention aligns target tokens with encoder frames.
            search: Settings of greedy or beam search.
            max_tokens: Largest number of new token ids per answer, the end included.
            options: Other arguments of ``EncoderDecoder``.
        """
        super().__init__(alignment=alignment, search=search, max_tokens=max_tokens, **options)
        self.name = name

    def build(self) -> None:
        """Read network, tokenizer and feature extractor.

        Raises:
            ZooError: If a file is missing or unreadable, the model is not a SeamlessM4T, or the
                feature extractor, the adaptor, the languages or the tokenizer do not fit.
        """
        version = model_type(self.name, accepted=tuple(NETWORKS), noun="SeamlessM4T")
        self.spectrogram = load_spectrogram(self.name)
        self.tokenizer = load_part("tokenizer", SeamlessM4TTokenizer.from_pretrained, self.name)
        network = load_network(NETWORKS[version], self.name, self.dtype)
        self.take_parts(network, name=self.name)
