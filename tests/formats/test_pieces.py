"""simulstream logs with the tokens of other tokenizers: the same words, at the same times."""

import json
from pathlib import Path
from typing import Any

import pytest

from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.types import Instance
from zoo.formats.logs import read_log
from zoo.formats.pieces import BYTES, PieceForm

TEXT = "Die Größe ist gut. Ja 😀"
CHARACTERS = {byte: character for character, byte in BYTES.items()}


def byte_level(text: str) -> str:
    """A text in the alphabet of byte-level BPE."""
    return "".join(CHARACTERS[byte] for byte in text.encode())


# Tokens of each form, in three chunks: "Die Grö", "ße ist gut." and "Ja" with an emoji.
FORMS: dict[str, list[list[str]]] = {
    "words": [["Die"], ["Größe", "ist", "gut."], ["Ja", "😀"]],
    "words and an end": [["Die"], ["Größe", "ist", "gut."], ["Ja", "😀", "</s>"]],
    "SentencePiece": [["▁Die", "▁Grö"], ["ße", "▁ist", "▁gut", "."], ["▁Ja", "▁", "😀"]],
    "SentencePiece with bytes": [
        ["▁Die", "▁Gr", "<0xC3>"],
        ["<0xB6>", "ße", "▁ist", "▁gut", "."],
        ["▁Ja", "▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"],
    ],
    "SentencePiece with languages and ends": [
        ["__deu__", "deu_Latn", "▁Die", "▁Grö"],
        ["ße", "▁ist", "▁gut", "."],
        ["▁Ja", "▁", "😀", "</s>"],
    ],
    "decoded pieces": [["Die", " Grö"], ["ße", " ist", " gut", "."], [" Ja", " 😀"]],
    "decoded pieces with spaces behind": [["Die ", "Grö"], ["ße ", "ist ", "gut."], [" Ja ", "😀"]],
    "lines": [["Die", " Grö"], ["ße", " ist", " gut", "."], ["\n", "Ja", " 😀", "<|im_end|>"]],
    "bytes": [
        [byte_level("Die"), byte_level(" Grö")],
        [byte_level("ße"), byte_level(" ist"), byte_level(" gut"), "."],
        [byte_level(" Ja"), byte_level(" 😀"), "<|endoftext|>"],
    ],
    "bytes of a character in two chunks": [
        [byte_level("Die"), byte_level(" Grö")[:-1]],
        [byte_level(" Grö")[-1], byte_level("ße"), byte_level(" ist"), byte_level(" gut.")],
        [byte_level(" Ja"), byte_level(" 😀")[:3], byte_level(" 😀")[3:]],
    ],
    "WordPiece": [["[CLS]", "Die", "Grö"], ["##ße", "ist", "gut", "##."], ["Ja", "😀", "[SEP]"]],
    "ends of words": [
        ["Die</w>", "Grö"],
        ["ße</w>", "ist</w>", "gut", ".</w>"],
        ["Ja</w>", "😀</w>"],
    ],
    "continued words": [["Die", "Grö@@"], ["ße", "ist", "gut@@", "."], ["Ja", "😀"]],
}


NAMES: dict[str, PieceForm] = {
    "words": "words",
    "SentencePiece with bytes": "sentencepiece",
    "lines": "text",
    "bytes": "byte_level",
    "WordPiece": "wordpiece",
    "ends of words": "end_of_word",
    "continued words": "continued",
}


def read(
    folder: Path,
    chunks: list[dict[str, Any]],
    code: str = "de",
    pieces: PieceForm | None = None,
) -> Instance:
    head = {"id": 0, "metadata": {"wav_name": "t.wav"}}
    rows = [
        {"id": 0, "total_audio_processed": at, "computation_time": 0.1, "deleted_tokens": [], **row}
        for at, row in enumerate(chunks, start=1)
    ]
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [head, *rows]))
    (stream,) = read_log(path, language=language(code), format="simulstream", pieces=pieces)
    return stream


