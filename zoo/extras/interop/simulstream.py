"""Systems of the zoo as speech processors of simulstream (FBK).

A configuration for ``simulstream_server``, ``simulstream_inference`` and the scorers:

    type: zoo.extras.interop.simulstream.SystemProcessor
    system: streamatt             # or the folder or name of a checkpoint
    overrides: [policy.frames=4]  # as on the command line of evaluate.py
    device: auto
    detokenizer_type: simuleval   # of the scorers: tokens as in the log
    latency_unit: spm

Each client has a stream of its own; all share the network. Needs the package simulstream 1.0.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from simulstream.server.speech_processors import IncrementalOutput, SpeechProcessor

from zoo.base.types import SAMPLE_RATE, Action
from zoo.extras.interop.live import LiveStream, check_language, loaded_system
from zoo.formats.pieces import SPACE_MARK
from zoo.formats.simulstream import marked_tokens
from zoo.systems.base import StreamingSystem


class SystemProcessor(SpeechProcessor):  # type: ignore[misc]  # simulstream has no types
    """A system of the zoo that writes text.

    Args:
        config: The configuration above.
    """

    system: ClassVar[StreamingSystem]

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__(config)
        self._stream: LiveStream | None = None
        self._tokens: list[str] = []  # emitted and not deleted

    @classmethod
    def load_model(cls, config: SimpleNamespace) -> None:
        """Load the system that all processors share."""
        options = vars(config)
        cls.system = loaded_system(
            config.system, options.get("overrides", ()), device=options.get("device", "auto")
        )

    @property
    def speech_chunk_size(self) -> float:
        """Seconds of audio per step of the system."""
        return self.system.chunk_samples / SAMPLE_RATE

    def process_chunk(self, waveform: NDArray[np.float32]) -> IncrementalOutput:
        """Return the output for (n,) new samples at 16 kHz.

        The rest of a recording, which is shorter than a chunk, waits for ``end_of_stream``.
        """
        return self._receive(torch.from_numpy(waveform), final=False)

    def end_of_stream(self) -> IncrementalOutput:
        """Return the rest of the translation."""
        return self._receive(torch.zeros(0), final=True)

    def clear(self) -> None:
        """Drop the stream; the next audio begins another one."""
        self._stream, self._tokens = None, []

    def set_source_language(self, language: str) -> None:
        """Check the language of the speaker. Raises ZooError for another than the system's."""
        check_language("source", language, self.system.source_language.code)

    def set_target_language(self, language: str) -> None:
        """Check the language of the output. Raises ZooError for another than the system's."""
        check_language("target", language, self.system.target_language.code)

    def tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Return the text of tokens."""
        return "".join(tokens).replace(SPACE_MARK, " ")

    def _receive(self, samples: torch.Tensor, *, final: bool) -> IncrementalOutput:
        """Send audio to the stream and return its output."""
        if self._stream is None:
            self._stream = LiveStream(self.system)
        action: Action = self._stream.receive(samples, final=final)
        deleted, text = self._delete(action.retracted), action.text
        if deleted:  # the rest of the first deleted token is emitted again
            old = self.tokens_to_string(deleted)
            text = old[: len(old) - action.retracted] + text
        tokens = marked_tokens(text)
        self._tokens += tokens
        return IncrementalOutput(tokens, text, deleted, self.tokens_to_string(deleted))

    def _delete(self, characters: int) -> list[str]:
        """Remove the last tokens that have so many characters together, and return them."""
        kept, missing = len(self._tokens), characters
        while missing > 0:
            kept -= 1
            missing -= len(self._tokens[kept])
        deleted = self._tokens[kept:]
        del self._tokens[kept:]
        return deleted
