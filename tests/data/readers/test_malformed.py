"""Malformed corpora: each is refused in one sentence with file and line, and none is used in part.

``CASES`` has, for each form of a corpus and each damage to one file of a correct corpus, the change
that makes the damage and a pattern of what the sentence must name.
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.data.readers.forms import SENTENCES, SPLIT, WHOLE
from tests.fixtures.films import to_film
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target
from zoo.data.corpora import Corpus
from zoo.data.readers.huggingface import HuggingFace

RATE = 16_000
TIMES = ((0.25, 1.0), (1.5, 1.0), (3.0, 0.5))
TEXTS = (("One two.", "Eins zwei."), ("Three.", "Drei."), ("Four.", "Vier."))
Damage = Callable[[Path], None]
UTF8 = r"is not a text file in UTF-8 \(line 2"


@pytest.fixture
def talks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Talk]:
    """Two talks of 4 s with three segments each."""
    monkeypatch.setenv("SIMULZOO_CACHE", str(tmp_path / "cache"))
    segments = tuple(
        Segment(offset, duration, source, targets={"de": Target(target)})
        for (offset, duration), (source, target) in zip(TIMES, TEXTS, strict=True)
    )
    found = []
    for number, name in enumerate(("a", "b"), start=1):
        path = tmp_path / f"{name}.wav"
        soundfile.write(path, [0.01 * number] * 4 * RATE, RATE)
        found.append(Talk(name, path, 4.0, "en", segments))
    return found


def line(path: str, number: int, text: str | None) -> Damage:
    """Replace line ``number`` of a file; None removes it, number 0 adds a line at the end."""

    def change(root: Path) -> None:
        lines = (root / path).read_text(encoding="utf-8").split("\n")[:-1]
        if number == 0:
            lines.append(str(text))
        else:
            lines[number - 1 : number] = [] if text is None else [text]
        (root / path).write_text("\n".join(lines) + "\n", encoding="utf-8")

    return change


def content(path: str, data: bytes | str) -> Damage:
    """Write a whole file."""

    def change(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data.encode() if isinstance(data, str) else data)

    return change


def encoded(path: str, encoding: str, text: str = "Eins.\nZwölf.\nVier.\n") -> Damage:
    """Write a text in another encoding."""
    return content(path, text.encode(encoding))


def remove(path: str) -> Damage:
    return lambda root: (root / path).unlink()


def move(path: str, new: str) -> Damage:
    def change(root: Path) -> None:
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / path).rename(root / new)

    return change


def copy(path: str, new: str) -> Damage:
    def change(root: Path) -> None:
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / new).write_bytes((root / path).read_bytes())

    return change


def item(path: str, number: int, **values: Any) -> Damage:
    """Change the segment of a RealSI file; the value None removes a key."""

    def change(root: Path) -> None:
        found = json.loads((root / path).read_text(encoding="utf-8"))
        segment = found["segment"][number - 1]
        segment.update(values)
        found["segment"][number - 1] = {key: one for key, one in segment.items() if one is not None}
        (root / path).write_text(json.dumps(found, indent=4), encoding="utf-8")

    return change


def example(number: int, **values: Any) -> Damage:
    """Change an example of StreamUni's training file; the value None removes a key."""

    def change(root: Path) -> None:
        path = root / f"{SPLIT}.json"
        items = json.loads(path.read_text(encoding="utf-8"))
        items[number - 1].update(values)
        items[number - 1] = {key: one for key, one in items[number - 1].items() if one is not None}
        path.write_text(json.dumps(items), encoding="utf-8")

    return change


def cuts(number: int, change: Callable[[dict[str, Any]], object]) -> Damage:
    """Change the cut of a line of a manifest of lhotse."""

    def apply(root: Path) -> None:
        path = root / f"cuts_{SPLIT}.jsonl.gz"
        lines = [json.loads(one) for one in gzip.decompress(path.read_bytes()).splitlines()]
        change(lines[number - 1])
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))

    return apply


