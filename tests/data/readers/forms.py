"""Writes talks in the layouts of corpora, and returns the corpus that reads them.

Times are written in milliseconds. A talk is a file in its audio format; sentences are files of
their own.
"""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import soundfile

from zoo.base.talks import Segment, Talk
from zoo.data.corpora import Corpus
from zoo.data.readers.acl6060 import ACL6060
from zoo.data.readers.covost2 import CoVoST2
from zoo.data.readers.europarl_st import EuroparlST
from zoo.data.readers.fleurs import Fleurs
from zoo.data.readers.folder import Folder
from zoo.data.readers.huggingface import HuggingFace
from zoo.data.readers.iwslt import IWSLT
from zoo.data.readers.lhotse import Lhotse
from zoo.data.readers.mustc import MustC
from zoo.data.readers.realsi import RealSI
from zoo.data.readers.streamuni import INSTRUCTION, StreamUni

SPLIT = "test"
PAIR = {"source_language": "en", "target_language": "de"}
Write = Callable[[Sequence[Talk], Path], Corpus]


def samples(talk: Talk) -> np.ndarray:
    """(n,) float32 samples of a talk at 16 kHz."""
    start, count = round(talk.offset * 16_000), round(talk.duration * 16_000)
    return soundfile.read(talk.file, start=start, frames=count, dtype="float32")[0]


def save(talk: Talk, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples(talk), 16_000, subtype="FLOAT")


