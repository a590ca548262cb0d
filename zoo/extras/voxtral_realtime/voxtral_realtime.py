"""Voxtral-Realtime (Mistral, 2026, arXiv:2602.11298): a recogniser that streams.

It chooses one token per frame of 80 ms, with a fixed delay: text, or a token without text. Text and
audio need no search for their alignment: the frame of a token is the frame after which it was
chosen, less the delay.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
import transformers
from torch import Tensor
from transformers import AutoFeatureExtractor

from zoo.backbones.base import Backbone, dtype_named
from zoo.backbones.encoders.audio.spectrogram import HOP, WINDOW
from zoo.backbones.encoders.encoder_memory import OFFLINE
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.loading import (
    check_extractor,
    end_ids,
    load_network,
    load_part,
    model_type,
)
from zoo.backbones.text.spoken import Vocabularies
from zoo.backbones.text.vocabulary import detokenise
from zoo.base.errors import ZooError, check_choice
from zoo.base.languages import Language, check_transcription
from zoo.base.types import Capability, Cut, Frames, Hypothesis, Request, Samples, Task
from zoo.extras.voxtral_realtime.features import FEATURES, FRAME, LogMel
from zoo.extras.voxtral_realtime.run import Run, Streamer
from zoo.extras.voxtral_realtime.tekken import FILE, Tekken, read_tekken
from zoo.streaming.session import Session

LANGUAGES = ("ar", "de", "en", "es", "fr", "hi", "it", "ja", "ko", "nl", "pt", "ru", "zh")
DELAYS = (*range(1, 16), 30)  # with which the published model was trained
NETWORK: Any = getattr(transformers, "VoxtralRealtimeForConditionalGeneration", None)
DOWNSAMPLING = 4  # outputs of the encoder per frame


class Spoken(NamedTuple):
    """A token with text.

    Attributes:
        token: Id.
        start: Stream position of its frame, in samples.
        audio_end: Stream position of the last sample on which it depends.
    """

    token: int
    start: Samples
    audio_end: Samples


@dataclass(slots=True, eq=False)
class VoxtralState:
    """State of one stream.

    Attributes:
        run: The run of the network. None before the first audio, and after a segment.
        text: Tokens with text: those of the kept text, then those that were not written.
        known: Number of tokens of the run that ``text`` was taken from.
    """

    run: Run | None = None
    text: list[Spoken] = field(default_factory=list)
    known: int = 0


class VoxtralRealtime(Backbone):
    """Voxtral-Realtime as a backbone that transcribes: its target language is its source language.

    The network goes on along the stream, also when a history drops audio or text: dropped audio
    stays in the caches as far as the windows of the network reach, and the tokens of a stream are
    those without a history. A token leaves the text with the audio after which it was chosen. The
    network begins anew after the end of a segment.

    The last frames of a stream or a segment are followed by silence, as in the released code, so
    that all words are written. The streams of a batch are computed one after the other.
    """

    exposes: ClassVar[frozenset[Capability]] = OFFLINE | {Capability.TRANSCRIPT}
    # The newest token is aligned to a frame before the last ``delay`` ones.
    knob_values = {"policy.frames": (6, 9, 12, 16)}  # noqa: RUF012 (of a ClassVar of the contract)
    hub_tags = ("speech-recognition",)
    frame_samples = FRAME

    network: Any
    tekken: Tekken
    streamer: Streamer
    vocabularies: Vocabularies

    def __init__(self, *, name: str, delay: Frames | None = None, dtype: str = "float32") -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id (mistralai/Voxtral-Mini-4B-Realtime-2602) or folder of the model.
            delay: Frames of 80 ms from speech to its text: 1 to 15, or 30. A larger value waits
                longer and makes fewer errors. None takes the delay in tekken.json (6, 480 ms).
            dtype: Name of the floating-point type of weights and activations.

        Raises:
            ZooError: If the model does not know the delay, or if ``dtype`` is unknown.
        """
        super().__init__()
        if delay is not None:
            check_choice("delay of Voxtral-Realtime", delay, DELAYS)
        self.name = name
        self.delay = delay
        self.dtype = dtype_named(dtype)

    def check_languages(self, source: Language, target: Language) -> None:
        """Raise ZooError unless both languages are the same, and one of the model's."""
        check_transcription("Voxtral-Realtime", source, target)
        if source.code not in LANGUAGES:
            raise ZooError(
                f"Voxtral-Realtime does not support {source.name}; choose source_language from: "
                f"{', '.join(LANGUAGES)}."
            )

    def load(self) -> None:
        """Read network, tokenizer and feature extractor.

        Raises:
            ZooError: If Transformers has no Voxtral-Realtime, a file is missing or unreadable, the
                model is another one, its parts do not fit one another, or no delay is known.
        """
        if NETWORK is None:
            raise ZooError(
                f"Voxtral-Realtime needs a newer Transformers than {transformers.__version__}, the "
                "installed version."
            )
        model_type(self.name, accepted=("voxtral_realtime",), noun="Voxtral-Realtime")
        self.tekken = read_tekken(hub.local_folder("tokenizer", self.name, files=[FILE]), self.name)
        if self.delay is None and self.tekken.delay is None:
            raise ZooError(
                f"The {FILE} of {self.name} has no transcription_delay_ms; set backbone.delay, "
                "such as 6 (480 ms)."
            )
        extractor = load_part("feature extractor", AutoFeatureExtractor.from_pretrained, self.name)
        check_extractor(extractor, self.name, hop_length=HOP, win_length=WINDOW, n_fft=WINDOW)
        self.network = load_network(NETWORK, self.name, self.dtype)
        self._check(extractor)
        self.vocabularies = Vocabularies(self.tekken.tokenizer, "characters")
        self.streamer = Streamer(
            network=self.network,
            features=LogMel(extractor),
            begin=self.tekken.begin,
            padding=self.tekken.padding,
            never=end_ids(self.network, int(self.network.config.text_config.eos_token_id)),
            left=self.tekken.left,
        )

    def _check(self, extractor: Any) -> None:
        """Raise ZooError unless the network has frames of 80 ms and fits the other files."""
        config = self.network.config
        check_extractor(extractor, self.name, feature_size=config.audio_config.num_mel_bins)
        if extractor.global_log_mel_max is None:
            raise ZooError(
                f"The feature extractor of {self.name} has no global_log_mel_max, without which "
                "features depend on audio that has not been received."
            )
        found = config.audio_length_per_tok, config.downsample_factor
        if found != (FEATURES, DOWNSAMPLING):
            raise ZooError(
                f"{self.name} has an audio_length_per_tok of {found[0]} and a downsample_factor of "
                f"{found[1]}; only {FEATURES} and {DOWNSAMPLING} (frames of 80 ms) are supported."
            )
        if len(self.tekken.tokenizer) != config.text_config.vocab_size:
            raise ZooError(
                f"The {FILE} of {self.name} is not its network's ({len(self.tekken.tokenizer)} "
                f"tokens, but {config.text_config.vocab_size} scores)."
            )

    def open(self, session: Session) -> VoxtralState:
        """Return an empty stream state."""
        return VoxtralState()

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Answer one request per stream, one stream after the other.

        Args:
            sessions: The streams of the batch.
            requests: One request per stream. A translation continues the written prefix; a
                transcript has no prefix.
            needs: Optional fields of the hypotheses.

        Returns:
            One hypothesis per stream, with the tokens of all audio that the request may use.
        """
        aligned = Capability.ALIGNMENT in needs
        return [
            self._answer(session, request, aligned=aligned)
            for session, request in zip(sessions, requests, strict=True)
        ]

    def _answer(self, session: Session, request: Request, *, aligned: bool) -> Hypothesis:
        """Answer a request."""
        wave = session.visible_audio(request.audio_end)
        whole = wave.numel() == session.visible_audio().numel()
        flush = session.must_flush and whole
        self._advance(session, wave, flush=flush)

        state: VoxtralState = session.backbone_state
        assert state.run is not None
        end = session.audio_start + wave.numel()
        if request.task is Task.TRANSCRIPTION:
            prefix = session.prefix_ids[:0]
            prefix_text: list[Spoken] = []
            new = [spoken for spoken in state.text if spoken.audio_end > session.audio_start]
        else:
            prefix = session.prefix_ids
            prefix_text = state.text[: prefix.numel()]
            new = state.text[prefix.numel() :]
        if not flush:
            new = [spoken for spoken in new if spoken.audio_end <= end]

        ids = torch.cat([prefix, torch.tensor([spoken.token for spoken in new], dtype=torch.long)])
        vocabulary = self.vocabularies.of(session.source_language)
        alignment = None
        if aligned:
            starts = [spoken.start for spoken in prefix_text]
            # Tokens that were written before the network began anew are at the first frame.
            starts += [session.audio_start] * (prefix.numel() - len(prefix_text))
            starts += [spoken.start for spoken in new]
            alignment = one_frame_each(starts, session.audio_start, wave.numel())
        return Hypothesis(
            token_ids=ids[prefix.numel() :],
            word_starts=vocabulary.word_starts(ids),
            prefix_length=prefix.numel(),
            finished=flush or self._is_between_words(state.run, end),
            alignment=alignment,
            sentence_ends=vocabulary.sentence_ends(ids),
            transcript=self.text([spoken.token for spoken in new]).strip()
            if request.task is Task.TRANSCRIPTION
            else None,
        )

    def _is_between_words(self, run: Run, end: Samples) -> bool:
        """Whether the last token of the audio before ``end`` has no text: no word is incomplete."""
        count = run.num_until(end)
        return count == 0 or not self._has_text(run.tokens[count - 1])

    def _has_text(self, token: int) -> bool:
        """Whether a token is text."""
        return token >= self.tekken.first_text

    def _advance(self, session: Session, wave: Tensor, *, flush: bool) -> None:
        """Let the run of a stream receive the audio that it lacks.

        Args:
            session: The stream.
            wave: (n,) kept samples that the network may use.
            flush: Whether silence follows them.
        """
        state: VoxtralState = session.backbone_state
        end = session.audio_start + wave.numel()
        run = state.run
        if run is None or run.end < session.audio_start or (run.padded and end > run.end):
            run = self._begin(session, [])
            state.text = []
        elif flush and end < run.end:
            run = self._rewind(session, run, end)
        if end > run.end:
            self.streamer.receive(run, wave[run.end - session.audio_start :])
        if flush and not run.padded:
            self.streamer.pad(run)
        self._take_text(state, run)

    def _begin(self, session: Session, tokens: list[int]) -> Run:
        """Begin a run with the kept audio of a stream, whose first tokens may be known."""
        delay = self.tekken.delay if self.delay is None else self.delay
        assert delay is not None
        run = self.streamer.start(session.audio_start, delay, tokens)
        session.backbone_state.run, session.backbone_state.known = run, len(tokens)
        return run

    def _rewind(self, session: Session, run: Run, end: Samples) -> Run:
        """Begin a run anew, because a segment ended before audio that the run has received.

        The tokens before its end are known if the run began with the kept audio.
        """
        state: VoxtralState = session.backbone_state
        if run.origin != session.audio_start:
            state.text = []
            return self._begin(session, [])
        state.text = [spoken for spoken in state.text if spoken.audio_end <= end]
        return self._begin(session, run.tokens[: run.num_until(end)])

    def _take_text(self, state: VoxtralState, run: Run) -> None:
        """Append the new tokens of a run that have text."""
        for index in range(state.known, len(run.tokens)):
            if self._has_text(run.tokens[index]):
                start = run.origin + index * FRAME
                state.text.append(Spoken(run.tokens[index], start, run.audio_end(index)))
        state.known = len(run.tokens)

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop tokens of forgotten text and audio; the run goes on unless its segment has ended."""
        state: VoxtralState = session.backbone_state
        kept = max(session.prefix_ids.numel() - cut.tokens, 0)
        text = state.text[cut.tokens :]
        start = session.audio_start + min(cut.frames * FRAME, session.audio.numel())
        if cut.frames:
            new = [spoken for spoken in text[kept:] if spoken.audio_end > start]
            text = text[:kept] + new
        state.text = text
        if state.run is not None and state.run.padded and start >= state.run.end:
            session.backbone_state = VoxtralState()

    def text(self, token_ids: list[int]) -> str:
        """Detokenise ids; spaces are kept unchanged."""
        return detokenise(self.tekken.tokenizer, token_ids)


def one_frame_each(starts: Sequence[Samples], begin: Samples, length: Samples) -> Tensor:
    """Align each token with one frame.

    Args:
        starts: Stream position of the frame of each token.
        begin: Stream position of the first kept sample.
        length: Number of kept samples.

    Returns:
        (tokens, frames) weights, 1 at the frame of a token. A frame before the kept audio counts as
        the first one, and a frame in the silence after it as the last one.
    """
    frames = max(-(-length // FRAME), 1)  # rounded up
    positions = torch.tensor([(start - begin) // FRAME for start in starts], dtype=torch.long)
    weights = torch.zeros(len(starts), frames)
    return weights.scatter_(1, positions.clamp(0, frames - 1)[:, None], 1.0)