def supervision(**values: Any) -> Damage:
    """Change the second supervision of the first cut."""
    return cuts(1, lambda cut: cut["supervisions"][1].update(values))


def columns(**values: str | None) -> Damage:
    """Read a data set of Hugging Face with other columns."""
    return lambda root: (root / "columns.json").write_text(json.dumps(values)) and None


def yaml_item(offset: object, duration: object, wav: str = "a.wav") -> str:
    return f"- {{duration: {duration}, offset: {offset}, speaker_id: s, wav: {wav}}}"


def times(number: int, *item: object) -> Damage:
    """Replace a segment of MuST-C."""
    return line(YAML, number, yaml_item(*item))


TXT = f"en-de/data/{SPLIT}/txt/{SPLIT}"
YAML, EN, DE = f"{TXT}.yaml", f"{TXT}.en", f"{TXT}.de"
WAV = f"en-de/data/{SPLIT}/wav"
LST = f"en/de/{SPLIT}/segments"
ACL = f"{SPLIT}/text/txt/ACL.6060.{SPLIT}.en-xx"
TABLE = f"en/covost_v2.en_de.{SPLIT}.tsv"
SRT = f"{SPLIT}/a.de.srt"
TSV = f"{SPLIT}/a.en.tsv"
MANIFEST = f"cuts_{SPLIT}.jsonl.gz"

