"""Text from token ids: nothing lost, nothing half, spaces where a language has them."""

from collections.abc import Callable

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from zoo.streaming.text import Revision, TextStream

Decoder = Callable[[list[int]], str]


def sentencepiece(*pieces: str) -> Decoder:
    """A decoder that strips the first space, as sentencepiece does."""
    return lambda ids: "".join(pieces[id_] for id_ in ids).replace("▁", " ").removeprefix(" ")


def utf8(ids: list[int]) -> str:
    """A byte-level decoder: an id is a byte."""
    return bytes(ids).decode("utf-8", errors="replace")


def byte_fallback(ids: list[int]) -> str:
    """Sentencepiece's byte fallback: each byte of an incomplete character prints its own mark."""
    text = ""
    while ids:
        for size in range(len(ids), 0, -1):
            try:
                text, ids = text + bytes(ids[:size]).decode(), ids[size:]
                break
            except UnicodeDecodeError:
                continue
        else:
            text, ids = text + "\ufffd", ids[1:]
    return text


def pushes(stream: TextStream, *pieces: list[int], fresh: int = 0) -> list[str]:
    """Push piece after piece; only the one at ``fresh`` begins a text."""
    return [
        stream.push(torch.tensor(ids, dtype=torch.long), fresh=at == fresh)
        for at, ids in enumerate(pieces)
    ]


def test_spaces_between_pieces_survive_a_decoder_that_strips_the_first() -> None:
    decode = sentencepiece("▁Hal", "lo", "▁Welt", "▁", "!", "▁und")
    assert pushes(TextStream(decode=decode, separator=" "), [0], [1, 2], [4, 5]) == [
        "Hal",
        "lo Welt",
        "! und",
    ]


