"""Labels of transcripts: what is normalised, left out and replaced by a wildcard."""

from zoo.alignment.times.letters import Letters

UPPER = Letters({letter: place for place, letter in enumerate("ABCDEOSUZ'", 3)}, 2, 99)
LOWER = Letters({letter: place for place, letter in enumerate("abcdeosuzß", 3)}, None, 99)


def text(letters: Letters, word: str) -> str:
    names = {token: letter for letter, token in letters.vocabulary.items()}
    return "".join(names[token] for token in letters.spelled(word))


def test_words_are_spelled_in_the_case_of_the_vocabulary_without_punctuation() -> None:
    assert text(UPPER, "“Cab,”") == "CAB"
    assert text(LOWER, "Cab-Bed!") == "cabbed"


def test_accents_and_ligatures_are_kept_where_the_vocabulary_has_them() -> None:
    assert text(UPPER, "déçu") == "DECU"
    assert text(LOWER, "ß") == "ß"
    assert text(UPPER, "ß") == "SS"
    assert text(UPPER, "b’s") == "B'S"


def test_a_word_with_an_unknown_letter_or_digit_is_not_spelled() -> None:
    assert UPPER.spelled("BE5") == []
    assert UPPER.spelled("½") == []
    assert UPPER.spelled("大") == []


def test_labels_name_their_words_and_leave_out_words_without_letters() -> None:
    labels = UPPER.labels(["Be", "–", "12", "a."])
    assert labels.tokens == (*UPPER.spelled("BE"), 2, 99, 2, *UPPER.spelled("A"))
    assert labels.owners == (0, 0, None, 2, None, 3)


def test_without_a_delimiter_words_follow_one_another() -> None:
    assert LOWER.labels(["be", "a"]).owners == (0, 0, 1)