def write(path: Path, lines: Sequence[str], *, end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(end.join(lines) + end, encoding="utf-8")


def segments(talks: Sequence[Talk]) -> list[tuple[Talk, Segment]]:
    return [(talk, segment) for talk in talks for segment in talk.segments]


def sources(talks: Sequence[Talk]) -> list[str]:
    return [segment.source for _, segment in segments(talks)]


def targets(talks: Sequence[Talk]) -> list[str]:
    return [segment.targets["de"].text for _, segment in segments(talks)]


def yaml_lines(talks: Sequence[Talk]) -> list[str]:
    return [
        f"- {{duration: {one.duration:.3f}, offset: {one.offset:.3f}, rW: 4, uW: 0, "
        f"speaker_id: spk.1, wav: {talk.name}.wav}}"
        for talk, one in segments(talks)
    ]


def mustc(talks: Sequence[Talk], root: Path) -> Corpus:
    texts = root / "en-de" / "data" / SPLIT / "txt"
    write(texts / f"{SPLIT}.yaml", yaml_lines(talks))
    write(texts / f"{SPLIT}.en", sources(talks))
    write(texts / f"{SPLIT}.de", targets(talks))
    for talk in talks:
        save(talk, texts.parent / "wav" / f"{talk.name}.wav")
    return MustC(root=str(root), **PAIR)


def iwslt(talks: Sequence[Talk], root: Path) -> Corpus:
    write(root / "tst.yaml", yaml_lines(talks))
    write(root / "tst.en", sources(talks))
    write(root / "tst.de", targets(talks))
    for talk in talks:
        save(talk, root / "wavs" / f"{talk.name}.wav")
    names = {
        "segments": "tst.yaml",
        "audio": "wavs",
        "transcripts": "tst.en",
        "references": "tst.de",
    }
    return IWSLT(**{key: str(root / name) for key, name in names.items()}, **PAIR)


def acl6060(talks: Sequence[Talk], root: Path, split: str = SPLIT) -> Corpus:
    write(root / f"{split}.yaml", yaml_lines(talks))
    for code, texts in (("en", sources(talks)), ("de", targets(talks))):
        write(root / split / "text" / "txt" / f"ACL.6060.{split}.en-xx.{code}.txt", texts)
    for talk in talks:
        save(talk, root / split / "full_wavs" / f"{talk.name}.wav")
    return ACL6060(root=str(root), **PAIR)


def europarl_st(
    talks: Sequence[Talk], root: Path, source: str = "en", target: str = "de"
) -> Corpus:
    folder = root / source / target / SPLIT
    rows = [f"{talk.name} {one.offset:.3f} {one.end:.3f}" for talk, one in segments(talks)]
    write(folder / "segments.lst", rows)
    write(folder / "segments.en", sources(talks))
    write(folder / "segments.de", targets(talks))
    for talk in talks:
        save(talk, root / source / "audios" / f"{talk.name}.wav")
    return EuroparlST(root=str(root), source_language=source, target_language=target)


def realsi(talks: Sequence[Talk], root: Path) -> Corpus:
    for talk in talks:
        name = f"en2de-{talk.name}"
        items = [
            {
                "start_time": round(one.offset * 1000),
                "end_time": round(one.end * 1000),
                "src_text": one.source,
                "trg_text": one.targets["de"].text,
                "utterance": [],
            }
            for one in talk.segments
        ]
        content = {"vid": name, "duration": round(talk.duration * 1000), "segment": items}
        write(root / f"{name}.json", [json.dumps(content, ensure_ascii=False, indent=4)])
        save(talk, root / f"{name}.wav")
    return RealSI(root=str(root), **PAIR)


def _rows(talks: Sequence[Talk], root: Path) -> list[dict[str, object]]:
    """Rows with the audio in them, as most data sets of the hub have it."""
    rows: list[dict[str, object]] = []
    for talk in talks:
        save(talk, root / "audio.wav")
        audio = {"bytes": (root / "audio.wav").read_bytes(), "path": f"{talk.name}.wav"}
        items = [
            {
                "offset": round(one.offset, 3),
                "duration": round(one.duration, 3),
                "sentence": one.source,
                "translation": one.targets["de"].text,
            }
            for one in talk.segments
        ]
        first = talk.segments[0]
        texts = {"en": first.source, "de": first.targets["de"].text}
        rows.append({"audio": audio, "segments": items, "translation": texts})
    return rows


def huggingface(talks: Sequence[Talk], root: Path) -> Corpus:
    from datasets import Audio, Dataset, DatasetDict, disable_progress_bars

    disable_progress_bars()
    root.mkdir(parents=True)
    rows = Dataset.from_list(_rows(talks, root)).cast_column("audio", Audio(decode=False))
    DatasetDict({SPLIT: rows}).save_to_disk(str(root / "saved"))
    columns = {"segments": "segments", "transcript": "sentence", "translation": "translation"}
    return HuggingFace(folder=str(root / "saved"), **columns, **PAIR)


def huggingface_sentences(talks: Sequence[Talk], root: Path) -> Corpus:
    corpus = huggingface(talks, root)
    return HuggingFace(
        folder=corpus.folder, transcript="translation", translation="translation", **PAIR
    )


def cut(talk: Talk, path: Path, *, start: float = 0.0, duration: float | None = None) -> dict:
    """A cut of a recording as lhotse writes it."""
    length = len(samples(talk))
    supervisions = [
        {
            "id": f"{talk.name}-{number}",
            "recording_id": talk.name,
            "start": round(one.offset - start, 3),
            "duration": round(one.duration, 3),
            "channel": 0,
            "text": one.source,
            "language": "English",
            "speaker": "spk.1",
            "custom": {"translation": {"de": one.targets["de"].text}},
        }
        for number, one in enumerate(talk.segments)
    ]
    source = {"type": "file", "channels": [0], "source": path.name}
    recording = {
        "id": talk.name,
        "sources": [source],
        "sampling_rate": 16_000,
        "num_samples": length,
        "duration": length / 16_000,
        "channel_ids": [0],
    }
    return {
        "id": talk.name,
        "start": start,
        "duration": talk.duration if duration is None else duration,
        "channel": 0,
        "supervisions": supervisions,
        "recording": recording,
        "type": "MonoCut",
    }


def lhotse(talks: Sequence[Talk], root: Path) -> Corpus:
    lines = []
    for talk in talks:
        path = root / f"{talk.name}.wav"
        save(talk, path)
        lines.append(json.dumps(cut(talk, path)))
    with gzip.open(root / f"cuts_{SPLIT}.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return Lhotse(cuts=str(root), **PAIR)


def clock(seconds: float) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d},{milliseconds:03d}"


def srt(talk: Talk, texts: Sequence[str]) -> list[str]:
    lines = []
    for number, (one, text) in enumerate(zip(talk.segments, texts, strict=True), start=1):
        lines += [str(number), f"{clock(one.offset)} --> {clock(one.end)}", text, ""]
    return lines


def folder(talks: Sequence[Talk], root: Path) -> Corpus:
    """Subtitles as references; transcripts as a table."""
    for talk in talks:
        save(talk, root / SPLIT / f"{talk.name}.wav")
        stem = root / SPLIT / talk.name
        write(stem.with_name(f"{talk.name}.de.srt"), srt(talk, targets([talk])))
        table = [f"{one.offset:.3f}\t{one.end:.3f}\t{one.source}" for one in talk.segments]
        write(stem.with_name(f"{talk.name}.en.tsv"), table)
    return Folder(root=str(root), **PAIR)


def folder_sentences(talks: Sequence[Talk], root: Path) -> Corpus:
    for talk in talks:
        save(talk, root / f"{talk.name}.wav")
        write(root / f"{talk.name}.en.txt", sources([talk]))
        write(root / f"{talk.name}.de.txt", targets([talk]))
    return Folder(root=str(root), **PAIR)


def covost2(talks: Sequence[Talk], root: Path) -> Corpus:
    rows = ["path\tsentence\ttranslation\tclient_id"]
    for talk in talks:
        save(talk, root / "en" / "clips" / f"{talk.name}.wav")
        [segment] = talk.segments
        texts = [one.replace('"', '\\"') for one in (segment.source, segment.targets["de"].text)]
        rows.append("\t".join([f"{talk.name}.mp3", *texts, "spk.1"]))
    write(root / "en" / f"covost_v2.en_de.{SPLIT}.tsv", rows)
    return CoVoST2(root=str(root), **PAIR)


def fleurs(talks: Sequence[Talk], root: Path) -> Corpus:
    for folder_name, texts in (("en_us", sources(talks)), ("de_de", targets(talks))):
        rows = [
            f"{number}\t{talk.name}.wav\t{text}\t{text.lower()}\tx |\t16000\tMALE"
            for number, (talk, text) in enumerate(zip(talks, texts, strict=True))
        ]
        write(root / folder_name / f"{SPLIT}.tsv", rows)
    for talk in talks:
        save(talk, root / "en_us" / "audio" / SPLIT / f"{talk.name}.wav")
    return Fleurs(root=str(root), **PAIR)


def streamuni(talks: Sequence[Talk], root: Path) -> Corpus:
    items = [
        {
            "audio": f"audio/{talk.name}.wav",
            "asr": talk.segments[0].source,
            "translation": talk.segments[0].targets["de"].text,
            "instruction": INSTRUCTION.replace("{target}", "German"),
            "duration": talk.duration,
        }
        for talk in talks
    ]
    for talk in talks:
        save(talk, root / "audio" / f"{talk.name}.wav")
    write(root / f"{SPLIT}.json", [json.dumps(items, indent=4)])
    return StreamUni(root=str(root), **PAIR)


WHOLE: dict[str, Write] = {
    "mustc": mustc,
    "iwslt": iwslt,
    "acl6060": acl6060,
    "europarl_st": europarl_st,
    "realsi": realsi,
    "huggingface": huggingface,
    "lhotse": lhotse,
    "folder": folder,
}
SENTENCES: dict[str, Write] = {
    "covost2": covost2,
    "fleurs": fleurs,
    "huggingface": huggingface_sentences,
    "lhotse": lhotse,
    "folder": folder_sentences,
    "streamuni": streamuni,
}
