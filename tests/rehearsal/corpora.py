"""Corpora of a few minutes in published layouts, with the irregularities of the real ones.

Their talks are made of minitalks: sounds and speakers' names in the texts, dashes between words, an
empty line, a segment of more than 36 s, segments that overlap, speech without a segment, and a text
that no aligner can align.
"""

import io
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import soundfile
from datasets import Audio, Dataset

from tests.data.readers import forms
from tests.data.readers.forms import samples, write
from zoo.base.talks import Segment, Talk
from zoo.base.types import Seconds
from zoo.config import build, compose
from zoo.data.views import sentences

RATE = 16_000
OWN = ("de", "es", "zh")  # minitalks has these translations; the others are stand-ins
LANGUAGES = (*OWN, "fr", "it", "nl", "pt", "ro", "ru")
SPLITS = {"train": "train", "dev": "dev", "tst-COMMON": "tst"}  # of MuST-C: that of minitalks
LONG = 36.0  # seconds of the longest segment
MINUTES = (8, 12)  # of the long talks of the test set
Texts = dict[str, str]  # by language


@dataclass(frozen=True)
class Line:
    """A segment as a corpus lists it."""

    offset: Seconds
    duration: Seconds
    texts: Texts


@dataclass(frozen=True)
class Recording:
    """A talk as a corpus has it."""

    name: str
    audio: np.ndarray  # (n,) float32
    lines: tuple[Line, ...]


def mustc(root: Path) -> None:
    """Write a MuST-C of all language pairs."""
    for split, own in SPLITS.items():
        talks = _talks(own, 4 if split == "train" else 2)
        recordings = [_recording([talk], f"ted_{split}_{talk.name}") for talk in talks]
        recordings[0] = irregular(recordings[0])
        if split == "tst-COMMON":
            recordings = [recordings[0], *(_long(talks, minutes) for minutes in MINUTES)]
        for code in LANGUAGES:
            _write_pair(root / f"en-{code}" / "data" / split, split, code, recordings)


def realsi(root: Path) -> None:
    """Write a RealSI from Chinese names of files, English to Chinese."""
    for talk in _talks("tst", 2):
        recording = _recording([talk], f"en2zh-{talk.name}")
        items = [
            {
                "start_time": round(line.offset * 1000),
                "end_time": round((line.offset + line.duration) * 1000),
                "src_text": line.texts["en"],
                "trg_text": line.texts["zh"],
                "utterance": [],
            }
            for line in recording.lines
        ]
        length = round(len(recording.audio) / RATE * 1000)
        content = {"vid": recording.name, "duration": length, "segment": items}
        write(root / f"{recording.name}.json", [json.dumps(content, ensure_ascii=False)])
        _save(root / f"{recording.name}.wav", recording.audio)


def covost2(root: Path) -> None:
    """Write a CoVoST 2 of English sentences with German and Chinese translations.

    It also has German and French sentences with English translations; their speech is English.
    """
    for split, own in (("train", "train"), ("dev", "dev"), ("test", "tst")):
        sentences = [
            (f"{talk.name}_{index}", segment, samples(talk))
            for talk in _talks(own, 1)
            for index, segment in enumerate(talk.segments[:6])
        ]
        for name, segment, audio in sentences:
            start, end = round(segment.offset * RATE), round(segment.end * RATE)
            for language in ("en", "de", "fr"):
                _save(root / language / "clips" / f"{name}.wav", audio[start:end])
        for source, target, folder in (
            ("en", "de", "de"),
            ("en", "zh", "zh-CN"),
            ("de", "en", "en"),
            ("fr", "en", "en"),
        ):
            rows = ["path\tsentence\ttranslation\tclient_id"]
            for name, segment, _ in sentences:
                texts = _texts(segment)
                rows.append(f"{name}.mp3\t{texts[source]}\t{texts[target]}\tspeaker")
            write(root / source / f"covost_v2.{source}_{folder}.{split}.tsv", rows)


def others(root: Path) -> None:
    """Write small corpora, English to German, one per reader without a writer of its own here.

    Europarl-ST also has German to English; its speech is English.
    """
    whole = _talks("tst", 2)
    single = sentences(whole)[:6]
    forms.acl6060(whole, root / "acl6060", split="dev")
    forms.europarl_st(whole, root / "europarl_st")
    forms.europarl_st(whole, root / "europarl_st", "de", "en")
    forms.iwslt(whole, root / "iwslt")
    mcif(root / "mcif")
    forms.lhotse(whole, root / "lhotse")
    forms.folder(whole, root / "folder")
    forms.fleurs(single, root / "fleurs")
    forms.streamuni(single, root / "streamuni")
    for split in ("train", "dev"):
        shutil.copy(
            root / "streamuni" / f"{forms.SPLIT}.json", root / "streamuni" / f"{split}.json"
        )
    huggingface(single, root / "huggingface")


