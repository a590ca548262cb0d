"""Long speech is cut in pauses, and nothing is lost."""

import pytest
import torch
from torch import Tensor

from zoo.alignment.recognisers.pauses import quietest_position, split_at_pauses
from zoo.base.types import SAMPLE_RATE


def bursts(spans: list[tuple[float, float]], seconds: float, *, floor: float = 0.0) -> Tensor:
    """Words are noise in the spans (seconds); between them lies fainter noise."""
    generator = torch.Generator().manual_seed(0)
    wave = floor * torch.randn(round(seconds * SAMPLE_RATE), generator=generator)
    for begin, end in spans:
        place = slice(round(begin * SAMPLE_RATE), round(end * SAMPLE_RATE))
        wave[place] = 0.1 * torch.randn(place.stop - place.start, generator=generator)
    return wave


def cuts(found: list[Tensor]) -> list[float]:
    """Seconds at which one piece ends and the next one begins."""
    return (torch.tensor([len(piece) for piece in found[:-1]]).cumsum(0) / SAMPLE_RATE).tolist()


@pytest.mark.parametrize("floor", [0.0, 0.003])
@pytest.mark.parametrize("pause", [0.05, 0.15, 0.4])
def test_no_word_is_cut(floor: float, pause: float) -> None:
    words = [(start, start + 0.6) for start in torch.arange(0.1, 19.0, 0.6 + pause).tolist()]
    wave = bursts(words, 20.0, floor=floor)
    found = split_at_pauses(wave, 5 * SAMPLE_RATE)
    assert torch.equal(torch.cat(found), wave)
    assert max(map(len, found)) <= 5 * SAMPLE_RATE
    assert len(found) >= 4
    assert all(not begin < cut < end for cut in cuts(found) for begin, end in words)


def test_the_longer_pause_is_chosen() -> None:
    wave = bursts([(0.0, 3.0), (3.05, 4.0), (4.5, 4.9), (4.95, 9.0)], 9.0)
    assert 4.0 < cuts(split_at_pauses(wave, 5 * SAMPLE_RATE))[0] < 4.5


def test_short_audio_is_not_split() -> None:
    wave = bursts([(0.2, 0.8)], 1.0)
    [piece] = split_at_pauses(wave, SAMPLE_RATE)
    assert torch.equal(piece, wave)
    assert [len(piece) for piece in split_at_pauses(torch.zeros(0), SAMPLE_RATE)] == [0]


def test_speech_without_a_pause_is_cut_all_the_same() -> None:
    found = split_at_pauses(bursts([(0.0, 7.0)], 7.0), 2 * SAMPLE_RATE)
    assert all(SAMPLE_RATE <= len(piece) <= 2 * SAMPLE_RATE for piece in found[:-1])
    assert sum(map(len, found)) == 7 * SAMPLE_RATE


def test_where_there_is_no_choice() -> None:
    assert quietest_position(torch.ones(100), 40, 60) == 60
