"""Ends of sentences, and truncation of segments by their transcripts."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from zoo.base.languages import language
from zoo.policies.truncation import (
    SentenceDetector,
    is_silence,
    letters,
    paper_truncation,
    released_truncation,
)

ENGLISH = SentenceDetector(language("en"))
CHINESE = SentenceDetector(language("zh"))


def parts(text: str, code: str = "en") -> list[str]:
    """The complete sentences of a text and what follows them."""
    bounds = [0, *SentenceDetector(language(code)).ends(text), len(text)]
    return [text[begin:end].strip() for begin, end in pairwise(bounds)]


@pytest.mark.parametrize("mark", [".", "?", "!", ";", "...", "?!", '."', ".)"])
def test_strong_punctuation_ends_a_sentence(mark: str) -> None:
    assert parts(f"He left{mark} She stayed") == [f"He left{mark}", "She stayed"]


@pytest.mark.parametrize("mark", [",", ":", " -", ""])
def test_weak_punctuation_ends_no_sentence(mark: str) -> None:
    assert parts(f"He left{mark} she stayed") == [f"He left{mark} she stayed"]


@pytest.mark.parametrize("mark", ["。", "？", "！", "；", "。”"])
def test_chinese_punctuation_ends_a_sentence_without_a_space(mark: str) -> None:
    assert parts(f"他走了{mark}她留下", "zh") == [f"他走了{mark}", "她留下"]
    assert parts("他走了，她留下", "zh") == ["他走了，她留下"]
    assert parts("他走了.她留下", "zh") == ["他走了.", "她留下"]


@pytest.mark.parametrize(
    "text",
    [
        "It took 3.5 years",
        "See example.com for more",
        "I met mr. Smith",
        "I met Dr. Smith and Mrs. Jones",
        "The U.S. economy, e.g. trade",
        "By J. R. Smith",
    ],
)
def test_decimals_names_and_abbreviations_end_no_sentence(text: str) -> None:
    assert parts(text) == [text]
    assert parts(f"{text}. Then") == [f"{text}.", "Then"]


def test_what_is_an_abbreviation_depends_on_the_language() -> None:
    assert parts("Am 3. Mai kam z.B. Hr. Meier", "de") == ["Am 3. Mai kam z.B. Hr. Meier"]
    assert parts("Er kam 1995. Dann", "de") == ["Er kam 1995.", "Dann"]
    assert parts("I have 3. You", "en") == ["I have 3.", "You"]
    assert parts("M. Dupont et Mme. Petit", "fr") == ["M. Dupont et Mme. Petit"]
    assert parts("J'ai raté mon vol. Dommage", "fr") == ["J'ai raté mon vol.", "Dommage"]
    assert parts("Я сказал им. Да", "ru") == ["Я сказал им.", "Да"]
    assert parts("So did I. You", "en") == ["So did I.", "You"]
    assert SentenceDetector(language("en"), ["Fig."]).ends("In fig. 2") == []
    assert ENGLISH.ends("In fig. 2") == [7]


def test_a_complete_text_ends_in_a_sentence_end() -> None:
    assert ENGLISH.is_complete("He left.")
    assert ENGLISH.is_complete('Yes. "He left!" ')
    for text in ("", ".", "He left", "He left. She", "I met Dr."):
        assert not ENGLISH.is_complete(text)


def test_letters_are_all_that_is_compared() -> None:
    assert letters("He's LEFT, in 3.5 s.") == "hesleftin35s"
    assert letters("...") == ""


FOLLOWED = [
    ("He left.", "He left. She"),
    ("He left.", "he left; She stayed."),  # case and mark were revised
    ("Well he left.", "Well, he left. She"),  # and punctuation within
    ("Yes. He left.", "Yes. He left. She"),
    ("Yes. He left.", "Yes, he left. She"),
]
NOT_FOLLOWED = [
    ("He left.", "He left."),  # nothing new
    ("He left", "He left. She"),  # no end yet
    ("He left.", "He left"),
    ("He left.", "He left, she"),  # it was no end
    ("He left.", "He left home. She"),  # nor here
    ("It costs 3.", "It costs 3.5 euros"),
    ("I met Mr.", "I met Mr. Smith"),
    ("He left.", "She left. He"),  # other words
    ("He left.", 'He left." '),
    ("He left.", ""),
    (".", ". She"),
]


@pytest.mark.parametrize(("older", "newer"), FOLLOWED)
def test_a_complete_sentence_that_another_one_follows(older: str, newer: str) -> None:
    assert ENGLISH.begins_next(newer, older)


@pytest.mark.parametrize(("older", "newer"), NOT_FOLLOWED)
def test_what_is_not_complete_or_not_followed(older: str, newer: str) -> None:
    assert not ENGLISH.begins_next(newer, older)


def test_chinese_sentences_follow_each_other() -> None:
    assert CHINESE.begins_next("我喜欢苹果。你", "我喜欢，苹果。")
    assert not CHINESE.begins_next("我喜欢苹果和梨。你", "我喜欢苹果。")
    assert not CHINESE.begins_next("我喜欢苹果，你", "我喜欢苹果。")


def test_the_relaxed_test_counts_sentence_ends_only() -> None:
    assert ENGLISH.begins_next_relaxed("She left. He", "He left.")
    assert ENGLISH.begins_next_relaxed("He left home. She", "He left.")
    assert not ENGLISH.begins_next_relaxed("He left, she", "He left.")  # fewer ends
    assert not ENGLISH.begins_next_relaxed("She left.", "He left.")  # ends in one
    assert not ENGLISH.begins_next_relaxed("He left. She", "He left")  # the older is not complete


def paper(*texts: str, relaxed: bool = False) -> int | None:
    """Index of the transcript that is finished and cut after."""
    found = paper_truncation(texts, ENGLISH, relaxed=relaxed)
    assert found is None or found.chunk == found.transcript
    return found and found.chunk


def released(*texts: str) -> tuple[int, int] | None:
    """Indices of the chunk and of the transcript."""
    found = released_truncation(texts)
    return found and (found.chunk, found.transcript)


def test_three_equal_hypotheses_are_silence() -> None:
    assert is_silence(["b", "a", "a", "a"])
    assert not is_silence(["a", "a"])
    assert not is_silence(["a", "a", "b"])
    assert paper("A b", "A b") is None
    assert paper("A b", "A b", "A b") == paper("A b.", "A b.", "A b.") == paper("", "", "") == -1
    assert paper("A b", "a b", "A b") is None  # as they are; the released code lowers them
    assert released("A b", "a b", "A b") == (-2, -2)  # and keeps the newest chunk


def test_the_papers_form_cuts_after_a_complete_hypothesis_one_or_two_chunks_back() -> None:
    assert paper("A b.", "A b. C") == -2
    assert paper("A", "A b.", "A b. C") == -2
    assert paper("A b.", "A b", "A b. C") == -3
    assert paper("A b.", "A b.", "A b. C") == -2  # the later one
    assert paper("A b.", "A b", "A b", "A b. C") is None  # three back is too late
    assert paper("A", "A b", "A b. C") is None  # no transcript ended with the sentence
    assert paper("A b. C") is None
    assert paper() is None


def test_relaxed_adds_revised_sentences_and_takes_nothing_away() -> None:
    assert paper("A b.", "A d. C") is None
    assert paper("A b.", "A d. C", relaxed=True) == -2
    assert paper("A b.", "A b. C.") == paper("A b.", "A b. C.", relaxed=True) == -2
    assert paper("A b.", "A d. See.", relaxed=True) is None


def test_the_released_form_cuts_one_look_late_or_one_look_early() -> None:
    """After the second of three, with words of the next sentence, or after the first of them."""
    assert released("A", "A b. C", "A b. C d") == (-2, -2)
    assert released("A b", "A b.", "A b.") is None  # the mark itself is no other text
    assert released("A b", "A b.", "A b. C") == (-3, -3)  # so the full stop is translated later
    assert released("A", "A b", "A b. C") == (-3, -3)
    assert released("A b", "a B.", "A b. c") == (-3, -3)
    assert released("A", "A b. C") is None  # two transcripts do not suffice
    assert released("A", "D b", "A b. C") is None  # other words
    assert released("x", "A b", "well A b. C") == (-3, -3)  # anywhere in the next one
    assert released("A b. C", "A b. C d", "A b. C d e") is None  # too late
    assert released("A", "A b", "A b: C") == (-3, -3)
    assert paper("A", "A b:", "A b: C") is None
    assert released("It", "It took", "It took 3.5 years") == (-3, -3)
    assert released("Mr", "Mr. Smith", "Mr. Smith said") == (-2, -2)


def test_the_released_form_leaves_empty_transcripts_out_but_counts_their_chunks() -> None:
    assert released("A", "", "A", "", "A") == (-2, -3)
    assert released("A", "A b", "", "A b. C") == (-3, -4)
    assert released("A", "A", "A", "") is None
    assert released("", "", "") is None
    assert paper("", "", "") == -1


def restated(transcripts: Sequence[str]) -> tuple[int, str] | None:
    """The released rules over a queue of three: chunks that are kept, text that is finished.

    The code returns a number for each condition and keeps three chunks less this number.
    """
    queue = [text.lower() for text in transcripts if text][-3:]
    if transcripts[-1] == "" or len(queue) != 3:
        return None

    def has_more(text: str) -> bool:
        marks = [place for place, character in enumerate(text) if character in ".?!;:"]
        return any(character not in " .?!;:" for place in marks[:1] for character in text[place:])

    number = 0
    for place in (1, 0):
        pair = queue[place : place + 2]
        if pair[0] in pair[1] and [has_more(text) for text in pair] == [False, True]:
            number = len(queue) - 1 - place
    if len(set(queue)) == 1:
        number = 2
    return (3 - number, queue[number - 1]) if number else None


def test_the_released_form_follows_the_released_rules() -> None:
    """On transcripts that grow, stop, are revised, and are sometimes empty."""
    random = Random(0)
    cuts = Counter[int]()
    for _ in range(5000):
        transcripts, text = list[str](), ""
        for _ in range(random.randint(1, 6)):
            for _ in range(random.choice([0, 0, 1, 2])):
                text += random.choice(["a", "B", "c.", "d,", "3.5", "e?!", 'f."', ". ", ": ", " "])
            text = random.choice([text] * 6 + [text.upper(), text[1:]])
            transcripts.append(random.choice([text.strip()] * 7 + [""]))
        expected = restated(transcripts)
        found = released_truncation(transcripts)
        if expected is None:
            assert found is None, transcripts
            continue
        kept, finished = expected
        assert found is not None, transcripts
        assert found.chunk == -1 - kept, transcripts
        assert transcripts[found.transcript].lower() == finished, transcripts
        cuts[kept] += len(set(transcripts)) > 1
    assert min(cuts[1], cuts[2]) > 100
