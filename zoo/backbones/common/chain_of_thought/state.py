"""What a chain of thought keeps of one stream between requests."""

from dataclasses import dataclass, field

from torch import Tensor

from zoo.backbones.common.encoder_memory import StreamState
from zoo.types import Samples


@dataclass(frozen=True, slots=True)
class Transcript:
    """The transcript of one span of audio.

    Attributes:
        span: Stream position of the first sample, and number of samples.
        ids: Of the transcript, without separator.
        finished: Whether the model closed the transcript.
        cache: (layers, 2, heads, n, head size), keys and values of the prompt and of the ids that
            were fed, or None.
    """

    span: tuple[Samples, Samples]
    ids: list[int]
    finished: bool
    cache: Tensor | None


@dataclass(slots=True)
class ThoughtState(StreamState):
    """``StreamState`` with transcripts.

    Attributes:
        transcript: The last one.
        draft: Ids that the next transcript may begin with.
        translated: Ids of the transcript that was translated last.
    """

    transcript: Transcript | None = None
    draft: list[int] = field(default_factory=list)
    translated: list[int] = field(default_factory=list)

    @property
    def current(self) -> Transcript | None:
        """The transcript of the audio that was encoded last, if there is one."""
        if self.transcript is not None and self.transcript.span == self.span:
            return self.transcript
        return None

    def untranslated(self) -> list[int]:
        """The draft's ids after those that were translated; none where the draft begins
        differently.
        """
        size = len(self.translated)
        return self.draft[size:] if self.draft[:size] == self.translated else []
