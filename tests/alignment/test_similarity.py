"""Word alignment by a tiny random encoder."""

from pathlib import Path

import pytest

from tests.fixtures import tiny_checkpoints
from tests.fixtures.tiny_encoder import save_encoder
from zoo.alignment.words.similarity import SimilarityAligner
from zoo.base.errors import ZooError


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_encoder(tmp_path_factory.mktemp("encoder"))


def aligner(name: str | Path, **options: object) -> SimilarityAligner:
    found = SimilarityAligner(name=str(name), dtype="float64", **{"layer": 2, **options})  # type: ignore[arg-type]
    found.load()
    return found


@pytest.mark.parametrize("method", ["argmax", "itermax", "match"])
def test_equal_sentences_are_aligned_word_by_word(encoder: str, method: str) -> None:
    words = ["ab", "c", "dea", "b"]
    [found] = aligner(encoder, method=method).align([(words, words)])
    assert found == ((0,), (1,), (2,), (3,))


def test_a_word_is_linked_if_one_of_its_subwords_is(encoder: str) -> None:
    # Layer 0 depends on subword and position: a, ##b and ##d are equal, c and ##c are not.
    [found] = aligner(encoder, layer=0).align([(["ab", "cd"], ["abcd"])])
    assert found == ((0, 1),)


def test_pairs_of_a_batch_do_not_influence_one_another(encoder: str) -> None:
    pairs = [
        (["a", "bc", "d"], ["da", "c"]),
        ([], ["a"]),
        (["e"], []),
        (["abc", "e", "d", "a"], ["b", "e", "ed"]),
        (["c"], ["a", "b", "c", "d", "e", "a"]),
    ]
    together = aligner(encoder).align(pairs)
    assert together[1:3] == [((),), ()]
    assert [len(found) for found in together] == [2, 1, 0, 3, 6]
    assert together == [aligner(encoder, batch_size=1).align([pair])[0] for pair in pairs]


def test_words_beyond_the_longest_input_are_unaligned(encoder: str) -> None:
    words = list("abcde") * 3  # 15 subwords; the network has 12 positions, 2 of them special
    [found] = aligner(encoder).align([(words, words)])
    assert len(found) == 15
    assert found[10:] == ((),) * 5
    assert any(found[:10])


def test_wrong_arguments_and_models_are_refused(encoder: str, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="choose one of: argmax, itermax, match"):
        SimilarityAligner(name=encoder, method="inter")  # type: ignore[arg-type]
    with pytest.raises(ZooError, match="needs name"):
        SimilarityAligner(name=None).check()
    with pytest.raises(ZooError, match="has 2 layers, but layer=8"):
        SimilarityAligner(name=encoder).load()
    tiny_checkpoints.KINDS["whisper"](tmp_path / "whisper")
    with pytest.raises(ZooError, match="is a whisper, not a multilingual encoder"):
        SimilarityAligner(name=str(tmp_path / "whisper"), layer=0).load()
