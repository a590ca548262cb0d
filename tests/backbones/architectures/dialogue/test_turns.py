"""Turns of a stream: batches, caches, the bound of the dialogue, and the controls of emission."""

import dataclasses

import pytest
import torch
from torch import Tensor

from tests.backbones.architectures.dialogue.conftest import Maker
from tests.backbones.architectures.dialogue.streams import CHUNK, chunks, ids, take_turns
from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.architectures.dialogue.controls import EmissionControls
from zoo.backbones.architectures.dialogue.dialogue import SHORTEST, Dialogue, take_audio
from zoo.backbones.architectures.dialogue.prompt import DialogueBound
from zoo.backbones.architectures.dialogue.state import DialogueState
from zoo.backbones.decoding.causal.branches import CausalBranches, Prefilled, empty_cache
from zoo.backbones.decoding.search import SearchConfig
from zoo.base.errors import ZooError
from zoo.base.types import Hypothesis, Request, SpeechChunk

BOUND = DialogueBound(max_turns=4, kept_turns=2)
SHORT = EmissionControls(max_tokens=5, final_tokens=7)
EXACT = {"rtol": 0, "atol": 1e-9}


def balanced(tiny: Maker, **options: object) -> Dialogue:
    """A random model that waits in about half of its turns."""
    backbone = tiny(bound=BOUND, emission=SHORT, **options)
    margins = []
    choose = backbone._choose_waits

    def measured(sessions: object, log_probs: Tensor) -> list[bool]:
        words = log_probs.clone()
        words[:, [*backbone.never, *backbone.ends]] = -torch.inf
        margins.append(words.amax(dim=-1) - log_probs[:, backbone.prompt.wait])
        return choose(sessions, log_probs)  # type: ignore[arg-type]

    backbone._choose_waits = measured  # type: ignore[method-assign,assignment]
    take_turns(backbone, [chunks(9)])
    backbone._choose_waits = choose  # type: ignore[method-assign]
    bias = float(torch.cat(margins).median())
    backbone.emission = dataclasses.replace(SHORT, wait_bias=bias)
    return backbone


@pytest.fixture(scope="module")
def backbone(tiny: Maker) -> Dialogue:
    return balanced(tiny)


def test_a_stream_in_a_batch_has_the_turns_that_it_has_alone(backbone: Dialogue) -> None:
    streams = [chunks(9), chunks(3, seed=1), chunks(7, seed=2)]
    together, _ = take_turns(backbone, streams)
    alone = [take_turns(backbone, [stream])[0][0] for stream in streams]
    assert [ids(turns) for turns in together] == [ids(turns) for turns in alone]
    counts = [len(tokens) for turns in together for tokens in ids(turns)]
    assert 0 in counts  # some turns wait,
    assert max(counts) > 0  # and others have words


def test_keys_and_values_are_those_of_the_dialogue_computed_at_once(backbone: Dialogue) -> None:
    """After each turn, also after those that dropped turns."""
    for length in range(1, 8):
        _, [session] = take_turns(backbone, [chunks(9)[:length]])
        state: DialogueState = session.backbone_state
        whole = torch.cat([state.instruction, *(turn.embeddings for turn in state.turns)])
        empty = [Prefilled(empty_cache(backbone.decoder))]
        with torch.inference_mode():
            expected = CausalBranches(backbone.decoder, empty, [whole]).prefilled(0)
        known = state.cache.shape[3]
        assert known >= len(whole) - 2  # the end token, and the last word or <wait>, come next
        torch.testing.assert_close(state.cache, expected[:, :, :, :known], **EXACT)


def test_caches_do_not_change_the_turns(tiny: Maker, backbone: Dialogue) -> None:
    plain = tiny(bound=BOUND, emission=backbone.emission, reuse=False)
    found, expected = (take_turns(one, [chunks(9)])[0][0] for one in (backbone, plain))
    assert ids(found) == ids(expected)


@pytest.mark.parametrize("options", [{"search": SearchConfig(beams=3)}, {"capture": "static"}])
def test_beams_and_static_steps_have_the_same_caches(
    tiny: Maker, options: dict[str, object]
) -> None:
    backbone = balanced(tiny, **options)
    streams = [chunks(9), chunks(4, seed=1)]
    together, _ = take_turns(backbone, streams)
    plain = tiny(bound=BOUND, emission=backbone.emission, reuse=False, **options)
    assert [ids(turns) for turns in together] == [
        ids(take_turns(plain, [stream])[0][0]) for stream in streams
    ]


def test_a_dialogue_keeps_its_instruction_and_a_bounded_number_of_turns(backbone: Dialogue) -> None:
    kept = []
    for length in range(1, 10):
        _, [session] = take_turns(backbone, [chunks(9)[:length]])
        state: DialogueState = session.backbone_state
        kept.append(len(state.turns))
        assert state.cache.shape[3] > len(state.instruction)
    assert kept == [1, 2, 3, 4, 3, 4, 3, 4, 3]


def test_after_a_drop_a_stream_goes_on_as_if_it_began_with_the_kept_turns(
    backbone: Dialogue,
) -> None:
    audio = chunks(9)
    _, [session] = take_turns(backbone, [audio[:5]])
    other = new_session(backbone)
    other.backbone_state.turns = session.backbone_state.turns[:]
    for one in (session, other):
        one.source_ended = False
        one.receive(SpeechChunk(audio[5]))
    first, second = backbone.decode([session, other], [Request()] * 2, frozenset())
    assert first.token_ids.tolist() == second.token_ids.tolist()
    caches = (one.backbone_state.cache for one in (session, other))
    torch.testing.assert_close(*caches, **EXACT)


