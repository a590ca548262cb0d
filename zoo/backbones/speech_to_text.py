"""Speech2Text, fairseq's small models of MuST-C (Wang et al., 2020), by hub id or folder."""

from collections.abc import Sequence

from torch import Tensor
from transformers import (
    Speech2TextFeatureExtractor,
    Speech2TextForConditionalGeneration,
    Speech2TextTokenizer,
)

from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.audio.spectrogram import HOP, Filterbank, standardised
from zoo.backbones.common.encoder_decoder.decoder import Decoder
from zoo.backbones.common.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.common.encoder_memory import StreamState
from zoo.backbones.common.pretrained.loading import (
    check_extractor,
    check_tokenizer,
    load_network,
    load_part,
    model_type,
    run_layers,
)
from zoo.backbones.common.search import SearchConfig
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Task

SUBSAMPLING = 4  # features per frame, by two convolutions of stride 2


class SpeechToText(EncoderDecoder):
    """A model of one language pair, or of several, whose target language is a token.

    The defaults of alignment and search are those of FBK-fairseq's AlignAtt for such models: layer
    3, mean of its heads, without the last frame; beam 5.
    """

    frame_samples = SUBSAMPLING * HOP  # 40 ms

    def __init__(
        self,
        *,
        name: str,
        alignment: AlignmentConfig = AlignmentConfig(layer=3, ignore_last=1),  # noqa: B008 (frozen)
        search: SearchConfig = SearchConfig(beams=5),  # noqa: B008 (frozen)
        max_tokens: int = 200,
        dtype: str = "float32",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id (facebook/s2t-small-mustc-en-de-st) or folder.
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
        model_type(self.name, wanted=("speech_to_text",), noun="Speech2Text")
        extractor = load_part(
            "feature extractor", Speech2TextFeatureExtractor.from_pretrained, self.name
        )
        check_extractor(extractor, self.name)
        self.tokenizer = load_part("tokenizer", Speech2TextTokenizer.from_pretrained, self.name)
        network = load_network(Speech2TextForConditionalGeneration, self.name, self.dtype)
        encoder = network.model.encoder
        if 2 ** len(encoder.conv.conv_layers) != SUBSAMPLING:
            raise ZooError(
                f"{self.name} has {len(encoder.conv.conv_layers)} subsampling layers; only 2 "
                "(frames of 40 ms) are supported."
            )
        self.end = int(network.config.eos_token_id)
        known = {str(self.tokenizer.eos_token): self.end}
        check_tokenizer(
            self.tokenizer, self.name, scores=network.lm_head.out_features, tokens=known
        )
        self.spectrogram = Filterbank(extractor.num_mel_bins)
        normal = extractor.do_ceptral_normalize
        self.normalisation = {
            "mean": normal and extractor.normalize_means,
            "deviation": normal and extractor.normalize_vars,
        }
        self.start = int(network.config.decoder_start_token_id)
        self.encoder = encoder
        self.decoder = Decoder(network.model.decoder, network.lm_head)

    def open(self, session: Session) -> StreamState:
        """An empty state. Raises ZooError for a target language that the model does not write."""
        self.opening(session, Task.TRANSLATION)
        return StreamState(features=self.spectrogram.open())

    def opening(self, session: Session, task: Task) -> list[int]:
        """Start, and the target language's token where the model has some."""
        languages = self.tokenizer.lang_code_to_id
        if languages and session.target_language.code not in languages:
            raise ZooError(
                f"{self.name} does not write {session.target_language.name}; choose "
                f"target_language from: {', '.join(sorted(languages))}."
            )
        return [self.start, languages[session.target_language.code]] if languages else [self.start]

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """See ``EncoderDecoder``: ``ceil(n / 640)`` frames of each wave (n,) or one less; none
        below 25 ms.
        """
        hidden = [
            self._subsample(session, wave) for session, wave in zip(sessions, waves, strict=True)
        ]
        long_enough = [frames for frames in hidden if len(frames)]
        if not long_enough:
            return hidden
        memories = iter(
            run_layers(
                self.encoder.layers, self.encoder.layer_norm, self.encoder.config, long_enough
            )
        )
        return [next(memories) if len(frames) else frames for frames in hidden]

    def _subsample(self, session: Session, wave: Tensor) -> Tensor:
        """(frames, width) with positions.

        Not batched: convolutions reach over the ends of each stream.
        """
        encoder = self.encoder
        features = self.spectrogram.compute(
            session.backbone_state.features, wave, session.audio_start
        )
        device = encoder.layer_norm.weight.device
        if not len(features):
            return features.new_zeros(0, encoder.config.d_model, dtype=self.dtype, device=device)
        normal = standardised(features, **self.normalisation).to(device, self.dtype)
        hidden = encoder.conv(normal[None]) * encoder.embed_scale
        everywhere = hidden.new_zeros(hidden.shape[:2]).long()
        return (hidden + encoder.embed_positions(everywhere))[0]
