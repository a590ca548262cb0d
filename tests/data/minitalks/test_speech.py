"""Speech is the same every time, and its word and phoneme times are plausible."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from zoo.base.errors import ZooError
from zoo.base.espeak.speech import Speaker, Utterance
from zoo.base.talks import Word

TEXT = 'Yesterday, the old "farmer" waited in the garden; did twenty-one women see Anna?'
WORDS = TEXT.split()


@pytest.fixture(scope="module")
def speaker() -> Iterator[Speaker]:
    with Speaker() as speaker:
        yield speaker


def speak(
    speaker: Speaker, words: Sequence[str] = WORDS, *, voice: str = "en-us+f2", seed: int = 1
) -> Utterance:
    return speaker.speak(words, voice=voice, rate=170, pitch=50, seed=seed)


def same(one: Utterance, other: Utterance) -> bool:
    return one.samples.tobytes() == other.samples.tobytes() and one.words == other.words


def test_equal_arguments_give_equal_bytes_after_any_earlier_synthesis(speaker: Speaker) -> None:
    first = speak(speaker)
    speak(speaker, ["Hello."], voice="en-us+m3", seed=2)
    again = speak(speaker)
    with Speaker() as other:
        elsewhere = speak(other)
    assert same(first, again)
    assert same(first, elsewhere)


def test_voice_and_rate_matter(speaker: Speaker) -> None:
    slow = speaker.speak(WORDS, voice="en-us", rate=150, pitch=50, seed=1)
    fast = speaker.speak(WORDS, voice="en-us", rate=200, pitch=50, seed=1)
    assert len(slow.samples) > 1.1 * len(fast.samples)
    assert not same(fast, speaker.speak(WORDS, voice="en-us+m3", rate=200, pitch=50, seed=1))


def monotone(words: Sequence[Word], end: float) -> bool:
    edges = [edge for word in words for edge in (word.start, word.end)]
    return edges == sorted(edges) and edges[0] >= 0 and edges[-1] <= end + 0.001


def test_word_times(speaker: Speaker) -> None:
    spoken = speak(speaker)
    end = len(spoken.samples) / 16_000
    assert [word.text for word in spoken.words] == WORDS
    assert monotone(spoken.words, end)
    assert all(0.04 < word.end - word.start < 1.0 for word in spoken.words)
    assert spoken.words[0].start == 0
    assert end - 0.2 < spoken.words[-1].end  # this voice has an echo of 0.14 s
    by_text = {word.text: word for word in spoken.words}
    # the pause at the semicolon belongs to no word
    assert by_text["did"].start - by_text["garden;"].end > 0.1
    assert (
        by_text["twenty-one"].end - by_text["twenty-one"].start
        > by_text["did"].end - by_text["did"].start
    )


def test_merged_article_shares_the_time_of_the_preposition(speaker: Speaker) -> None:
    spoken = speak(speaker)
    assert spoken.missing == 1
    start = WORDS.index("in")
    preposition, article, noun = spoken.words[start : start + 3]
    assert preposition.end == article.start
    assert article.end == pytest.approx(noun.start, abs=0.002)


def test_phonemes(speaker: Speaker) -> None:
    spoken = speak(speaker, ["Good", "cats."])
    assert [phoneme.text for phoneme in spoken.phonemes] == ["g", "U", "d", "k", "a", "t", "s"]
    assert monotone(spoken.phonemes, len(spoken.samples) / 16_000)


def test_samples_are_speech_without_trailing_silence(speaker: Speaker) -> None:
    samples = speak(speaker).samples
    assert samples.dtype == np.float32
    assert 0.3 < np.abs(samples).max() <= 1.1
    assert np.abs(samples[-160:]).max() > 0.005


def test_refusals(speaker: Speaker) -> None:
    with pytest.raises(ZooError, match="rejected voice 'xx'"):
        speak(speaker, voice="xx")
    with pytest.raises(ZooError, match="returned silence"):
        speak(speaker, ["..."])
    assert speak(speaker, ["Still", "here."]).words[1].text == "here."


def test_pitch_range_zero_is_monotonous(speaker: Speaker) -> None:
    def sway(pitch_range: int) -> float:
        """Spread of the period (samples) over the vowels: autocorrelation peaks, 40 ms windows."""
        text = ["Anna,", "Maria,", "Paul", "und", "Julia?"]
        spoken = speaker.speak(
            text, voice="de", rate=165, pitch=60, seed=1, pitch_range=pitch_range
        ).samples
        periods = []
        for window in np.lib.stride_tricks.sliding_window_view(spoken, 640)[::320]:
            scores = np.correlate(window, window, "full")[640:] / max(float(window @ window), 1e-9)
            if scores[100:240].max() > 0.7:
                periods.append(100 + int(scores[100:240].argmax()))
        return float(np.percentile(periods, 90) - np.percentile(periods, 10))

    assert sway(0) <= 3
    assert sway(80) > 10
