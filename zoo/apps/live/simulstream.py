"""simulstream's WebSocket protocol (hlt-mt/simulstream, 2512.17648), so that its clients work here.

A client sends JSON objects with ``sample_rate``, ``source_lang`` and ``target_lang``, binary
messages of 16-bit samples, and ``{"end_of_stream": true}``. The server sends ``{"new": ...,
"deleted": ...}`` after each chunk with output, and ``{"end_of_processing": true}``.

Ours, for those who ask for more: ``system``, ``latency``, ``talk``, ``speech`` and ``encoding`` of
a client, audio that is a file, and the other keys of the server's messages. simulstream ignores
the former, its clients ignore the latter.
"""

import base64
from collections.abc import Iterator
from pathlib import PurePath

from zoo.apps.live.engine import Progress
from zoo.apps.live.wire import Audio, Configure, End, Message, Order, Scores, parse
from zoo.base.audio.files import to_pcm


class SimulstreamWire:
    """The messages of simulstream."""

    def requested_settings(self) -> Configure:
        """Return no settings: the address has none."""
        return Configure()

    def greet(self) -> Iterator[Message]:
        """Return nothing: the client sends the first message."""
        return iter(())

    def orders(self, message: str | bytes) -> Iterator[Order]:
        """Return audio, settings or the end of the stream; unknown keys are ignored."""
        if isinstance(message, bytes):
            yield Audio(message)
            return
        data = parse(message)
        if "end_of_stream" in data:
            yield End()
            return
        yield Configure(
            sample_rate=data.get("sample_rate"),
            encoding=data.get("encoding"),
            source=data.get("source_lang"),
            target=data.get("target_lang"),
            system=data.get("system"),
            latency=data.get("latency"),
            talk=data.get("talk"),
            recording=_recording(data.get("metrics_metadata")),
            with_speech=bool(data["speech"]) if "speech" in data else None,
        )

    def confirm(self) -> Iterator[Message]:
        """Return nothing."""
        return iter(())

    def progress(self, progress: Progress, *, with_speech: bool) -> Iterator[Message]:
        """Return the text of a chunk, and the end of a stream."""
        output = progress.output
        if output is not None:
            message = {
                "new": output.text,
                "deleted": output.deleted,
                "delay": round(output.delay, 3),
                "elapsed": round(output.elapsed, 3),
                "lateness": round(progress.lateness, 3),
            }
            if with_speech and output.speech is not None:
                samples = to_pcm(output.speech)
                message["speech"] = base64.b64encode(samples.tobytes()).decode("ascii")
            yield message
        if progress.transcript is not None:
            yield {"new": "", "deleted": "", "transcript": progress.transcript}
        if progress.final:
            yield {"end_of_processing": True}

    def score(self, scores: Scores) -> Iterator[Message]:
        """Return the scores."""
        yield {"new": "", "deleted": "", "scores": dict(scores)}

    def problem(self, sentence: str) -> Iterator[Message]:
        """Return an object with the sentence."""
        yield {"error": sentence}


def _recording(metadata: object) -> str | None:
    """Return the name of the file that simulstream's client sends; None: it names none."""
    path = metadata.get("wav_name") if isinstance(metadata, dict) else None
    return PurePath(path).stem or None if isinstance(path, str) else None
