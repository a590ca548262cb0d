"""Times of recognised words: of frames by hand, of Whisper's attention, and in pieces."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.fixtures import tiny_checkpoints
from zoo.alignment.recognisers.base import TimedRecogniser
from zoo.alignment.recognisers.named import NamedRecogniser
from zoo.alignment.recognisers.word_times import FrameTiming
from zoo.backbones.ctc.spelling import character_tokenizer
from zoo.base.languages import language
from zoo.base.talks import Word
from zoo.base.types import SAMPLE_RATE


def wave(seconds: float, seed: int = 0) -> Tensor:
    return 0.1 * torch.randn(
        round(seconds * SAMPLE_RATE), generator=torch.Generator().manual_seed(seed)
    )


def loaded(folder: Path, **options: object) -> NamedRecogniser:
    recogniser = NamedRecogniser(name=str(folder), **options)  # type: ignore[arg-type]
    recogniser.load()
    return recogniser


def timed(code: str, spelled: str) -> tuple[str, tuple[Word, ...] | None]:
    """Text and words of a path; frames of 0.5 s, _ is the blank and | ends a word."""
    tokenizer = character_tokenizer("abc")
    labels = {**tokenizer.get_vocab(), "_": tokenizer.pad_token_id}
    path = torch.tensor([labels[letter] for letter in spelled])
    text = tokenizer.decode(path.tolist())
    timing = FrameTiming(tokenizer, language(code), 0.5)
    [words] = timing.words([wave(0.5 * len(spelled))], [text], [path])
    return text, words


def test_words_of_a_path_last_from_their_first_to_their_last_frame() -> None:
    text, words = timed("de", "_aa_ab__||c_")
    assert text == "aab c"
    assert words == (Word("aab", 0.5, 3.0), Word("c", 5.0, 5.5))
    assert timed("de", "____") == ("", ())


def test_a_language_without_spaces_has_a_time_for_each_character() -> None:
    text, words = timed("zh", "_ab_|c")
    assert text == "ab c"
    assert words == (Word("a", 0.5, 1.0), Word("b", 1.0, 1.5), Word("c", 2.5, 3.0))


@pytest.mark.parametrize("kind", ["masked", "unmasked", "bert", "whisper"])
def test_the_text_is_that_of_a_transcript(kind: str, request: pytest.FixtureRequest) -> None:
    options = {"language": "de"} if kind == "whisper" else {}
    recogniser = loaded(request.getfixturevalue(kind), piece_seconds=1, **options)
    assert isinstance(recogniser, TimedRecogniser)
    waves = [wave(0.7), wave(2.6, 1), torch.zeros(SAMPLE_RATE), torch.zeros(0)]
    found = recogniser.recognise(waves)
    assert [one.text for one in found] == recogniser.transcribe(waves)
    assert found[2].words == found[3].words == ()
    for one, samples in zip(found[:2], waves, strict=False):
        assert one.words is not None
        assert " ".join(word.text for word in one.words).split() == one.text.split()
        times = [time for word in one.words for time in (word.start, word.end)]
        assert times == sorted(times)
        assert 0 <= times[0] <= times[-1] <= len(samples) / SAMPLE_RATE
    second = found[1].words
    assert second is not None
    assert second[-1].end > 1  # in a piece after the first one


def test_models_without_times_have_none(tmp_path: Path) -> None:
    pytest.importorskip("transformers", minversion="5.23")
    tiny_checkpoints.canary(tmp_path, positions=32)
    recogniser = loaded(tmp_path, language="de")
    [found] = recogniser.recognise([wave(1.0)])
    assert found.words is None
    assert [found.text] == recogniser.transcribe([wave(1.0)])
