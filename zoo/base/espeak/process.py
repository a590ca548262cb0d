"""A process that runs espeak-ng: reads one JSON request per line, writes a JSON header and samples.

espeak-ng keeps state between calls, so each utterance is synthesised by a fork of a freshly
initialised parent. Run this file in its own process without threads, because forking after threads
have started is not safe.
"""

import ctypes
import json
import os
import sys
from typing import BinaryIO

import espeakng_loader

# Constants of espeak-ng's speak_lib.h.
SYNCHRONOUS = 2  # the asynchronous retrieval mode (1) hangs in a fork
PHONEME_EVENTS, DONT_EXIT = 0x0001, 0x8000
UTF8, ENDPAUSE = 0x0001, 0x1000
RATE, PITCH, PITCH_RANGE = 1, 3, 4
END_LIST, WORD, PHONEME = 0, 1, 7


class _Id(ctypes.Union):
    _fields_ = (("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8))


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _Id),
    )


_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


class Espeak:
    """The initialised library; ``speak`` must be called only once per process.

    Raises:
        RuntimeError: espeak-ng failed to start.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(espeakng_loader.get_library_path()))
        data = os.fsencode(str(espeakng_loader.get_data_path()))
        self.rate = self._library.espeak_Initialize(
            SYNCHRONOUS, 0, data, PHONEME_EVENTS | DONT_EXIT
        )
        if self.rate <= 0:
            raise RuntimeError(f"espeak-ng did not start (code {self.rate})")

        self._pcm = bytearray()
        self._events: list[tuple[str, int, int, str]] = []
        self._callback = _CALLBACK(self._collect)  # an attribute, because ctypes keeps no reference
        self._library.espeak_SetSynthCallback(self._callback)

        unsigned = ctypes.c_uint
        self._library.espeak_ng_SetRandSeed.argtypes = (ctypes.c_long,)
        self._library.espeak_Synth.argtypes = (
            *(ctypes.c_char_p, ctypes.c_size_t, unsigned, ctypes.c_int, unsigned, unsigned),
            *(ctypes.c_void_p, ctypes.c_void_p),
        )

    def _collect(
        self,
        wave: "ctypes._Pointer[ctypes.c_short]",
        samples: int,
        events: "ctypes._Pointer[_Event]",
    ) -> int:
        """Store samples and events; espeak-ng calls this function during synthesis."""
        if wave and samples > 0:
            self._pcm += ctypes.string_at(wave, 2 * samples)

        index = 0
        while events and events[index].type != END_LIST:
            event = events[index]
            if event.type == WORD:
                self._events.append(("word", event.text_position - 1, event.sample, ""))
            elif event.type == PHONEME:
                name = event.id.string.decode(errors="ignore")
                self._events.append(("phoneme", event.text_position - 1, event.sample, name))
            index += 1
        return 0

    def speak(
        self,
        *,
        text: str,
        voice: str,
        rate: int,
        pitch: int,
        seed: int,
        pitch_range: int | None = None,
    ) -> tuple[dict[str, object], bytes]:
        """Synthesise a text; see ``zoo.base.espeak.speech.Speaker.speak`` for the arguments.

        Returns:
            A header with ``rate`` (Hz), ``bytes`` (of the samples) and ``events`` (kind, position
            in the text, sample, name), and the 16-bit samples.

        Raises:
            RuntimeError: espeak-ng rejects the voice, a parameter or the text.
        """
        self._check(self._library.espeak_SetVoiceByName(voice.encode()), f"voice {voice!r}")
        for parameter, value in ((RATE, rate), (PITCH, pitch), (PITCH_RANGE, pitch_range)):
            if value is not None:
                code = self._library.espeak_SetParameter(parameter, value, 0)
                self._check(code, f"parameter {parameter} = {value}")
        self._library.espeak_ng_SetRandSeed(seed)

        data = text.encode()
        code = self._library.espeak_Synth(data, len(data) + 1, 0, 0, 0, UTF8 | ENDPAUSE, None, None)
        self._check(code, repr(text))
        header = {"rate": self.rate, "bytes": len(self._pcm), "events": self._events}
        return header, bytes(self._pcm)

    @staticmethod
    def _check(code: int, what: str) -> None:
        if code != 0:
            raise RuntimeError(f"espeak-ng rejected {what} (code {code})")


def _answer(espeak: Espeak, request: str, out: BinaryIO) -> None:
    """Synthesise one request and write header and samples, or a header with ``error``."""
    try:
        header, pcm = espeak.speak(**json.loads(request))
    except RuntimeError as error:
        header, pcm = {"error": str(error)}, b""
    out.write(json.dumps(header).encode() + b"\n" + pcm)
    out.flush()


def serve(requests: BinaryIO, out: BinaryIO) -> None:
    """Answer one request per line until the input ends, each in a child process."""
    espeak = Espeak()
    for line in requests:
        child = os.fork()
        if child == 0:
            try:
                _answer(espeak, line.decode(), out)
                os._exit(0)
            finally:
                os._exit(1)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit("espeak-ng crashed")


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
