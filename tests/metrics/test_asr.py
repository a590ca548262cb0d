"""ASR scores with a recogniser that is a lookup table, on cases computed by hand."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor
from torchmetrics.functional.text import char_error_rate, word_error_rate

from zoo.base.errors import ZooError
from zoo.base.languages import Language, language
from zoo.base.types import SAMPLE_RATE, Instance, SpeechOutput
from zoo.metrics.asr import (
    Normaliser,
    recogniser_errors,
    score_transcripts,
    speech_errors,
)
from zoo.metrics.quality import ErrorRate
from zoo.metrics.speech_pieces import split_speech
from zoo.metrics.spoken_words import recognise_speech
from zoo.metrics.sums import merge

DE, EN, ZH = language("de"), language("en"), language("zh")


class Table:
    """Returns the word of the amplitude of each half second of audio."""

    name = "table"

    def __init__(self, *words: str) -> None:
        self.words = words
        self.asked: list[int] = []

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        self.asked.append(len(waves))
        return [
            " ".join(
                self.words[round(float(level)) - 1] for level in wave[wave > 0][:: SAMPLE_RATE // 2]
            )
            for wave in waves
        ]


def spoken_talk(*parts: tuple[float, str], target: Language = DE) -> Instance:
    """A waveform per (delay, text): 0.5 s per word; level: the word's number in the talk."""
    speech: list[SpeechOutput] = []
    number = 0
    for delay, text in parts:
        levels = [number + word + 1 for word in range(max(1, len(target.units(text))))]
        number += len(levels)
        samples = torch.tensor(levels, dtype=torch.float32).repeat_interleave(SAMPLE_RATE // 2)
        speech.append(SpeechOutput(samples, delay, delay, 0, text))
    text = target.join(text for _, text in parts)
    return Instance(
        0,
        "talk",
        9.0,
        text,
        tuple(target.units(text)),
        (),
        (),
        unit=target.unit,
        speech=tuple(speech),
    )


def lengths(instance: Instance, longest: float, target: Language = DE) -> list[float]:
    """Seconds of each piece; together, in order, all speech; speech at both ends of each."""
    pieces = split_speech(instance, language=target, longest=longest)
    waves = [piece.samples for piece in pieces]
    together = torch.cat(waves)
    assert torch.equal(
        together[together > 0], torch.cat([spoken.samples for spoken in instance.speech])
    )
    assert all(wave[0] > 0 and wave[-1] > 0 for wave in waves)
    return [wave.numel() / SAMPLE_RATE for wave in waves]


def test_pieces_end_at_gaps_where_they_can() -> None:
    # 1.0-2.0, gap, 3.0-4.0, at once 4.0-5.0, at once 5.0-5.5
    talk = spoken_talk((1.0, "a b"), (3.0, "c d"), (3.5, "e f"), (4.0, "g"))
    assert lengths(talk, 10.0) == [3.7], "0.2 s of the gap are kept"
    assert lengths(talk, 3.7) == [3.7]
    assert lengths(talk, 3.6) == [1.0, 2.5], "which count"
    assert lengths(talk, 3.0) == [1.0, 2.5], "at the gap, though more would fit"
    assert lengths(talk, 2.0) == [1.0, 2.0, 0.5], "then between two words, as late as possible"
    assert lengths(talk, 0.3) == [1.0, 1.0, 1.0, 0.5], "a stretch is never cut"
    assert split_speech(spoken_talk(), language=DE) == []
    assert lengths(spoken_talk((1.0, "a"), (1.6, "b")), 9.0) == [1.1], "a shorter gap as it is"


def test_a_gap_inside_a_word_is_no_pause() -> None:
    talk = spoken_talk((1.0, "a"), (3.0, "Haus"), (5.0, "tür"))
    assert lengths(talk, 1.25) == [1.2, 0.5]
    assert lengths(replace(talk, text="a Haustür"), 1.25) == [0.5, 1.2]
    assert lengths(spoken_talk((1.0, "你"), (3.0, "好"), (5.0, "吗"), target=ZH), 1.25, ZH) == [
        1.2,
        0.5,
    ]


def test_audio_is_encoded_piece_by_piece() -> None:
    recogniser = Table("Eins", "zwei", "drei")
    talk = spoken_talk((1.0, "eins zwei"), (3.0, "drei"))
    spoken = recognise_speech(talk, recogniser, language=DE)
    assert spoken.text == "Eins zwei drei"
    assert spoken.words is None, "this recogniser has no times"
    assert recognise_speech(spoken_talk(), recogniser, language=DE).text == ""
    assert recogniser.asked == [1], "silence is not transcribed"


def test_asr_bleu_is_normalised_and_resegmented() -> None:
    transcripts = ["das ist ein haus und das ist keine katze"]
    references = [["Das ist ein Haus.", "Und das ist (leider) eine Katze!"]]
    scores = score_transcripts(transcripts, references, language=DE, recogniser="table")
    expected = BLEU().corpus_score(
        ["das ist ein haus", "und das ist keine katze"],
        [["das ist ein haus", "und das ist eine katze"]],
    )
    assert scores["ASR_BLEU"].value == pytest.approx(expected.score)
    assert 0 < expected.score < 100
    whole = BLEU().corpus_score(transcripts, [["das ist ein haus und das ist eine katze"]])
    assert scores["ASR_DocBLEU"].value == pytest.approx(whole.score)
    assert set(scores) == {"ASR_BLEU", "ASR_chrF", "ASR_DocBLEU"}
    signature = scores["ASR_BLEU"].signature
    assert "|tok:13a|" in signature
    assert "|asr:table|normalizer:whisper-basic|reseg:mwer(" in signature
    assert "reseg" not in scores["ASR_DocBLEU"].signature


def test_a_stream_with_one_reference_needs_no_cut() -> None:
    scores = score_transcripts(["eins zwei"], [["Eins, zwei."]], language=DE, recogniser="table")
    assert scores["ASR_chrF"].value == pytest.approx(100)
    assert "reseg" not in scores["ASR_BLEU"].signature


def test_silence_scores_zero_and_a_reference_of_noises_does_not_break_it() -> None:
    scores = score_transcripts(
        ["", "eins"], [["Eins.", "Zwei."], ["(Beifall)", "Eins."]], language=DE, recogniser="table"
    )
    assert scores["ASR_BLEU"].value == 0.0
    assert scores["ASR_chrF"].value is not None
    with pytest.raises(ZooError, match="1 transcripts but references for 0"):
        score_transcripts(["a"], [], language=DE, recogniser="table")


def test_chinese_is_cut_and_counted_in_characters() -> None:
    scores = score_transcripts(
        ["你好世界我们走吧"], [["你好，世界！", "我们走吧。"]], language=ZH, recogniser="table"
    )
    assert scores["ASR_BLEU"].value == pytest.approx(100)
    assert "tok:zh" in scores["ASR_BLEU"].signature
    errors = speech_errors(["你好世间"], ["你好，世界。"], language=ZH, recogniser="table")
    assert errors["SpeechWER"].value == errors["SpeechCER"].value == 25.0


def test_normaliser_is_whispers() -> None:
    assert (
        Normaliser.of(DE).text("„Grüße“, sagt [lacht] Anne-Marie (leise) — 3 %.")
        == "grüße sagt anne marie 3"
    )
    english = Normaliser.of(EN)
    assert (
        english.text("I won't pay twenty dollars, Mr. Smith!") == "i will not pay $20 mister smith"
    )
    assert english.name == "whisper-english"
    assert Normaliser.of(ZH).words("你 好，AI。", ZH) == ["你", "好", "a", "i"]


def test_errors_of_speech_by_hand() -> None:
    # 1 of 5 words wrong in the first, all of the second has no speech
    scores = speech_errors(
        ["das ist der haus ja", ""], ["Das ist das Haus, ja.", "Nein."], language=DE, recogniser="t"
    )
    assert scores["SpeechWER"].value == pytest.approx(100 * 2 / 6)
    # "der" for "das": 2 of 19 characters; "nein": 4 of 4
    assert scores["SpeechCER"].value == pytest.approx(100 * 6 / 23)
    assert scores["SpeechWER"].signature.startswith(
        "SpeechWER|unit:word|asr:t|normalizer:whisper-basic|simulzoo"
    )
    own = recogniser_errors(
        ["eins zwo", "beifall"],
        ["Eins, zwei.", "(Beifall)"],
        language=DE,
        recogniser="/some/where/small_de",
    )
    assert own["ASR_WER"].value == 50.0
    assert "|asr:small_de|" in own["ASR_WER"].signature
    assert speech_errors(["ja"], ["!"], language=DE, recogniser="t")["SpeechWER"].value is None


def test_edits_are_those_of_torchmetrics() -> None:
    draw = torch.Generator().manual_seed(0)
    for _ in range(60):
        texts = []
        for _ in range(2):
            letters = torch.randint(
                0, 4, (int(torch.randint(0, 12, (1,), generator=draw)),), generator=draw
            )
            texts.append(" ".join("abcd"[letter] for letter in letters.tolist()))
        hypothesis, reference = texts
        if reference:
            words, characters = ErrorRate(), ErrorRate()
            words.update(hypothesis.split(), reference.split())
            characters.update(list(hypothesis), list(reference))
            assert float(words.compute()) == pytest.approx(
                100 * float(word_error_rate([hypothesis], [reference]))
            )
            assert float(characters.compute()) == pytest.approx(
                100 * float(char_error_rate([hypothesis], [reference]))
            )


@pytest.mark.parametrize(
    ("hypothesis", "reference", "percent"), [("", "abc", 100), ("kitten", "sitting", 300 / 7)]
)
def test_error_rates_by_hand(hypothesis: str, reference: str, percent: float) -> None:
    metric = ErrorRate()
    metric.update(list(hypothesis), list(reference))
    assert float(metric.compute()) == pytest.approx(percent)


def test_error_rates_of_two_ranks_add_up() -> None:
    first, second = ErrorRate(), ErrorRate()
    first.update(["a"], ["a", "b", "c"])
    second.update(["x"], ["y"])
    merge(first, second)
    assert float(first.compute()) == 75.0
