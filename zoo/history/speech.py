"""Speech in front of a history: pauses end a text, and audio without speech is never translated.

Ours, in no paper. Models that were trained on recordings from the web write texts about silence,
music and noise, and a text that is kept over a long pause no longer helps.
"""

from dataclasses import dataclass

from zoo.base.errors import check_numbers
from zoo.base.types import Seconds
from zoo.history.voice_activity import VoiceActivity


@dataclass(frozen=True, kw_only=True, slots=True)
class Speech:
    """Where a voice activity detector (Silero VAD) divides the source.

    Args:
        pause_seconds: Pause after which the text is written to its end and dropped with its audio.
        pad_seconds: Silence to keep before speech; earlier silence is dropped untranslated.
        threshold: A window below this probability of speech is unvoiced.

    Raises:
        ZooError: A value is out of range.
    """

    pause_seconds: Seconds = 2.0
    pad_seconds: Seconds = 0.5
    threshold: float = 0.1

    def __post_init__(self) -> None:
        check_numbers("speech", above=0, pause_seconds=self.pause_seconds)
        check_numbers("speech", least=0, pad_seconds=self.pad_seconds)
        check_numbers("speech", least=0, most=1, threshold=self.threshold)

    def segments(self) -> VoiceActivity:
        """Return the history whose segments are the stretches of speech."""
        return VoiceActivity(
            min_seconds=self.pause_seconds,
            max_seconds=None,
            pause_seconds=self.pause_seconds,
            pad_seconds=self.pad_seconds,
            threshold=self.threshold,
            restart=None,
        )
