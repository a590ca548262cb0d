"""How much of the target hangs on source words that come later: the lookahead of the built-in language."""

from collections.abc import Sequence

from zoo.data.minitalks.grammar import Sentence
from zoo.data.talks import Target

WORDS_PER_CHUNK = 2.5  # 0.96 s of speech at 2.6 words a second


def lookahead_statistics(sentences: Sequence[Sentence]) -> dict[str, dict[str, float]]:
    """By language: the share of target words with lookahead, and the shares guessed with chunks of 1, 2, 4.

    lookahead: words that need a source word two or more behind their own (an unaligned word's own is the running
    maximum of the words before it). guess_m: words not yet determined when they are written at the first chunk boundary
    after their running maximum, chunks of m * 0.96 s with random phase.
    """
    return {
        code: _statistics([item.targets[code] for item in sentences])
        for code in sentences[0].targets
    }


def _statistics(targets: Sequence[Target]) -> dict[str, float]:
    words, ahead, guessed = 0, 0, dict.fromkeys((1, 2, 4), 0.0)
    for target in targets:
        running = 0
        for align, needs in zip(target.alignment, target.needs, strict=True):
            own = max(align, default=running)
            running = max(running, own)
            latest = max(needs, default=running)
            words += 1
            ahead += latest - own >= 2
            for chunks in guessed:
                guessed[chunks] += min(max(latest - running, 0) / (WORDS_PER_CHUNK * chunks), 1.0)
    return {"lookahead": ahead / words} | {
        f"guess_{chunks}": total / words for chunks, total in guessed.items()
    }
