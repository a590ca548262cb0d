"""Contextual vectors of words by a tiny random encoder."""

from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.tiny_encoder import save_encoder
from zoo.alignment.words import encoder as module
from zoo.alignment.words.encoder import WordEncoder
from zoo.base.errors import ZooError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_encoder(tmp_path_factory.mktemp("encoder"))


def test_words_of_a_long_text_are_read_with_their_neighbours(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each window all words but the outermost take their vectors from it."""
    monkeypatch.setattr(module, "WINDOW", 6)
    monkeypatch.setattr(module, "MARGIN", 2)
    words = ["ab", "c", "de", "a", "b", "ce", "d", "ea", "c", "b", "a"]
    encoder = WordEncoder(folder, dtype="float64", batch_size=2)
    found = encoder.vectors(words)
    assert found.shape == (11, 16)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)
    for first, last, begin, end in [(0, 6, 0, 4), (2, 8, 4, 6), (4, 10, 6, 8), (6, 11, 8, 11)]:
        alone = WordEncoder(folder, dtype="float64").vectors(words[first:last])
        assert found[begin:end] == pytest.approx(alone[begin - first : end - first], abs=1e-5)


def test_a_word_has_the_mean_of_its_subwords(folder: str) -> None:
    encoder = WordEncoder(folder, dtype="float64")
    encoder.load()
    [(vectors, owners)] = encoder.encode([["ab", "c"]])
    assert owners == [0, 0, 1]
    [first, second] = encoder.vectors(["ab", "c"])
    assert second == pytest.approx(vectors[2], abs=1e-5)
    # A positive combination of the unit vectors of its two subwords.
    weights, residual, _, _ = np.linalg.lstsq(vectors[:2].T, first, rcond=None)
    assert residual == pytest.approx(0, abs=1e-9)
    assert (weights > 0).all()


def test_words_without_subwords_and_empty_texts(folder: str) -> None:
    encoder = WordEncoder(folder)
    assert encoder.vectors([]).shape == (0, 16)
    blank, known = encoder.vectors([" ", "a"])
    assert not blank.any()
    assert known.any()


def test_the_layer_is_two_thirds_of_the_network_unless_it_is_named(folder: str) -> None:
    words = ["a", "bc", "d"]
    by_default, first, last = (
        WordEncoder(folder, layer=layer).vectors(words) for layer in (None, 1, 2)
    )
    assert by_default == pytest.approx(first)  # of two layers
    assert by_default != pytest.approx(last, abs=1e-3)


def test_the_signature_is_equal_on_every_machine(folder: str) -> None:
    assert WordEncoder("owner/model").signature == "owner/model"
    assert WordEncoder(folder, layer=2).signature == f"{Path(folder).name}, layer 2"


def test_wrong_arguments_and_models_are_refused(folder: str, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="has 2 layers, but layer=3"):
        WordEncoder(folder, layer=3).load()
    with pytest.raises(ZooError, match="layer of at least 0"):
        WordEncoder(folder, layer=-1)
    with pytest.raises(ZooError, match="must be a folder or a name on the hub"):
        WordEncoder(str(tmp_path / "missing")).load()