Cases = dict[str, tuple[Damage, str]]
MUSTC: Cases = {
    "segment after the end": (times(2, 9, 1), "yaml, line 2: .* 9.00 to 10.00 s does not lie"),
    "segment ends late": (times(3, 3, 2), "yaml, line 3: .*does not lie"),
    "negative offset": (times(2, -1, 1), "yaml, line 2: segment 2 has offset -1"),
    "duration of 0": (times(2, 1.5, 0), "yaml, line 2: segment 2 .*duration 0"),
    "reversed segment": (times(2, 1.5, -1), "yaml, line 2: .*duration -1"),
    "offset that is no number": (times(2, ".nan", 1), "yaml, line 2: .*offset [.]nan"),
    "infinite duration": (times(2, 1, ".inf"), "yaml, line 2: .*duration [.]inf"),
    "duration that is a truth value": (times(2, 1, "true"), "yaml, line 2: .*duration true"),
    "segment inside another": (times(2, 0.5, 0.5), "yaml, line 2: .*yaml, line 1. overlap"),
    "same segment twice": (times(2, 0.25, 1.0), "yaml, line [12]: .*overlap"),
    "item without wav": (
        line(YAML, 2, "- {offset: 1, duration: 1}"),
        r"yaml is not a list .*\(line 2\)",
    ),
    "item that is a text": (line(YAML, 2, "- wav"), r"yaml is not a list .*\(line 2\)"),
    "YAML that ends early": (line(YAML, 6, "- {offset: 1,"), "yaml, line [67], is not YAML"),
    "offset that is a list": (times(2, [2], 1), r"is not a list of segments .*line 2"),
    "empty list": (content(YAML, "[]\n"), "yaml is not a list of segments"),
    "mapping": (content(YAML, "a: 1\n"), "yaml is not a list of segments"),
    "recording that is missing": (
        times(4, 0, 1, "c.wav"),
        "yaml, line 4: audio file .*c.wav does not exist",
    ),
    "translation too few": (line(DE, 6, None), "has 6 segments but .*de has 5 lines; number 6"),
    "translation too many": (line(DE, 0, "Mehr."), "has 6 segments but .*de has 7 lines; number 7"),
    "transcript too many": (line(EN, 0, "More."), "has 6 segments but .*en has 7 lines; number 7"),
    "translation in Latin-1": (encoded(DE, "latin-1"), rf"de {UTF8}\)"),
    "translation in UTF-16": (encoded(DE, "utf-16"), r"de is not a text file in UTF-8 \(line 1"),
    "UTF-16 without a mark": (
        encoded(DE, "utf-16-le", "Eins.\nZwei.\n"),
        r"de .*\(line 1 has a zero byte",
    ),
    "no translations": (remove(DE), "There is no file .*de"),
    "no segments": (remove(YAML), "There is no file .*yaml"),
    "damaged audio": (
        content(f"{WAV}/a.wav", "RIFF"),
        "yaml, line 1: Audio file .*a.wav is damaged",
    ),
    "empty audio": (content(f"{WAV}/a.wav", ""), "yaml, line 1: Audio file .*a.wav is damaged"),
    "a damaged film": (
        lambda root: (remove(f"{WAV}/a.wav")(root), content(f"{WAV}/a.m4a", "x")(root)),
        "yaml, line 1: .*a.m4a is damaged",
    ),
    "two recordings of one name": (
        lambda root: (
            copy(f"{WAV}/a.wav", f"{WAV}/x/a.wav")(root),
            times(4, 0, 1, "x/a.wav")(root),
        ),
        "yaml, line 4: two recordings have the name 'a'",
    ),
}
IWSLT: Cases = {
    "reference too few": (
        line("tst.de", 6, None),
        "tst.yaml has 6 segments but .*tst.de has 5 lines; number 6",
    ),
    "offset in words": (
        line("tst.yaml", 5, yaml_item("soon", 1)),
        "tst.yaml, line 5: .*offset soon",
    ),
}
ACL6060: Cases = {
    "no times": (remove(f"{SPLIT}.yaml"), "no file .*yaml; ACL 60/60 has no times of its segments"),
    "no reference": (remove(f"{ACL}.de.txt"), "There is no file .*de.txt"),
    "another number of lines": (
        line(f"{ACL}.de.txt", 1, None),
        "has 6 segments but .*de.txt has 5 lines",
    ),
}
EUROPARL_ST: Cases = {
    "line of two fields": (
        line(f"{LST}.lst", 2, "a 1.5"),
        "segments.lst, line 2 must have the name",
    ),
    "time in words": (line(f"{LST}.lst", 2, "a one 2"), "segments.lst, line 2 must have the name"),
    "reversed segment": (
        line(f"{LST}.lst", 2, "a 2.5 1.5"),
        "segments.lst, line 2: a segment lasts from 2.50 to 1.50",
    ),
    "unknown speech": (
        line(f"{LST}.lst", 2, "c 1 2"),
        "segments.lst, line 2: audio file .*c does not exist",
    ),
    "translation too few": (
        line(f"{LST}.de", 6, None),
        "segments.lst has 6 lines but .*segments.de has 5; line 6",
    ),
}
REALSI: Cases = {
    "content that is not JSON": (
        content("en2de-a.json", '{\n "segment": [\n'),
        "en2de-a.json, line 3, is not JSON",
    ),
    "list": (
        content("en2de-a.json", "[]"),
        "en2de-a.json is not an object with the list 'segment'",
    ),
    "no segments": (content("en2de-a.json", '{"segment": []}'), "en2de-a.json has no segment"),
    "segment without an end": (
        item("en2de-a.json", 2, end_time=None),
        "en2de-a.json, segment 2 must have start_time",
    ),
    "time that is a text": (
        item("en2de-a.json", 2, start_time="1500"),
        "en2de-a.json, segment 2 must have start_time",
    ),
    "translation that is a number": (
        item("en2de-a.json", 2, trg_text=3),
        "en2de-a.json, segment 2 has a src_text or trg_text",
    ),
    "half of a character": (
        item("en2de-a.json", 2, src_text="\ud83d"),
        "en2de-a.json, segment 2 has a text with half of a character",
    ),
    "zero byte": (
        item("en2de-a.json", 2, trg_text="a\0b"),
        "en2de-a.json, segment 2 has a text with a zero byte",
    ),
    "seconds instead of milliseconds": (
        item("en2de-a.json", 2, start_time=90000, end_time=91000),
        "en2de-a.json, segment 2: .*does not lie",
    ),
    "no recording": (
        remove("en2de-b.wav"),
        "en2de-b.json: audio file .*en2de-b.wav does not exist",
    ),
}
COVOST2: Cases = {
    "line of two columns": (
        line(TABLE, 2, "a.mp3\tOne."),
        "tsv, line 2 has 2 columns instead of 4",
    ),
    "no column of translations": (
        line(TABLE, 1, "path\tsentence\tx\tclient_id"),
        "tsv, line 1 has no column translation",
    ),
    "empty table": (content(TABLE, "\n"), "tsv is empty"),
    "missing clip": (remove("en/clips/a.wav"), "tsv, line 2: audio file .*a.mp3 does not exist"),
    "sentence in Latin-1": (
        encoded(TABLE, "latin-1", "path\tsentence\ttranslation\nx\ty\tö\n"),
        rf"tsv {UTF8}\)",
    ),
    "no table": (remove(TABLE), "has neither .*test.tsv nor"),
}
FLEURS: Cases = {
    "line of two columns": (
        line(f"en_us/{SPLIT}.tsv", 2, "1\tb.wav"),
        "tsv, line 2 has 2 columns instead of 7",
    ),
    "another sentence of one id": (
        line(f"de_de/{SPLIT}.tsv", 2, "0\tx.wav\tAnders.\ta\tx\t1\tMALE"),
        "tsv, line 2 has another sentence for id '0'",
    ),
    "no common sentence": (
        content(f"de_de/{SPLIT}.tsv", "9\tx.wav\tA.\ta\tx\t1\tMALE\n"),
        "No id of .*tsv is in",
    ),
    "no table of the target": (remove(f"de_de/{SPLIT}.tsv"), "There is no file .*de_de"),
}
HUGGINGFACE: Cases = {
    "no data set": (
        remove("saved/dataset_dict.json"),
        "saved cannot be read as a data set on disk",
    ),
    "damaged table": (
        content(f"saved/{SPLIT}/data-00000-of-00001.arrow", "no"),
        "saved cannot be read as a data set on disk",
    ),
    "device instead of a table": (
        lambda root: (
            remove(f"saved/{SPLIT}/data-00000-of-00001.arrow")(root),
            (root / f"saved/{SPLIT}/data-00000-of-00001.arrow").symlink_to("/dev/zero"),
        ),
        "arrow is a pipe, a socket or a device",
    ),
    "unknown column": (columns(translation="german"), "row 0, segment 0 has no text in 'german'"),
    "unknown column of audio": (
        columns(audio="sound"),
        "Unknown column 'sound'; choose one of: audio",
    ),
    "texts without the language": (
        columns(segments=None, transcript=None, target_language="es"),
        "row 0 has no text in 'translation' for the language 'es'",
    ),
}
LHOTSE: Cases = {
    "line that is not JSON": (
        content(MANIFEST, gzip.compress(b'{"id"')),
        "gz, line 1, is not JSON",
    ),
    "file that is not compressed": (content(MANIFEST, "{}\n"), "gz, line 1 cannot be read"),
    "empty manifest": (content(MANIFEST, gzip.compress(b"")), "gz is empty"),
    "mixed cut": (cuts(2, lambda cut: cut.update(type="MixedCut")), "gz, line 2 is a MixedCut"),
    "features without a recording": (
        cuts(2, lambda cut: cut.pop("recording")),
        "gz, line 2 is a cut without a recording",
    ),
    "recording in memory": (
        cuts(1, lambda cut: cut["recording"]["sources"][0].update(type="memory")),
        "gz, line 1 has a recording that is not one audio",
    ),
    "custom that is no mapping": (
        supervision(custom="de"),
        "gz, line 1, supervision 2 has a 'custom' that is no mapping",
    ),
    "text that is a number": (
        supervision(text=3),
        "gz, line 1, supervision 2 has a 'text' that is no text",
    ),
    "half of a character": (
        supervision(text="\ud800"),
        "supervision 2 has a text with half of a character",
    ),
    "zero byte": (supervision(text="a\0b"), "supervision 2 has a text with a zero byte"),
    "path with half of a character": (
        cuts(1, lambda cut: cut["recording"]["sources"][0].update(source="\ud800")),
        r"ud800' is not in UTF-8; rename",
    ),
    "another speed": (
        cuts(1, lambda cut: cut["recording"].update(transforms=[{"name": "Speed"}])),
        "gz, line 1 has transforms",
    ),
    "cut after the end": (
        cuts(2, lambda cut: cut.update(start=3.0)),
        "gz, line 2: the recording from 3.00 to 7.00 s does not",
    ),
    "supervision without a start": (
        supervision(start=None),
        "gz, line 1, supervision 2 has no start or duration",
    ),
    "reversed supervision": (
        supervision(duration=-1.0),
        "gz, line 1, supervision 2: .*must end after its start",
    ),
    "supervision inside another": (
        supervision(start=0.3, duration=0.2),
        "gz, line 1, supervision 2: .*overlap",
    ),
    "some translations": (
        supervision(custom={}),
        "gz, line 1, supervision 2 has no translation, but",
    ),
    "two cuts of one name": (
        cuts(2, lambda cut: cut.update(id="a")),
        "gz, line 2: two recordings have the name 'a'",
    ),
}
STREAMUNI: Cases = {
    "no file of the split": (remove(f"{SPLIT}.json"), "There is no file .*test.json"),
    "JSON that ends early": (
        content(f"{SPLIT}.json", '[\n{"audio": "a.wav"'),
        "test.json, line 2, is not JSON",
    ),
    "NaN": (content(f"{SPLIT}.json", "[NaN]"), "test.json is not JSON: NaN is no number"),
    "nested too deeply": (
        content(f"{SPLIT}.json", "[" * 100_000),
        "test.json is not JSON: nested too",
    ),
    "object": (content(f"{SPLIT}.json", '{"audio": "a.wav"}'), "test.json is not a JSON list"),
    "list of texts": (content(f"{SPLIT}.json", '["a"]'), "item 1, is not a JSON object"),
    "empty list": (content(f"{SPLIT}.json", "[]"), "test.json is empty"),
    "half of a character": (example(2, asr="\ud83d"), "item 2, has half of a character"),
    **{
        f"no {key}": (example(2, **{key: None}), f"test.json, item 2 has no '{key}'")
        for key in ("audio", "asr", "translation", "instruction", "duration")
    },
    "transcript that is a list": (
        example(1, asr=["One"]),
        r"item 1 has \['One'\] for 'asr', which must be a text",
    ),
    "duration that is a text": (
        example(1, duration="4.0"),
        "item 1 has '4.0' for 'duration', which must be a number of at least 0",
    ),
    "duration that is a truth value": (example(1, duration=True), "item 1 has True for 'duration'"),
    "negative duration": (example(1, duration=-4.0), "item 1 has -4.0 for 'duration'"),
    "another duration": (
        example(2, duration=8.0),
        "item 2 has a duration of 8.00 s, but .*b.wav lasts 4.00 s",
    ),
    "another instruction": (
        example(2, instruction="Translate the audio to German."),
        "item 2 has the instruction 'Translate the audio to German.' instead of 'Transcribe the",
    ),
    "missing audio": (
        remove("audio/b.wav"),
        "item 2: audio file .*corpus/audio/b.wav does not exist",
    ),
    "damaged audio": (content("audio/b.wav", "RIFF"), "item 2: Audio file .*b.wav is damaged"),
    "one name twice": (
        example(2, audio="audio/a.wav"),
        "item 2: two recordings have the name 'a'",
    ),
}
FOLDER: Cases = {
    "times in another form": (
        line(SRT, 2, "0:01 -> 0:02"),
        "a.de.srt, line 2 must be 00:00:01,000 -->",
    ),
    "subtitles without a blank line between them": (
        line(SRT, 4, None),
        "a.de.srt, line 5 has the times of another subtitle; write a blank line between",
    ),
    "subtitle without a text": (line(SRT, 3, None), "a.de.srt, line 2 has times without a text"),
    "reversed subtitle": (
        line(SRT, 2, "00:00:02,000 --> 00:00:01,000"),
        "a.de.srt, line 2: .*must end after its start",
    ),
    "subtitle after the end": (
        line(SRT, 2, "00:01:02,000 --> 00:01:03,000"),
        "a.de.srt, line 2: .*does not lie",
    ),
    "overlapping subtitles": (
        line(SRT, 6, "00:00:00,250 --> 00:00:01,000"),
        "a.de.srt, line [26]: .*overlap",
    ),
    "empty subtitles": (content(SRT, "\n"), "a.de.srt is empty"),
    "subtitles in Latin-1": (encoded(SRT, "latin-1", "1\nä\n"), rf"a.de.srt {UTF8}\)"),
    "transcript too few": (
        line(TSV, 3, None),
        "a.de.srt has 3 segments but .*a.en.tsv has 2; .*a.de.srt, line 10",
    ),
    "table with a time in words": (
        line(TSV, 2, "one\t2\tx"),
        "a.en.tsv, line 2 must begin with start and end",
    ),
    "table without a text": (line(TSV, 2, "1\t2\t "), "a.en.tsv, line 2 has times without a text"),
    "table of two columns": (line(TSV, 2, "1\t2"), "a.en.tsv, line 2 has 2 columns instead of 3"),
    "text without a language": (
        content(f"{SPLIT}/a.txt", "A."),
        "a.txt does not name its language",
    ),
    "text of an unknown language": (
        content(f"{SPLIT}/a.xx.txt", "A."),
        "a.xx.txt does not name its language",
    ),
    "text of no talk": (content(f"{SPLIT}/c.de.txt", "A."), "c.de.txt belongs to no audio file"),
    "two references of a talk": (
        content(f"{SPLIT}/a.de.txt", "A."),
        "a.de.srt and .*a.de.txt are two texts",
    ),
    "subtitles in another format": (
        content(f"{SPLIT}/a.de.vtt", "WEBVTT"),
        "a.de.vtt has a format that cannot be read",
    ),
    "reference of one talk only": (
        remove(f"{SPLIT}/b.de.srt"),
        "b.en.tsv, line 1 has no translation, but .*a.de.srt, line 2",
    ),
    "damaged film": (
        lambda root: (remove(f"{SPLIT}/a.wav")(root), content(f"{SPLIT}/a.webm", "x")(root)),
        "a.webm: Audio file .*a.webm is damaged",
    ),
    "two recordings of one name": (
        copy(f"{SPLIT}/a.wav", f"{SPLIT}/a.flac"),
        "two recordings have the name 'a', .*a.flac and .*a.wav",
    ),
}
CASES: dict[str, Cases] = {
    "mustc": MUSTC,
    "iwslt": IWSLT,
    "acl6060": ACL6060,
    "europarl_st": EUROPARL_ST,
    "realsi": REALSI,
    "covost2": COVOST2,
    "fleurs": FLEURS,
    "huggingface": HUGGINGFACE,
    "lhotse": LHOTSE,
    "streamuni": STREAMUNI,
    "folder": FOLDER,
}


