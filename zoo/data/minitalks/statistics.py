"""Statistics of lookahead: how many target words depend on source words that follow later."""

from collections.abc import Sequence

from zoo.base.talks import Target
from zoo.data.minitalks.grammar import Sentence

WORDS_PER_CHUNK = 2.5  # 0.96 s of speech at 2.6 words per second


def lookahead_statistics(sentences: Sequence[Sentence]) -> dict[str, dict[str, float]]:
    """Compute the share of target words with lookahead and the share that must be guessed.

    The position of a target word is its last aligned source word; an unaligned word has the
    maximum position of the words before it.

    Args:
        sentences: sentences with translations into the same languages.

    Returns:
        By language code: ``lookahead``, the share of target words that depend on a source word two
        or more words after their position; ``guess_1``, ``guess_2`` and ``guess_4``, the expected
        share of target words that are not yet determined at the first chunk boundary after the
        maximum position so far, for chunks of 1, 2 and 4 times 0.96 s at a random phase.
    """
    return {
        code: _target_statistics([item.targets[code] for item in sentences])
        for code in sentences[0].targets
    }


def _target_statistics(targets: Sequence[Target]) -> dict[str, float]:
    words, ahead, guessed = 0, 0, dict.fromkeys((1, 2, 4), 0.0)
    for target in targets:
        furthest = 0
        for align, needs in zip(target.alignment, target.needs, strict=True):
            position = max(align, default=furthest)
            furthest = max(furthest, position)
            latest = max(needs, default=furthest)
            words += 1
            ahead += latest - position >= 2
            for chunks in guessed:
                missing = max(latest - furthest, 0)
                guessed[chunks] += min(missing / (WORDS_PER_CHUNK * chunks), 1.0)
    return {"lookahead": ahead / words} | {
        f"guess_{chunks}": total / words for chunks, total in guessed.items()
    }
