"""A process that speaks: one JSON request per line in, JSON header and 16-bit samples out. Knows no corpus, no torch.

espeak-ng keeps state from call to call, so every utterance is spoken by a fork of a freshly initialised parent. Run
this file in a clean process of its own: forking after threads have started is not safe.
"""

import ctypes
import json
import os
import sys
from typing import BinaryIO

import espeakng_loader

SYNCHRONOUS = 2  # retrieval mode (1) hangs in a fork
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
    """The library, initialised once. Call ``speak`` once per process: a second call would depend on the first."""

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
        self._callback = _CALLBACK(self._collect)  # kept: ctypes does not hold it
        self._library.espeak_SetSynthCallback(self._callback)
        self._library.espeak_ng_SetRandSeed.argtypes = (ctypes.c_long,)
        unsigned = ctypes.c_uint
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
        """Header (``rate`` in Hz, ``bytes``, ``events`` of kind, text position, sample, name) and 16-bit samples."""
        self._check(self._library.espeak_SetVoiceByName(voice.encode()), f"voice {voice!r}")
        for parameter, value in ((RATE, rate), (PITCH, pitch), (PITCH_RANGE, pitch_range)):
            if value is None:
                continue
            self._check(
                self._library.espeak_SetParameter(parameter, value, 0),
                f"parameter {parameter} = {value}",
            )
        self._library.espeak_ng_SetRandSeed(seed)
        data = text.encode()
        self._check(
            self._library.espeak_Synth(data, len(data) + 1, 0, 0, 0, UTF8 | ENDPAUSE, None, None),
            repr(text),
        )
        return {"rate": self.rate, "bytes": len(self._pcm), "events": self._events}, bytes(
            self._pcm
        )

    @staticmethod
    def _check(code: int, what: str) -> None:
        if code != 0:
            raise RuntimeError(f"espeak-ng refused {what} (code {code})")


def _answer(espeak: Espeak, request: str, out: BinaryIO) -> None:
    try:
        header, pcm = espeak.speak(**json.loads(request))
    except RuntimeError as error:
        header, pcm = {"error": str(error)}, b""
    out.write(json.dumps(header).encode() + b"\n" + pcm)
    out.flush()


def serve(requests: BinaryIO, out: BinaryIO) -> None:
    """Answer one request per line until the input ends, each in a process of its own."""
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