def corpus_of(form: str, talks: list[Talk], root: Path) -> Corpus:
    if form in WHOLE:
        return WHOLE[form](talks, root)
    single = [
        Talk(
            talk.name,
            talk.audio,
            talk.duration,
            "en",
            (Segment(0.0, 4.0, "A.", targets={"de": Target(text)}),),
        )
        for talk, text in zip(talks, ("Eins.", "Zwei."), strict=True)
    ]
    return SENTENCES[form](single, root)


def test_every_form_has_damages() -> None:
    assert CASES.keys() == {*WHOLE, *SENTENCES}


@pytest.mark.parametrize(
    ("form", "damage"), [(form, damage) for form, damages in CASES.items() for damage in damages]
)
def test_a_malformed_corpus_is_refused(
    form: str, damage: str, talks: list[Talk], tmp_path: Path
) -> None:
    change, names = CASES[form][damage]
    root = tmp_path / "corpus"
    corpus = corpus_of(form, talks, root)
    assert len(corpus.talks(SPLIT)) == 2
    change(root)
    other = root / "columns.json"
    if other.is_file():
        assert isinstance(corpus, HuggingFace)
        vars(corpus).update(json.loads(other.read_text()))
    with pytest.raises(ZooError, match=names) as caught:
        corpus.talks(SPLIT)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", ")"))