def mcif(root: Path) -> None:
    """Write an MCIF as the development set of IWSLT 2026 has it, English to all languages.

    Its texts have quotation marks that a table of values left in them, at the beginning of a line
    and doubled; times have rounding errors; a recording is without suffix in the list.
    """
    talks = _talks("dev", 2)
    recordings = [irregular(_recording([talks[0]], "OiqEWDVtWk")), _recording(talks, "NuMKTxzETS")]
    lines = [(recording.name, line) for recording in recordings for line in recording.lines]
    spans = [
        f"- {{duration: {line.duration + 1e-15!r}, offset: {line.offset:.3f}, speaker_id: '1', "
        f"wav: {name}{'' if place % 7 == 3 else '.wav'}}}"
        for place, (name, line) in enumerate(lines)
    ]
    write(root / "audio-segments.yaml", spans)
    for code in LANGUAGES:
        texts = [line.texts[code] for _, line in lines]
        marked = [f'"{text} ""so""' if place % 5 == 1 else text for place, text in enumerate(texts)]
        write(root / "ref" / f"{code}.txt", marked)
    write(root / "ref" / "en.txt", [line.texts["en"] for _, line in lines])
    for recording in recordings:
        _save(root / "audio" / f"{recording.name}.wav", recording.audio)


def huggingface(talks: Sequence[Talk], root: Path) -> None:
    """Write a data set of sentences, with the audio in its rows."""
    rows = []
    for talk in talks:
        audio = io.BytesIO()
        soundfile.write(audio, samples(talk), RATE, format="WAV", subtype="PCM_16")
        [segment] = talk.segments
        rows.append(
            {
                "audio": {"bytes": audio.getvalue(), "path": f"{talk.name}.wav"},
                "sentence": segment.source,
                "translation": segment.targets["de"].text,
            }
        )
    data = Dataset.from_list(rows).cast_column("audio", Audio(decode=False))
    data.save_to_disk(str(root))


def irregular(recording: Recording) -> Recording:
    """Return a talk with the irregularities that this module lists."""
    lines = list(recording.lines)
    changed = [
        _prefixed(lines[0], "CA: "),
        replace(lines[1], duration=lines[2].offset + 0.3 - lines[1].offset),  # overlaps the next
        _sound(lines[2], lines[3], "(Laughter)"),
        replace(
            lines[3],
            texts={code: text.replace(" ", " – ", 1) for code, text in lines[3].texts.items()},
        ),
        replace(lines[4], texts=lines[4].texts | dict.fromkeys(LANGUAGES, "")),
        # the fifth segment is left out: speech without a text
        replace(lines[6], texts=lines[6].texts | {"en": "word " * 80 + "早上好"}),
        _prefixed(lines[7], "(Applause) "),
    ]
    rest = _merged(lines[8:])
    return replace(recording, lines=(*changed[:2], lines[2], *changed[2:], *rest))


def _talks(split: str, limit: int) -> Sequence[Talk]:
    """Return the first talks of a split of minitalks."""
    talks: Sequence[Talk] = build(compose("evaluate").data).talks(split, limit=limit)
    return talks


def _recording(talks: Sequence[Talk], name: str) -> Recording:
    """Return talks one after the other as one talk."""
    audio, lines, offset = [], [], 0.0
    for talk in talks:
        audio.append(samples(talk))
        lines += [
            Line(offset + segment.offset, segment.duration, _texts(segment))
            for segment in talk.segments
        ]
        offset += len(audio[-1]) / RATE
    return Recording(name, np.concatenate(audio), tuple(lines))


def _long(talks: Sequence[Talk], minutes: int) -> Recording:
    """Return a talk of at least so many minutes."""
    length = sum(talk.duration for talk in talks)
    times = int(minutes * 60 / length) + 1
    return _recording([*talks] * times, f"ted_{minutes}_minutes")


def _texts(segment: Segment) -> Texts:
    """Return the texts of a segment in all languages."""
    own = {code: segment.targets[code].text for code in OWN}
    return {"en": segment.source, **dict.fromkeys(LANGUAGES, own["es"]), **own}


def _prefixed(line: Line, prefix: str) -> Line:
    """Return a line with a prefix before all its texts."""
    return replace(line, texts={code: f"{prefix}{text}" for code, text in line.texts.items()})


def _sound(before: Line, after: Line, text: str) -> Line:
    """Return a line between two others that describes a sound."""
    end = before.offset + before.duration
    return Line(end, after.offset - end, dict.fromkeys(before.texts, text))


def _merged(lines: Sequence[Line]) -> list[Line]:
    """Return lines of which the first is as long as several, at least ``LONG``."""
    first = lines[0]
    for count, line in enumerate(lines, start=1):
        duration = line.offset + line.duration - first.offset
        if duration >= LONG or count == len(lines):
            texts = {
                code: " ".join(one.texts[code] for one in lines[:count]) for code in first.texts
            }
            return [Line(first.offset, duration, texts), *lines[count:]]
    return []


def _write_pair(folder: Path, split: str, code: str, recordings: Sequence[Recording]) -> None:
    """Write a split of a language pair of MuST-C."""
    lines = [(recording.name, line) for recording in recordings for line in recording.lines]
    write(
        folder / "txt" / f"{split}.yaml",
        [
            f"- {{duration: {line.duration:.6f}, offset: {line.offset:.6f}, rW: 5, uW: 0, "
            f"speaker_id: spk.1, wav: {name}.wav}}"
            for name, line in lines
        ],
    )
    for language in ("en", code):
        write(folder / "txt" / f"{split}.{language}", [line.texts[language] for _, line in lines])
    for recording in recordings:
        path = folder / "wav" / f"{recording.name}.wav"
        if code == LANGUAGES[0]:
            _save(path, recording.audio)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(Path("../../../..") / f"en-{LANGUAGES[0]}/data/{split}/wav/{path.name}")


def _save(path: Path, audio: np.ndarray) -> None:
    """Write audio with 16 bits a sample."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, audio, RATE, subtype="PCM_16")
