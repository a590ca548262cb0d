"""What a cascade needs of its transcriber, and the transcriber's state of one stream."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.backbones.cascade.committed import CommittedWords
from zoo.backbones.cascade.prompt import PrefixPlace
from zoo.backbones.cascade.timed import TimedTranscript, time_transcript
from zoo.backbones.families import families_exposing
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Hypothesis, Request, Samples, Task
from zoo.streaming.session import Session

FAMILY = "cascade"  # excluded as a transcriber: a cascade needs another backbone to transcribe
NEEDED = frozenset(  # capabilities that a transcriber must expose
    {Capability.TRANSCRIPT, Capability.AUDIO_TRIMMING}
)


class TranscribedSpan(NamedTuple):
    """Audio that a transcript covers.

    Attributes:
        start: Stream position of the first sample.
        length: Number of samples.
        ends: Whether a segment or the source ends with it: a transcriber that streams then writes
            the words that it has delayed.
    """

    start: Samples
    length: Samples
    ends: bool


@dataclass(slots=True)
class CascadeState:
    """State of one stream between requests.

    Attributes:
        transcribing: Session of the transcriber for the same audio.
        transcripts: Each transcript that was returned for the kept audio, by its token ids.
        span: The audio that ``transcript`` covers. None before the first transcript.
        transcript: The transcript that was generated last. None before the first transcript.
        words: Words of the transcripts of the kept audio that are committed.
        committed: Span of the transcript that was compared last with the committed words, and the
            result. None before the first comparison.
    """

    transcribing: Session
    transcripts: dict[tuple[int, ...], TimedTranscript] = field(default_factory=dict)
    span: TranscribedSpan | None = None
    transcript: Hypothesis | None = None
    words: CommittedWords | None = None
    committed: tuple[TranscribedSpan, TimedTranscript] | None = None

    def forget(self) -> None:
        """Drop all transcripts: audio was forgotten."""
        self.span = self.transcript = self.words = self.committed = None
        self.transcripts.clear()


def check_transcriber(transcriber: Backbone) -> None:
    """Raise ZooError if the transcriber lacks a capability in ``NEEDED``."""
    if missing := NEEDED - transcriber.exposes:
        families = [name for name in families_exposing(NEEDED) if name != FAMILY]
        raise ZooError(
            f"{type(transcriber).__name__} cannot be a cascade's transcriber, for it does not "
            f"expose {' and '.join(sorted(missing))}; choose another with "
            f"backbone@backbone.transcriber=..., of a family that does: {', '.join(families)}."
        )


def why_unaligned(transcriber: Backbone, prefix_place: PrefixPlace) -> str | None:
    """Return why a cascade gives no alignment, as ``Backbone.unexposed``; None if it gives one."""
    if Capability.ALIGNMENT not in transcriber.exposes:
        return f"with the transcriber {type(transcriber).__name__}, which does not expose it either"
    if prefix_place == "prompt":
        return "with backbone.prefix_place=prompt, but with answer and both"
    return None


def transcriber_session(session: Session) -> Session:
    """Update the transcriber's session to the audio of ``session``; it contains no written text."""
    transcribing: Session = session.backbone_state.transcribing
    transcribing.audio = session.audio
    transcribing.audio_start = session.audio_start
    transcribing.source_ended = session.source_ended
    transcribing.last_chunk_samples = session.last_chunk_samples
    transcribing.segment_end = session.segment_end
    return transcribing


def transcript_key(token_ids: Tensor) -> tuple[int, ...]:
    """Hashable form of the token ids (n,) of a transcript."""
    return tuple(token_ids.tolist())


def known_transcript(session: Session, token_ids: Tensor | None) -> TimedTranscript:
    """The transcript with these token ids (n,), which was returned for the kept audio."""
    assert token_ids is not None
    known: dict[tuple[int, ...], TimedTranscript] = {
        (): TimedTranscript(""),
        **session.backbone_state.transcripts,
    }
    key = transcript_key(token_ids)
    if key not in known:
        raise ValueError(
            "The request gives a transcript that the transcriber has not answered for the kept "
            "audio."
        )
    return known[key]


def transcribe(
    transcriber: Backbone,
    sessions: Sequence[Session],
    requests: Sequence[Request],
    indices: Sequence[int],
    *,
    aligned: bool,
) -> dict[int, Hypothesis]:
    """Transcribe the visible audio of some requests.

    If a stream's last transcript covers exactly the visible audio, and its end is as known as then,
    the stored transcript is returned.

    Args:
        transcriber: The backbone that transcribes.
        sessions: The streams of the batch.
        requests: One request per stream.
        indices: Positions of the requests that need a transcript.
        aligned: Whether the transcripts need an alignment.

    Returns:
        The transcript of each of these requests, by position.
    """
    spans = {}
    for index in indices:
        visible_audio = sessions[index].visible_audio(requests[index].audio_end)
        spans[index] = TranscribedSpan(
            sessions[index].audio_start, len(visible_audio), sessions[index].must_flush
        )

    new = [index for index in indices if sessions[index].backbone_state.span != spans[index]]
    if new:
        transcripts = transcriber.decode(
            [transcriber_session(sessions[index]) for index in new],
            [
                Request(task=Task.TRANSCRIPTION, audio_end=requests[index].audio_end)
                for index in new
            ],
            frozenset({Capability.ALIGNMENT} if aligned else ()),
        )
        for index, transcript in zip(new, transcripts, strict=True):
            state: CascadeState = sessions[index].backbone_state
            state.span = spans[index]
            state.transcript = transcript
            key = transcript_key(transcript.token_ids)
            state.transcripts[key] = time_transcript(transcript, transcriber.transcript_text)
    return {index: sessions[index].backbone_state.transcript for index in indices}


def committed_transcript(session: Session) -> TimedTranscript:
    """The committed words of a stream, after its last transcript is compared with them."""
    state: CascadeState = session.backbone_state
    assert state.transcript is not None
    assert state.span is not None
    if state.words is None:
        state.words = CommittedWords(session.source_language.unit)
    # The audio of a flush may be that of the last transcript.
    if state.committed is None or state.committed[0] != state.span or session.must_flush:
        latest = known_transcript(session, state.transcript.token_ids)
        words = state.words.commit(latest, everything=session.must_flush)
        state.committed = state.span, words
    return state.committed[1]