def test_a_long_text_decodes_a_bounded_context() -> None:
    longest = 0

    def decode(ids: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return "".join(f" {id_}" for id_ in ids).removeprefix(" ")

    stream = TextStream(decode=decode, separator=" ")
    text = "".join(pushes(stream, *([id_] for id_ in range(100))))
    assert text == " ".join(map(str, range(100)))
    assert longest < 10


def test_ids_without_text_do_not_swallow_the_space_that_follows() -> None:
    decode = sentencepiece("▁Hallo", "", "▁Welt")
    assert (
        "".join(pushes(TextStream(decode=decode, separator=" "), [0], [1] * 9, [2])) == "Hallo Welt"
    )


@pytest.mark.parametrize(
    ("separator", "expected"), [(" ", ["Hallo", " Welt"]), ("", ["Hallo", "Welt"])]
)
def test_a_fresh_text_is_joined_by_the_separator(separator: str, expected: list[str]) -> None:
    stream = TextStream(decode=sentencepiece("▁Hallo", "▁Welt"), separator=separator)
    assert [stream.push(torch.tensor([id_]), fresh=True) for id_ in (0, 1)] == expected


def test_a_fresh_text_that_begins_with_a_lone_space_is_still_joined_once() -> None:
    stream = TextStream(
        decode=lambda ids: "".join([" ", "Hallo", "Welt"][id_] for id_ in ids), separator=" "
    )
    assert [stream.push(torch.tensor(ids), fresh=True) for ids in ([0], [0, 1], [0])] == [
        "",
        "Hallo",
        "",
    ]
    assert stream.push(torch.tensor([2]), fresh=False) == " Welt"


@pytest.mark.parametrize("decode", [utf8, byte_fallback])
def test_a_character_comes_out_when_its_last_byte_is_written(decode: Decoder) -> None:
    stream = TextStream(decode=decode, separator="")
    pieces = [[byte] for byte in "你a好".encode()]
    assert pushes(stream, *pieces) == ["", "", "你", "a", "", "", "好"]


@pytest.mark.parametrize("decode", [utf8, byte_fallback])
def test_whole_characters_before_an_unfinished_one_are_not_held_back(decode: Decoder) -> None:
    data = list("你好吗".encode())
    assert pushes(TextStream(decode=decode, separator=""), data[:7], data[7:]) == ["你好", "吗"]


def test_an_unfinished_character_is_lost_when_a_fresh_text_begins() -> None:
    data = list("你好".encode())
    stream = TextStream(decode=utf8, separator="")
    assert [stream.push(torch.tensor(ids), fresh=True) for ids in (data[:5], data[3:])] == [
        "你",
        "好",
    ]


def test_bytes_that_can_never_be_whole_are_dropped() -> None:
    data = list("你好".encode())
    assert pushes(TextStream(decode=utf8, separator=""), data[:5], data[3:]) == ["你", "好"]


def test_emoji_of_four_bytes_over_three_tokens() -> None:
    data = list("ok 🎉!".encode())
    assert pushes(TextStream(decode=utf8, separator=" "), data[:4], data[4:6], data[6:]) == [
        "ok ",
        "",
        "🎉!",
    ]


TEXTS = [
    "Der alte Mann liest, naja, ein Buch 🎉 im Garten.",
    "你好,世界!我们学习 AI 技术。",
    "  zwei  Leerzeichen\nund Zeilen",
]


def byte_level(texts: list[str]) -> Tokenizer:
    """A byte-level BPE with hardly any merges: most characters are several tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet)
    )
    return tokenizer


def metaspace(texts: list[str]) -> Tokenizer:
    """As sentencepiece with byte fallback: a sign for each space, bytes for unknown characters."""
    pieces = sorted(
        {character for text in texts for character in text if character.isascii()} | {"▁"}
    )
    vocabulary = {
        piece: index
        for index, piece in enumerate([*pieces, *(f"<0x{byte:02X}>" for byte in range(256))])
    }
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("train", [byte_level, metaspace])
def test_real_decoders_lose_nothing_however_the_tokens_are_split(
    train: Callable[[list[str]], Tokenizer], text: str
) -> None:
    tokenizer = train(TEXTS)
    ids = tokenizer.encode(text).ids
    whole = tokenizer.decode(ids).lstrip()
    assert whole.split() == text.split()
    for size in (1, 2, 3, 5, 8):
        pieces = [ids[start : start + size] for start in range(0, len(ids), size)]
        assert "".join(pushes(TextStream(decode=tokenizer.decode, separator=" "), *pieces)) == whole


def test_nothing_pushed_is_nothing_written() -> None:
    stream = TextStream(decode=utf8, separator=" ")
    assert pushes(stream, [], [], list(b"a")) == ["", "", "a"]


def revised(stream: TextStream, changes: list[tuple[int, list[int], bool]], *, words: bool) -> str:
    """The text on a screen after deletions and additions (delete, ids, fresh)."""
    screen = ""
    for delete, ids, fresh in changes:
        if fresh:
            stream.begin_text()
        revision = stream.revise(delete, torch.tensor(ids), words=words)
        screen = screen[: len(screen) - revision.retracted] + revision.text
    return screen


@pytest.mark.parametrize("words", [True, False])
def test_revised_ids_have_the_text_of_the_remaining_ids(words: bool) -> None:
    pieces = ("▁Gut", "en", "e", "▁Tag", "▁Abend", "▁du")
    changes = [(0, [0, 1, 3], True), (2, [2, 4], False), (1, [3], False), (0, [5], False)]
    stream = TextStream(decode=sentencepiece(*pieces), separator=" ")
    assert revised(stream, changes, words=words) == "Gute Tag du"
    # another text follows, all of which is replaced
    later = [(0, [3], True), (1, [4, 5], False)]
    assert revised(stream, later, words=words) == " Abend du"


def test_a_word_that_loses_characters_is_written_again() -> None:
    stream = TextStream(decode=sentencepiece("▁a", "▁Gut", "en", "e"), separator=" ")
    stream.revise(0, torch.tensor([0, 1, 2]), words=True)
    assert stream.revise(1, torch.tensor([3]), words=True) == Revision("Gute", 5)
    assert stream.revise(1, torch.tensor([2]), words=False) == Revision("n", 0)


def test_incomplete_characters_of_revised_ids_are_held_back() -> None:
    a, umlaut = list(b"a"), list("ä".encode())
    stream = TextStream(decode=utf8, separator=" ")
    changes = [(0, a + umlaut[:1], True), (0, umlaut[1:], False), (1, umlaut[1:] + a, False)]
    assert revised(stream, changes, words=False) == "aäa"
