"""The score of an evaluation that a sweeper optimises, checked before anything is streamed."""

from collections.abc import Sequence

from zoo.base.errors import check_choice, unknown_choice
from zoo.base.languages import Language
from zoo.base.talks import Talk
from zoo.base.types import Instance
from zoo.evaluation.scorer import Scorer
from zoo.evaluation.settings import Settings
from zoo.metrics.comet.scorer import score_name
from zoo.runs.rows.names import DOCUMENTS, scores_of
from zoo.runs.rows.row import Row


def check_optimized(
    metric: object,
    talks: Sequence[Talk],
    settings: Settings,
    target: Language,
    *,
    with_speech: bool,
) -> None:
    """Check the name of the score that a sweeper optimises.

    Args:
        metric: name of the score; None: no score is optimised.
        talks: talks of the evaluation, as they are streamed.
        settings: settings of the evaluation.
        target: target language of the last system.
        with_speech: whether the last system has target speech.

    Raises:
        ZooError: an evaluation of these talks has no such score.
    """
    if metric is None:
        return
    longest = max(talks, key=lambda talk: len(talk.segments))  # a sentence has other scores
    scored = Scorer(settings).streamed(
        [_sample(longest, target)], [longest], target, with_speech=with_speech
    )
    names = [*scored.scores, *scores_of("events"), *(scores_of("speech") if with_speech else ())]
    for model in settings.comet:
        names += [score_name(model), DOCUMENTS + score_name(model)]
    check_choice("optimized_metric", metric, sorted(set(names)))


def _sample(talk: Talk, target: Language) -> Instance:
    """Return a stream of the talk that emits one word, for the names of its scores."""
    times = (talk.duration,)
    return Instance(
        index=0,
        talk=talk.name,
        source_length=talk.duration,
        text="a",
        units=("a",),
        delays=times,
        elapsed=times,
        unit=target.unit,
    )


def optimized_score(rows: Sequence[Row], metric: str | None) -> float | None:
    """Return the score that a sweeper optimises: that of the last row of a system.

    Args:
        rows: rows of an evaluation.
        metric: name of the score; None: no score.

    Raises:
        ZooError: the score is not defined for this row.
    """
    if metric is None:
        return None
    row = [row for row in rows if row.kind == "system"][-1]
    value = row.scores.get(metric)
    if value is None:
        known = [name for name, score in row.scores.items() if score is not None]
        raise unknown_choice("optimized_metric", metric, known)
    return value