@pytest.mark.parametrize("form", FORMS)
def test_tokens_are_joined_to_words(form: str, tmp_path: Path) -> None:
    stream = read(tmp_path, [{"generated_tokens": tokens} for tokens in FORMS[form]])
    assert stream.text == TEXT
    assert stream.units == tuple(TEXT.split())
    assert stream.delays == (1.0, 2.0, 2.0, 2.0, 3.0, 3.0)  # "Größe" ends in the second chunk


@pytest.mark.parametrize("form", NAMES)
def test_a_form_may_be_named(form: str, tmp_path: Path) -> None:
    chunks = [{"generated_tokens": tokens} for tokens in FORMS[form]]
    assert read(tmp_path, chunks, pieces=NAMES[form]).text == TEXT


@pytest.mark.parametrize(
    ("tokens", "recognised", "pieces", "text"),
    [
        (["Das", "Haus ", "ist"], "DasHaus ist", "words", "Das Haus ist"),
        (["Das", "##Haus", "ist"], "DasHaus ist", "words", "Das ##Haus ist"),
        (["Das", "Haus"], "Das Haus", "text", "DasHaus"),
        (["a@@", "b"], "ab", "words", "a@@ b"),
    ],
)
def test_a_name_takes_precedence(
    tokens: list[str], recognised: str, pieces: PieceForm, text: str, tmp_path: Path
) -> None:
    chunks = [{"generated_tokens": tokens}]
    assert read(tmp_path, chunks).units == tuple(recognised.split())
    assert read(tmp_path, chunks, pieces=pieces).units == tuple(text.split())


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ("byte_level", "token '😀' has characters"),
        ("sentencepiece", "system.pieces=sentencepiece does not fit: no token"),
        ("wordpiece", "no token of the log has its mark"),
        ("end_of_word", "no token of the log has its mark"),
        ("continued", "no token of the log has its mark"),
        ("bpe", "Unknown system.pieces 'bpe'"),
    ],
)
def test_a_form_that_the_tokens_do_not_have_is_refused(
    pieces: PieceForm, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ZooError, match=message):
        read(tmp_path, [{"generated_tokens": FORMS["words"][2]}], pieces=pieces)


@pytest.mark.parametrize("form", FORMS)
def test_tokens_are_deleted(form: str, tmp_path: Path) -> None:
    """The second chunk is written, deleted and written again in the third one."""
    first, second, third = FORMS[form]
    chunks = [
        {"generated_tokens": first},
        {"generated_tokens": second},
        {"generated_tokens": [*second, *third], "deleted_tokens": second},
    ]
    stream = read(tmp_path, chunks)
    assert stream.text == TEXT
    assert stream.delays == (1.0, 3.0, 3.0, 3.0, 3.0, 3.0)


CHINESE = {
    "characters": ["你", "好", "吗"],
    "bytes": [byte_level("你")[:2], byte_level("你")[2:], byte_level("好"), byte_level("吗")],
    "SentencePiece": ["▁", "你好", "吗", "</s>"],
}


@pytest.mark.parametrize("form", CHINESE)
def test_characters(form: str, tmp_path: Path) -> None:
    stream = read(tmp_path, [{"generated_tokens": CHINESE[form]}], "zh")
    assert (stream.text, stream.units) == ("你好吗", ("你", "好", "吗"))


@pytest.mark.parametrize(
    "words", [["Ġimgħa", "Ġdid"], ["Größe", "è", "Ã"], ["C#", "##"], ["a", "@"], ["<unk>", "x"]]
)
def test_words_with_marks_of_tokenizers_stay(words: list[str], tmp_path: Path) -> None:
    stream = read(tmp_path, [{"generated_tokens": words}])
    assert stream.units == tuple(words)


def test_indices_of_a_vocabulary_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="has only numbers as tokens"):
        read(tmp_path, [{"generated_tokens": ["17", "4", "2033", "9", "11"]}])
    assert read(tmp_path, [{"generated_tokens": ["17"]}]).text == "17"
