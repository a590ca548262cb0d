"""Writes the logs beside this file from ``texts.json``.

``python -m tests.metrics.parity.make_logs`` writes them all. The logs are those of an invented
system. It receives chunks of 0.64 s, writes each unit some time after the source that it
translates, and computes some milliseconds per chunk. Each log has the keys of the tool whose format
it has, and none of ours. The texts hold what tools count in different ways: a segment without
output, words in another order, digits, Latin letters and spaces between Chinese characters, output
before its segment, after the last segment and exactly at the end of a segment.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent
LANGUAGES = ("de", "zh", "ja")
CHUNK_MS = 640
LAG = 1.1  # seconds, of segments without a lag of their own
SPACE_MARK = "\u2581"
LONG_WORD = 6  # letters; such a word may be written in two parts

Record = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """Output of one stream.

    Attributes:
        name: Name of the recording.
        length: Length of the source in milliseconds.
        reference: Reference translation.
        units: Words, or characters.
        chunk_of: Number of the chunk after which each unit was written.
        separator: String between two units.
    """

    name: str
    length: int
    reference: str
    units: Sequence[str]
    chunk_of: Sequence[int]
    separator: str

    def simuleval(self, index: int) -> Record:
        """Line of an ``instances.log``; elapsed times have all the compute so far."""
        arrivals, computes = arrivals_of(self.length), computes_of(self.name)
        delays = [arrivals[chunk] for chunk in self.chunk_of]
        elapsed = [arrivals[chunk] + sum(computes[: chunk + 1]) for chunk in self.chunk_of]
        return {
            "index": index,
            "prediction": self.separator.join(self.units),
            "delays": list(map(float, delays)),
            "elapsed": list(map(float, elapsed)),
            "prediction_length": len(self.units),
            "reference": self.reference,
            "source": [f"{self.name}.wav"],
            "source_length": float(self.length),
        }

    def simulstream(self, number: int) -> Iterator[Record]:
        """Lines of a log of simulstream: the metadata, then one line per chunk."""
        yield {"id": number, "metadata": {"wav_name": f"{self.name}.wav"}}
        arrivals, computes = arrivals_of(self.length), computes_of(self.name)
        rest: list[str] = []
        wrong: list[str] = []
        for chunk, arrival in enumerate(arrivals):
            deleted, tokens = wrong, rest + self._tokens(chunk)
            wrong, rest = [], []
            if tokens and chunk < len(arrivals) - 1:
                tokens, rest, wrong = _changed(tokens, chunk)
            yield {
                "id": number,
                "total_audio_processed": arrival / 1000,
                "computation_time": computes[chunk] / 1000,
                "generated_tokens": tokens,
                "deleted_tokens": deleted,
            }

    def _tokens(self, chunk: int) -> list[str]:
        """One token for each unit of a chunk."""
        mark = SPACE_MARK if self.separator else ""
        pairs = zip(self.units, self.chunk_of, strict=True)
        return [mark + unit for unit, place in pairs if place == chunk]


def _changed(tokens: list[str], chunk: int) -> tuple[list[str], list[str], list[str]]:
    """Change the last token of every third chunk, and divide a long last word of others.

    Args:
        tokens: Tokens of the chunk.
        chunk: Number of the chunk.

    Returns:
        The written tokens, those that the next chunk has to write, and those that it deletes.
    """
    *others, last = tokens
    if chunk % 3 == 0:
        wrong = last[:1] + "o"
        return [*others, wrong], [last], [wrong]
    if len(last) > LONG_WORD:
        half = len(last) // 2
        return [*others, last[:half]], [last[half:]], []
    return tokens, [], []


def arrivals_of(length: int) -> list[int]:
    """End of each chunk of a source, in milliseconds."""
    return [*range(CHUNK_MS, length, CHUNK_MS), length]


def computes_of(name: str) -> list[int]:
    """Milliseconds of compute of the first hundred chunks of a recording."""
    return [70 + 83 * chunk * (len(name) + chunk) % 410 for chunk in range(100)]


def chunks_of(number: int, segment: Record, start: int, length: int) -> list[int]:
    """Chunk after which each unit of a segment is written.

    Args:
        number: Number of units.
        segment: The segment of ``texts.json``; with a negative ``lag``, the system guesses.
        start: Its start in the source, in milliseconds.
        length: Length of the source in milliseconds.
    """
    ends = arrivals_of(length)
    lag, duration = 1000 * segment.get("lag", LAG), 1000 * segment["duration"]
    times = [start + lag + duration * unit / number for unit in range(number)]
    return [next(i for i, end in enumerate(ends) if end >= min(time, length)) for time in times]


def streams(talks: dict[str, Record], target: str, *, whole: bool) -> Iterator[Stream]:
    """One stream per talk, or one per segment.

    Args:
        talks: Content of ``texts.json``.
        target: Code of the target language.
        whole: Whether a stream is a whole talk.
    """
    separator = " " if target == "de" else ""
    for name, talk in talks.items():
        groups = [talk["segments"]] if whole else [[segment] for segment in talk["segments"]]
        for position, group in enumerate(groups):
            length = round(1000 * (talk["length"] if whole else group[0]["duration"]))
            units: list[str] = []
            places: list[int] = []
            for segment in group:
                text = segment[target][1]
                words = text.split() if separator else list(text)
                start = round(1000 * segment["offset"]) if whole else 0
                units += words
                places += chunks_of(len(words), segment, start, length)
            title = name if whole else f"{name}_{position}"
            reference = separator.join(segment[target][0] for segment in group)
            yield Stream(title, length, reference, units, places, separator)


def json_lines(records: Iterable[Record]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def files(target: str) -> dict[str, str]:
    """Content of each file of a target language by its path in the folder of the language."""
    talks = json.loads((FOLDER / "texts.json").read_text(encoding="utf-8"))
    sentences = list(streams(talks, target, whole=False))
    whole = list(streams(talks, target, whole=True))
    places = [
        {"wav": f"{name}.wav", "offset": segment["offset"], "duration": segment["duration"]}
        for name, talk in talks.items()
        for segment in talk["segments"]
    ]
    texts = [segment[target][0] for talk in talks.values() for segment in talk["segments"]]
    lines = [line for number, stream in enumerate(whole) for line in stream.simulstream(number)]
    config = {"source_type": "speech", "target_type": "text"}
    return {
        "sentences/instances.log": json_lines(one.simuleval(i) for i, one in enumerate(sentences)),
        "sentences/config.yaml": yaml.safe_dump(config),
        "talks/instances.log": json_lines(one.simuleval(i) for i, one in enumerate(whole)),
        "talks/config.yaml": yaml.safe_dump(config),
        "talks/simulstream.jsonl": json_lines(lines),
        "talks/simulstream.yaml": "detokenizer_type: simuleval\nlatency_unit: spm\n",
        "segments.yaml": yaml.safe_dump(places, default_flow_style=None, sort_keys=False),
        "segments.ref": "".join(f"{text}\n" for text in texts),
    }


def main() -> None:
    for target in LANGUAGES:
        for name, content in files(target).items():
            path = FOLDER / target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
