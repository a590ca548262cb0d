"""Alignments of a cascade: from target tokens through the transcript to source frames."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.backbones.cascade.conftest import Make, TimingTranscriber
from zoo.backbones.cascade.cascade import Cascade
from zoo.backbones.cascade.prompt import PromptFields
from zoo.backbones.cascade.timed import SourceTokens, TimedTranscript, time_transcript
from zoo.backbones.decoding.alignment import AlignmentConfig, EveryHead
from zoo.backbones.decoding.search import SearchConfig
from zoo.base.types import Capability, Hypothesis, Request, Task
from zoo.policies.alignatt import AlignAtt
from zoo.streaming.session import Session

Live = Callable[..., Session]
ALIGNED = frozenset({Capability.ALIGNMENT})
LEVELS = [1, 0, 2, 3, 0, 0, 4, 5]  # words at the frames 0, 2, 3, 6 and 7
WORD_FRAMES = (0, 2, 3, 6, 7)
STREAMS = ((LEVELS, "Julia hat"), ([0, 6], ""), ([0, 0], "Das"), ([7, 8, 9, 1, 2, 3], "Wir fahren"))


def transcript(text: str, attended: list[int], frames: int = 6) -> Hypothesis:
    """The answer of a transcriber with one token per letter of ``text``."""
    return Hypothesis(
        token_ids=torch.tensor([ord(letter) for letter in text], dtype=torch.long),
        word_starts=torch.ones(len(text), dtype=torch.bool),
        transcript=text.strip(),
        alignment=torch.eye(frames)[attended],
    )


def letters(ids: list[int]) -> str:
    return "".join(map(chr, ids))


def test_characters_have_the_frames_of_their_tokens_which_never_decrease() -> None:
    answer = time_transcript(transcript(" abc ", [0, 1, 3, 2, 5]), letters)
    assert answer.frames is not None
    assert (answer.text, answer.frames.tolist(), answer.num_frames) == ("abc", [1, 3, 3], 6)
    whole = time_transcript(transcript("abc", [1, 2, 4]), lambda ids: "abcdef"[: 2 * len(ids)])
    assert whole.frames is not None
    assert whole.frames.tolist() == [1, 1, 2]  # two letters a token, more than the transcript has
    empty = time_transcript(transcript("", []), letters)
    assert empty.frames is not None
    assert (empty.text, empty.frames.tolist(), empty.num_frames) == ("", [], 6)


def test_tokens_have_the_frame_of_their_last_character() -> None:
    answer = TimedTranscript("abcd", torch.tensor([0, 2, 2, 5]), 6)
    tokens = answer.tokens([None, None, 1, 3, None])
    assert (tokens.first, tokens.frames.tolist(), tokens.num_frames) == (2, [2, 5], 6)
    with pytest.raises(ValueError, match="returned no alignment"):
        TimedTranscript("ab").tokens([0, 1])


def test_weights_are_summed_at_their_frames() -> None:
    tokens = SourceTokens(0, torch.tensor([1, 1, 3]), 4)
    weights = torch.tensor([[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])
    assert tokens.at_frames(weights).tolist() == [[0, 0.5, 0, 0.5], [0, 1, 0, 0]]
    assert tokens.at_frames(weights[None, :, :2]).tolist() == [[[0, 0.5, 0, 0], [0, 1, 0, 0]]]
    z_scores = torch.tensor([[-1.5, -0.25, -1.0]])
    assert tokens.at_frames(z_scores).tolist() == [[-1.5, -1.75, -1.5, -1]]


def aligning(make: Make, **options: object) -> Cascade:
    chosen: dict[str, object] = {
        "transcriber": TimingTranscriber(),
        "alignment": AlignmentConfig(layer=1, heads=[0, 2]),
        "prefix_place": "answer",
    }
    return make(**chosen | options)


def attention(backbone: Cascade, session: Session, answer: Hypothesis) -> Tensor:
    """(positions, heads, words) self-attention of layer 1 to the words, by Transformers."""
    words = backbone.transcriber.text([level for level in LEVELS if level])
    text = backbone.text(session.prefix_ids.tolist())
    fields = PromptFields(
        source=session.source_language,
        target=session.target_language,
        transcript=words,
        translation=text,
    )
    opening = backbone.prompt.opening(fields)
    characters = backbone.prompt.transcript_characters(fields)
    ids = torch.tensor([[*opening, *session.prefix_ids.tolist(), *answer.token_ids.tolist()]])
    backbone.translator.set_attn_implementation("eager")
    try:
        weights = backbone.translator(ids, output_attentions=True).attentions[1][0]
    finally:
        backbone.translator.set_attn_implementation("zoo_grouped")
    columns = []
    for word in range(5):
        begin = sum(len(other) + 1 for other in words.split()[:word])
        end = begin + len(words.split()[word])
        inside = [
            place
            for place, last in enumerate(characters)
            if last is not None and begin <= last < end
        ]
        columns.append(weights[:, :, inside].sum(dim=-1))
    return torch.stack(columns, dim=-1).transpose(0, 1)[len(opening) - 1 :]


@pytest.mark.parametrize("prefix_place", ["answer", "both"])
@torch.inference_mode()
def test_a_translation_is_aligned_through_the_words(
    prefix_place: str, make: Make, live: Live
) -> None:
    backbone = aligning(make, prefix_place=prefix_place)
    session = live(backbone, LEVELS, "Julia hat")
    [answer] = backbone.decode([session], [Request()], ALIGNED)
    [plain] = backbone.decode([session], [Request()], frozenset())
    assert answer.token_ids.tolist() == plain.token_ids.tolist() != []
    assert plain.alignment is None
    rows = attention(backbone, session, answer)[:, [0, 2]].mean(dim=1)
    tokens = answer.prefix_length + answer.num_new_tokens
    expected = torch.zeros(tokens, len(LEVELS), dtype=torch.float64)
    expected[:, WORD_FRAMES] = rows[:tokens]
    # Transformers computes the softmax in float32.
    torch.testing.assert_close(answer.require_alignment(), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_batch_is_aligned_as_its_streams_alone(beams: int, make: Make, live: Live) -> None:
    backbone = aligning(make, search=SearchConfig(beams=beams))
    requests = [Request(), Request(), Request(), Request(task=Task.TRANSCRIPTION)]
    together = backbone.decode([live(backbone, *one) for one in STREAMS], requests, ALIGNED)
    for stream, request, answer in zip(STREAMS, requests, together, strict=True):
        [alone] = backbone.decode([live(backbone, *stream)], [request], ALIGNED)
        assert alone.token_ids.tolist() == answer.token_ids.tolist()
        rows = answer.require_alignment()
        assert rows.shape == (answer.prefix_length + answer.num_new_tokens, len(stream[0]))
        torch.testing.assert_close(rows, alone.require_alignment(), rtol=0, atol=1e-12)


def test_a_transcript_that_was_returned_is_aligned_when_it_is_given(make: Make, live: Live) -> None:
    backbone = aligning(make)
    session = live(backbone, LEVELS)
    [early] = backbone.decode([session], [Request(Task.TRANSCRIPTION, audio_end=4)], ALIGNED)
    [given] = backbone.decode([session], [Request(transcript_ids=early.token_ids)], ALIGNED)
    [expected] = backbone.decode([live(backbone, LEVELS[:4])], [Request()], ALIGNED)
    assert given.require_alignment().tolist() == expected.require_alignment().tolist()


def test_an_answer_may_end_where_the_policy_stops(make: Make, live: Live) -> None:
    backbone = aligning(make, end_scale=0.0)
    shorter = set()
    for frames in (1, 2, 5):
        rule = AlignAtt(frames=frames).attends_to_newest
        [whole] = backbone.decode([live(backbone, LEVELS)], [Request()], ALIGNED)
        [ended] = backbone.decode([live(backbone, LEVELS)], [Request(stop_at=rule)], ALIGNED)
        rows = whole.require_alignment()
        marked = rule(rows, torch.full((len(rows),), len(LEVELS))).tolist()
        count = marked.index(True) + 1 if True in marked else len(marked)
        assert ended.token_ids.tolist() == whole.token_ids.tolist()[:count]
        torch.testing.assert_close(ended.require_alignment(), rows[:count], rtol=0, atol=1e-12)
        shorter.add(count)
    assert len(shorter) > 1


def test_every_head_is_aligned_by_itself(make: Make, live: Live) -> None:
    """As ``python -m zoo alignment-heads`` compares them."""
    backbone = aligning(make)
    session = live(backbone, LEVELS, "Julia hat")
    backbone.align_with(EveryHead())
    [answer] = backbone.decode([session], [Request()], ALIGNED)
    layers, heads = backbone.attention_shape
    every = answer.require_alignment()
    assert every.shape == (len(answer.word_starts), layers * heads, len(LEVELS))
    backbone.align_with(AlignmentConfig(layer=2, heads=[3]))
    [single] = backbone.decode([session], [Request()], ALIGNED)
    torch.testing.assert_close(
        single.require_alignment(), every[:, 2 * heads + 3], rtol=0, atol=1e-12
    )