@pytest.mark.parametrize("turns", range(1, 15))
@pytest.mark.parametrize("bound", [BOUND, DialogueBound(3, 0), DialogueBound(5, 4)])
def test_a_training_divides_a_stream_as_streaming_does(bound: DialogueBound, turns: int) -> None:
    expected, kept = [], range(0)
    for turn in range(turns):
        kept = range(kept.start + bound.dropped(len(kept)), turn + 1)
        expected.append((turn, kept.start))
    found = [
        (turn, dialogue.start)
        for dialogue, begun in bound.dialogues(turns)
        for turn in range(begun, dialogue.stop)
    ]
    assert found == expected


@pytest.mark.parametrize(("most", "kept"), [(0, 0), (3, 3), (3, -1)])
def test_bounds_without_room_are_refused(most: int, kept: int) -> None:
    with pytest.raises(ZooError, match="0 <= kept_turns < max_turns"):
        DialogueBound(most, kept)


# ---- controls of emission


def lengths(backbone: Dialogue, turns: int = 7, **controls: object) -> list[int]:
    """Number of tokens of each turn of a stream."""
    backbone.emission = dataclasses.replace(SHORT, **controls)  # type: ignore[arg-type]
    [found], _ = take_turns(backbone, [chunks(turns)])
    return [turn.num_new_tokens for turn in found]


def test_the_bias_decides_between_waits_and_words(tiny: Maker) -> None:
    backbone = tiny(bound=BOUND)
    assert [length > 0 for length in lengths(backbone, wait_bias=100)] == [False] * 6 + [True]
    assert min(lengths(backbone, wait_bias=-100)) > 0


def test_after_the_most_waits_words_are_forced(tiny: Maker) -> None:
    backbone = tiny(bound=BOUND)
    spoken = [length > 0 for length in lengths(backbone, wait_bias=100, max_waits=2)]
    assert spoken == [False, False, True, False, False, True, True]


def test_turns_have_the_most_tokens_and_the_last_turn_its_own(tiny: Maker) -> None:
    backbone = tiny(bound=BOUND)
    backbone.ends = []  # a text that never ends
    backbone.emission = dataclasses.replace(SHORT, wait_bias=-100)
    [turns], _ = take_turns(backbone, [chunks(3)])
    assert [turn.num_new_tokens for turn in turns] == [5, 5, 7]
    assert all(turn.truncated and turn.finished for turn in turns)


def test_wait_is_no_text_and_waits_are_no_truncated_turns(backbone: Dialogue) -> None:
    [turns], [session] = take_turns(backbone, [chunks(9)])
    assert all(backbone.prompt.wait not in tokens for tokens in ids(turns))
    assert not any(turn.truncated for turn in turns if not turn.num_new_tokens)
    assert session.prefix_ids.numel() == 0
    assert backbone.text([backbone.prompt.wait]) == ""


def test_a_translation_that_has_ended_stays_ended_at_the_end_of_the_source(tiny: Maker) -> None:
    """The last turn cannot be <wait>, but it can be the end token alone."""
    backbone = tiny(bound=BOUND)
    backbone.ends = list(set(range(len(backbone.tokenizer))) - {backbone.prompt.wait})
    assert lengths(backbone, turns=1) == [0]


def test_a_part_of_a_turn_is_refused(backbone: Dialogue) -> None:
    session = new_session(backbone)
    turn = Hypothesis(torch.tensor([20, 21]), torch.ones(2, dtype=torch.bool), finished=True)
    with pytest.raises(ZooError, match="writes whole turns; choose policy=turn_taking"):
        backbone.commit(session, turn, 1)


def test_controls_out_of_range_are_refused() -> None:
    for wrong in ({"max_waits": 0}, {"max_tokens": 0}, {"wait_bias": float("nan")}):
        with pytest.raises(ZooError, match="Emission"):
            EmissionControls(**wrong)  # type: ignore[arg-type]


# ---- audio of a turn


def test_samples_of_an_incomplete_frame_wait_for_the_next_turn(backbone: Dialogue) -> None:
    frame = backbone.frame_samples
    session = new_session(backbone, white_noise(3 * frame + 5))
    assert take_audio(session).numel() == 3 * frame
    assert session.audio.numel() == 5
    session.receive(SpeechChunk(white_noise(7), final=True))
    assert take_audio(session).numel() == SHORTEST  # padded with silence
    assert take_audio(session).numel() == 0


def test_a_stream_without_a_whole_frame_has_an_empty_turn(backbone: Dialogue) -> None:
    session = new_session(backbone, white_noise(5))
    [turn] = backbone.decode([session], [Request()], frozenset())
    assert turn.num_new_tokens == 0
    assert session.backbone_state.turns == []


def test_a_turn_has_the_embeddings_of_its_chunk_alone(backbone: Dialogue) -> None:
    audio = chunks(3)
    _, [session] = take_turns(backbone, [audio])
    turn = session.backbone_state.turns[1]
    with torch.inference_mode():
        [speech] = backbone._embed_speech([audio[1][:CHUNK]])
    start = len(backbone._embed(backbone.prompt.user(0))) - len(backbone.prompt._assistant_ids)
    torch.testing.assert_close(turn.embeddings[start:][: len(speech)], speech, **EXACT)
