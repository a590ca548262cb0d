"""What a cascade needs of its transcriber, and the transcriber's state of one stream."""

from dataclasses import dataclass, field

from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.backbones.cascade.prompt import PrefixPlace
from zoo.backbones.cascade.timed import TimedTranscript
from zoo.backbones.common.families import families_exposing
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Capability, Hypothesis, Samples

FAMILY = "cascade"  # excluded as a transcriber: a cascade needs another backbone to transcribe
NEEDED = frozenset(  # capabilities that a transcriber must expose
    {Capability.TRANSCRIPT, Capability.AUDIO_TRIMMING}
)


@dataclass(slots=True)
class CascadeState:
    """State of one stream between requests.

    Attributes:
        transcribing: Session of the transcriber for the same audio.
        transcripts: Each transcript that was returned for the kept audio, by its token ids.
        span: Stream position of the first sample, and number of samples, of the audio that
            ``transcript`` covers. None before the first transcript.
        transcript: The transcript that was generated last. None before the first transcript.
    """

    transcribing: Session
    transcripts: dict[tuple[int, ...], TimedTranscript] = field(default_factory=dict)
    span: tuple[Samples, Samples] | None = None
    transcript: Hypothesis | None = None


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