def test_a_mark_of_the_byte_order_is_no_text(talks: list[Talk], tmp_path: Path) -> None:
    corpus = corpus_of("mustc", talks, tmp_path / "mustc")
    path = tmp_path / "mustc" / DE
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert corpus.talks(SPLIT)[0].segments[0].targets["de"].text == "Eins zwei."
    table = corpus_of("covost2", talks, tmp_path / "covost2")
    path = tmp_path / "covost2" / TABLE
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert table.talks(SPLIT)[1].segments[0].targets["de"].text == "Zwei."


@pytest.mark.parametrize("form", ["mustc", "europarl_st", "covost2", "fleurs", "folder", "lhotse"])
@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\u2029", "\x0b", "\x0c", "\x1c"])
def test_marks_inside_a_text_end_no_line(
    form: str, mark: str, talks: list[Talk], tmp_path: Path
) -> None:
    text = f"Eins{mark}zwei."
    segments = tuple(
        Segment(one.offset, one.duration, text, targets={"de": Target(text)})
        for one in talks[0].segments[: 1 if form in ("covost2", "fleurs") else 3]
    )
    marked = [Talk(talk.name, talk.audio, 4.0, "en", segments) for talk in talks]
    corpus = (SENTENCES | WHOLE)[form](marked, tmp_path / "corpus")
    for talk in corpus.talks(SPLIT):
        assert [one.source for one in talk.segments] == ["Eins zwei."] * len(segments)
        assert {one.targets["de"].text for one in talk.segments} == {"Eins zwei."}


def test_segments_that_overlap_in_part_are_used_and_named(
    talks: list[Talk], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = corpus_of("mustc", talks, tmp_path)
    line(YAML, 2, yaml_item(1.0, 1.0))(tmp_path)
    assert len(corpus.talks(SPLIT)[0].segments) == 3
    [record] = caplog.records
    assert "1 segments overlap the one before, first" in record.getMessage()
    assert "yaml, line 1 and" in record.getMessage()


@pytest.mark.parametrize("form", ["mustc", "folder", "europarl_st"])
def test_films_are_decoded_once(form: str, talks: list[Talk], tmp_path: Path) -> None:
    corpus = corpus_of(form, talks, tmp_path / "corpus")
    expected = corpus.talks(SPLIT)
    for wav in (tmp_path / "corpus").rglob("a.wav"):
        to_film(wav, ".m4a")
    made = set()
    for _ in range(2):
        first, second = corpus.talks(SPLIT)
        assert first.file.parent.name.startswith("decoded-")
        assert replace(first, audio=expected[0].audio) == expected[0]
        assert second == expected[1]
        made.add((first.file, first.file.stat().st_mtime_ns))
    assert len(made) == 1
