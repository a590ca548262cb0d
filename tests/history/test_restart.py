"""Histories that restart a stream whose model ends or repeats its text while audio goes on."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

from tests.contract.scripted import FRAME as WORD_FRAME
from tests.contract.scripted import SENTENCE_END, Scripted, source, text_of
from tests.history.streams import FRAME, answered, session
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Capability, Cut, Hypothesis, Request
from zoo.history.base import History
from zoo.history.punctuation import Punctuation
from zoo.history.recent_words import RecentWords
from zoo.history.restart import Restart
from zoo.history.speech import Speech
from zoo.history.voice_activity import VoiceActivity
from zoo.policies.alignatt import AlignAtt
from zoo.policies.local_agreement import LocalAgreement
from zoo.streaming.session import Session
from zoo.streaming.simulate import simulate
from zoo.systems.base import StreamingSystem

FRAME_SECONDS = FRAME / SAMPLE_RATE
RESTART = Restart(
    after_seconds=10 * FRAME_SECONDS,
    after_speech_seconds=4 * FRAME_SECONDS,
    margin_seconds=2 * FRAME_SECONDS,
)


@pytest.mark.parametrize(
    ("tokens", "attended", "kept_frames", "cut"),
    [
        ("ww.", [3, 6, 8], 20, Cut(tokens=3, frames=11)),  # eleven frames follow frame 8
        ("ww.", [3, 6, 8], 19, None),  # ten frames
        ("ww.", [8, 3, 6], 20, Cut(tokens=3, frames=11)),  # the last frame is not the last row's
        ("ww?", [3, 6, 18], 20, Cut(tokens=3, frames=9)),  # a mark attends to the next sentence
        ("?", [6], 20, Cut(tokens=1, frames=9)),  # there is no word
        ("ww.w", [3, 6, 8, 12], 40, None),  # the answer has a token that is not written
        ("", [], 40, None),  # no text that could go
    ],
)
def test_all_text_goes_when_an_answer_has_ended_and_much_audio_follows(
    tokens: str, attended: list[int], kept_frames: int, cut: Cut | None
) -> None:
    written = min(3, len(tokens))
    stream = session(kept_frames, prefix=written)
    answer = replace(answered(tokens, attended, prefix=written), finished=True)
    for history in (
        RecentWords(words=5, restart=RESTART, speech=None),
        Punctuation(restart=RESTART, speech=None),
    ):
        assert history.restart_cut(stream, answer) == cut
        unfinished = replace(answer, finished=False)  # it ended where the policy stops reading
        assert history.restart_cut(stream, unfinished) is None
    assert RecentWords(words=5, restart=None).restart_cut(stream, answer) is None


def test_an_answer_with_new_words_goes_only_when_nothing_follows() -> None:
    stream = session(20, prefix=3)
    answer = replace(answered("www", [3, 6, 8], prefix=2), finished=True)
    history = RecentWords(words=5, restart=RESTART, speech=None)
    assert history.restart_cut(stream, answer) is None
    stream.source_ended = True
    assert history.restart_cut(stream, answer) == Cut(tokens=3, frames=11)


def test_one_misaligned_word_does_not_move_the_cut() -> None:
    stream = session(60, prefix=4)
    history = RecentWords(words=5, restart=RESTART, speech=None)
    for attended in ([3, 40, 6, 8], [40, 3, 6, 8]):  # 100 ms each: 3.2 s behind the next one
        answer = replace(answered("wwww", attended, prefix=4, frames=60), finished=True)
        assert history.restart_cut(stream, answer) == Cut(tokens=4, frames=11)


def test_a_text_that_cannot_be_continued_goes_at_once() -> None:
    stream = session(10, prefix=3)
    answer = replace(answered("ww.", [3, 6, 8], prefix=3), finished=True)
    history = RecentWords(words=5, restart=RESTART, speech=None)
    assert history.restart_cut(stream, answer) is None
    for finished in (False, True):
        lost = replace(answer, must_restart=True, finished=finished)
        assert history.restart_cut(stream, lost) == Cut(tokens=3, frames=10)


class LosesSpeech(Scripted):
    """Ends every answer after a kept sentence, as Whisper may do."""

    exposes = Scripted.exposes
    guarded = True

    def answer(
        self, session: Session, request: Request, needs: frozenset[Capability]
    ) -> Hypothesis:
        answer = super().answer(session, request, needs)
        kept = session.prefix_ids.tolist()
        if not kept or kept[-1] // 2 < SENTENCE_END:
            return answer
        rows = answer.prefix_length
        return replace(
            answer,
            token_ids=answer.token_ids[:0],
            word_starts=answer.word_starts[:rows],
            alignment=None if answer.alignment is None else answer.alignment[:rows],
            sentence_ends=None if answer.sentence_ends is None else answer.sentence_ends[:rows],
            finished=True,
        )


def detector() -> Callable[[torch.Tensor], float]:
    return lambda window: float(window[0] >= 1)


def written(history: History, words: Sequence[int], backbone: Scripted, policy: object) -> str:
    system = StreamingSystem(
        name="scripted",
        source_language="en",
        target_language="de",
        backbone=backbone,
        history=history,
        policy=policy,  # type: ignore[arg-type]
        chunk_seconds=6 * WORD_FRAME / SAMPLE_RATE,
    )
    return next(simulate(system, [source(words, system.chunk_samples)])).text


WORDS = [1, 2, 51, 3, 4, 5, 6, 7, 8, 9, 52, 11, 12, 13]
SECOND = 4 * WORD_FRAME / SAMPLE_RATE  # of a word
SHORT = Restart(after_seconds=2 * SECOND, after_speech_seconds=1.5 * SECOND, margin_seconds=0)


@pytest.mark.parametrize(
    ("policy", "history"),
    [
        (AlignAtt(frames=2), lambda restart: RecentWords(words=4, restart=restart, speech=None)),
        (
            LocalAgreement(n=2),
            lambda restart: VoiceActivity(
                min_seconds=50 * SECOND, max_seconds=None, detector=detector, restart=restart
            ),
        ),
    ],
)
def test_a_restart_translates_the_speech_after_an_ended_text(
    policy: object, history: Callable[[Restart | None], History]
) -> None:
    lossy = written(history(None), WORDS, LosesSpeech(), policy)
    assert lossy != text_of(WORDS)
    assert written(history(SHORT), WORDS, LosesSpeech(), policy) == text_of(WORDS)
    assert written(history(SHORT), WORDS, Scripted(), policy) == text_of(WORDS)


def test_only_a_backbone_that_needs_guards_gets_them_by_default() -> None:
    for kind in (lambda: RecentWords(words=4), Punctuation, VoiceActivity):
        history = kind()
        history.guard(by_default=False)
        assert history.restart is None
        history = kind()
        history.guard(by_default=True)
        assert history.restart == Restart()
    history = RecentWords(words=4, speech=None, restart=RESTART)
    history.guard(by_default=True)
    assert (history.speech, history.restart) == (None, RESTART)
    history = RecentWords(words=4)
    history.guard(by_default=True)
    assert history.speech == Speech()


def test_impossible_values_are_refused() -> None:
    with pytest.raises(ZooError, match="after_seconds"):
        Restart(after_seconds=0)
    with pytest.raises(ZooError, match="after_speech_seconds"):
        Restart(after_speech_seconds=-1)
    with pytest.raises(ZooError, match="margin_seconds"):
        Restart(after_seconds=1.0, margin_seconds=1.5)
    with pytest.raises(ZooError, match="restart of RecentWords"):
        RecentWords(words=4, restart="always")  # type: ignore[arg-type]
    with pytest.raises(ZooError, match="speech of RecentWords"):
        RecentWords(words=4, speech="webrtc")  # type: ignore[arg-type]
