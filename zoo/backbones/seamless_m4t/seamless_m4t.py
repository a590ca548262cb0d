"""SeamlessM4T (Barrault et al., 2023), both versions, speech to text, by hub id or folder. Knows no policy."""

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor
from transformers import (
    SeamlessM4TFeatureExtractor,
    SeamlessM4TForSpeechToText,
    SeamlessM4TTokenizer,
    SeamlessM4Tv2ForSpeechToText,
)

from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.audio.spectrogram import HOP, Filterbank, stacked
from zoo.backbones.common.encoder_decoder.decoder import Decoder
from zoo.backbones.common.encoder_decoder.encoder_decoder import Seq2Seq
from zoo.backbones.common.offline import StreamState
from zoo.backbones.common.pretrained.loading import (
    apart,
    check_extractor,
    check_tokenizer,
    in_one,
    model_type,
    part,
    weights,
)
from zoo.backbones.common.search import SearchConfig
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.streaming.session import Session
from zoo.types import Capability, Task

NETWORKS = {
    "seamless_m4t": SeamlessM4TForSpeechToText,
    "seamless_m4t_v2": SeamlessM4Tv2ForSpeechToText,
}
STRIDE = 2  # features side by side
SUBSAMPLING = 8  # of the adaptor

CODES = {  # what SeamlessM4T calls our languages
    "ar": "arb",
    "ca": "cat",
    "cs": "ces",
    "de": "deu",
    "en": "eng",
    "es": "spa",
    "fa": "pes",
    "fr": "fra",
    "it": "ita",
    "ja": "jpn",
    "ko": "kor",
    "nl": "nld",
    "pt": "por",
    "ro": "ron",
    "ru": "rus",
    "th": "tha",
    "tr": "tur",
    "vi": "vie",
    "zh": "cmn",
}

ALIGNMENT = AlignmentConfig(layer=3, query="own", normalisation="z_score")
SEARCH = SearchConfig(beams=5, no_repeat_ngram=5)


class SeamlessM4T(Seq2Seq):
    """``name``: a SeamlessM4T of the hub (facebook/hf-seamless-m4t-medium, facebook/seamless-m4t-v2-large) or a folder.

    Which version it is stands in its config.json; of a model that speaks, too, only the parts that write are read. It
    is not told the source language. A transcript is a translation into the source language.
    alignment, search, max_tokens: by default as simulstream's StreamAtt has them (layer 3, mean of its heads, a token's
    own row, z-score over tokens; beam 5, no 5-gram twice, 128 tokens).
    """

    exposes: ClassVar[frozenset[Capability]] = Seq2Seq.exposes | {Capability.TRANSCRIPT}
    frame_samples = SUBSAMPLING * STRIDE * HOP  # 160 ms
    name: str | None

    def __init__(
        self,
        *,
        name: str,
        alignment: AlignmentConfig = ALIGNMENT,
        search: SearchConfig = SEARCH,
        max_tokens: int = 128,
        dtype: str = "float32",
    ) -> None:
        super().__init__(alignment=alignment, search=search, max_tokens=max_tokens, dtype=dtype)
        self.name = name

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return str(self.name)

    def build(self) -> None:
        """Read network, tokenizer and feature extractor. Raises ZooError on what is missing or something else."""
        self.take(self.network())

    def network(self) -> Any:
        """The network of Transformers with its weights; sets ``tokenizer`` and ``spectrogram`` on the way."""
        name = self.title
        version = model_type(name, wanted=tuple(NETWORKS), noun="SeamlessM4T")
        self.hear_as(name)
        self.tokenizer = part("tokenizer", SeamlessM4TTokenizer.from_pretrained, name)
        return weights(NETWORKS[version], name, self.dtype)

    def hear_as(self, name: str) -> None:
        """Make the features that the feature extractor in ``name`` makes."""
        extractor = part("feature extractor", SeamlessM4TFeatureExtractor.from_pretrained, name)
        check_extractor(extractor, name, stride=STRIDE)
        self.spectrogram = Filterbank(extractor.num_mel_bins)

    def take(self, network: Any) -> None:
        """Take over a network's parts and what its generation_config tells. Raises ZooError where it does not fit."""
        self._check_frames(network.config)
        told = network.generation_config
        self.languages: dict[str, int] = told.to_dict().get("text_decoder_lang_to_code_id") or {}
        if not self.languages:
            raise ZooError(
                f"The generation_config.json of {self.title} tells no languages (text_decoder_lang_to_code_id); take "
                "it from the SeamlessM4T on the hub that this one comes from."
            )
        self.start, self.end = int(told.decoder_start_token_id), int(told.eos_token_id)
        known = {f"__{code}__": number for code, number in self.languages.items()}
        check_tokenizer(
            self.tokenizer, self.title, scores=network.lm_head.out_features, tokens=known
        )
        self.encoder = network.speech_encoder
        self.decoder = Decoder(network.text_decoder, network.lm_head)

    def _check_frames(self, config: object) -> None:
        settings = ("add_adapter", "num_adapter_layers", "adaptor_stride", "adaptor_kernel_size")
        found = tuple(getattr(config, setting) for setting in settings)
        if found != (True, 1, SUBSAMPLING, SUBSAMPLING):
            raise ZooError(
                f"{self.title} has another adaptor than any SeamlessM4T released; its frames must be 160 ms."
            )

    def open(self, session: Session) -> StreamState:
        """Nothing heard yet. Raises ZooError for a target language that the model does not write."""
        self.opening(session, Task.TRANSLATION)
        return StreamState(features=self.spectrogram.open())

    def opening(self, session: Session, task: Task) -> list[int]:
        """Start and the language that is to be written."""
        return [
            self.start,
            self._language(
                session.source_language if task is Task.TRANSCRIPTION else session.target_language
            ),
        ]

    def _language(self, language: Language) -> int:
        code = CODES.get(language.code)
        if code not in self.languages:
            known = ", ".join(ours for ours, theirs in CODES.items() if theirs in self.languages)
            raise ZooError(f"{self.title} does not write {language.name}; choose one of: {known}.")
        return self.languages[code]

    def listen(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """(frames, width) of each wave (n,): ``ceil(n / 2560)`` frames or one less; none under 35 ms."""
        inputs = [
            self._features(session, wave) for session, wave in zip(sessions, waves, strict=True)
        ]
        heard = [features for features in inputs if len(features)]
        memories = iter(self._encode(heard) if heard else [])
        nothing = inputs[0].new_zeros(0, self.encoder.config.hidden_size)
        return [next(memories) if len(features) else nothing for features in inputs]

    def _features(self, session: Session, wave: Tensor) -> Tensor:
        """(features, 2 x bins) as the encoder hears them."""
        features = self.spectrogram.look(session.backbone_state.features, wave, session.audio_start)
        normal = (
            stacked(features, STRIDE)
            if len(features) >= STRIDE
            else features.new_zeros(0, 2 * features.shape[1])
        )
        return normal.to(self.encoder.inner_layer_norm.weight.device, self.dtype)

    def _encode(self, features: Sequence[Tensor]) -> list[Tensor]:
        """One batch through the conformer, whose mask is exact; the adaptor has none, so streams pass it alone."""
        encoder = self.encoder
        padded, inside = in_one(features)
        hidden = encoder.encoder(encoder.feature_projection(padded), attention_mask=inside)
        hidden = hidden + 0.5 * encoder.intermediate_ffn(hidden)
        adapted = [
            encoder.adapter(frames[None], attention_mask=None) for frames in apart(hidden, features)
        ]
        return [encoder.inner_layer_norm(frames)[0] for frames in adapted]
