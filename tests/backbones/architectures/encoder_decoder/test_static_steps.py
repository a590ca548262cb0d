"""Static steps of decoders with cross-attention equal plain ones; failures fall back."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.backbones.architectures.encoder_decoder.conftest import END, VOCABULARY
from tests.backbones.decoding.graphs import Graphs, assert_equal, refused, stale, without_host
from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.architectures.encoder_decoder.branches import EncoderDecoderBranches
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.decoding.static_steps import CHECKED, StaticSteps
from zoo.backbones.seamless_m4t.seamless_m4t import SeamlessM4T
from zoo.backbones.speech_to_text import SpeechToText
from zoo.backbones.whisper import Whisper
from zoo.base.types import Capability, Hypothesis, Request, StopRule
from zoo.extras.canary import Canary

STEPS = 40
FRAMES = (3, 20, 9)
HEADS = {0: [1, 3], 1: None}
pytestmark = pytest.mark.usefixtures("small_shapes")
PROMPT = [9, 10, 11, 9, 12]
Remember = Callable[..., Tensor]
Folders = Callable[..., Path]


@torch.inference_mode()
def searched(
    family: Any,
    memory: Remember,
    steps: StaticSteps | None,
    *,
    heads: Any = HEADS,
    beams: int = 3,
    seed: int = 0,
    frames: Sequence[int] = FRAMES,
) -> list[Tensor]:
    """All scores and attention of three streams, of which two leave, and what is read at last."""
    chance, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    memories = [memory(count, seed=seed + count) for count in frames]
    prompts = [family.opening + PROMPT[:size] for size in (1, 5, 3)]
    turn = EncoderDecoderBranches(
        family.decoder,
        memories,
        prompts,
        heads=heads,
        states=True,
        drafts=[[13, 14], [], [15]] if beams == 1 else None,
        steps=steps,
    )
    if beams == 1:
        turn.accept([2, 0, 0])
    found = [turn.log_probs]
    turn.fork(beams)
    for step in range(STEPS):
        if step == 5:
            turn.keep([0, 2] if seed == 0 else [2, 1])
        if step == 10:
            turn.keep([1])
        rows = len(turn.live) * beams
        tokens = torch.randint(VOCABULARY, (rows,), generator=generator)
        parents = [row // beams * beams + chance.randrange(beams) for row in range(rows)]
        turn.step(tokens, torch.tensor(parents))
        found += [turn.log_probs, turn.newest_attention()]

    [last] = turn.live
    places = [torch.tensor([], dtype=torch.long)] * 3
    places[last] = turn.generated(0)
    appended = turn.append([END] * 3, places)
    for stream in range(3):
        fed = torch.cat([places[stream], appended[stream]])
        found += [turn.attention(stream, fed), turn.prompt_attention(stream)]
        found.append(turn.states(stream, fed))
    return found


@pytest.mark.parametrize("heads", [{}, HEADS], ids=["plain", "recorded"])
@pytest.mark.parametrize("beams", [1, 3])
def test_static_steps_equal_plain_ones(
    family: Any, memory: Remember, beams: int, heads: Any
) -> None:
    steps = StaticSteps("static")
    for seed in range(3):
        options = {"heads": heads, "beams": beams, "seed": seed}
        found = searched(family, memory, steps, **options)
        assert_equal(found, searched(family, memory, None, **options))
    assert len(steps._steps) > 3


def test_a_batch_of_equal_memories_has_no_mask_but_padding(
    speech_to_text: Any, memory: Remember
) -> None:
    """Whisper's memories have the same number of frames; only the rounding is masked."""
    for frames in ((9, 9, 9), (16, 16, 16)):
        found = searched(speech_to_text, memory, StaticSteps("static"), frames=frames)
        assert_equal(found, searched(speech_to_text, memory, None, frames=frames))


def test_all_searches_use_the_same_memory_and_no_old_contents(
    speech_to_text: Any, memory: Remember
) -> None:
    steps = StaticSteps("static")
    expected = searched(speech_to_text, memory, None)
    first = searched(speech_to_text, memory, steps)
    memories = dict(steps.memory._regions)
    assert len(memories) == 3
    with torch.inference_mode():
        for part in memories.values():
            part.fill_(torch.nan)
    for frames in (FRAMES, (3, 5, 4)):  # fewer frames than in the last search
        found = searched(speech_to_text, memory, steps, frames=frames)
        assert_equal(found, searched(speech_to_text, memory, None, frames=frames))
    assert all(steps.memory._regions[name] is part for name, part in memories.items())
    assert_equal(first, expected)  # nothing that was read of the first search is a view


def test_a_search_outside_inference_mode_uses_memory_that_was_made_in_it(
    family: Any, memory: Remember
) -> None:
    steps = StaticSteps("static")
    expected = searched(family, memory, None)
    searched(family, memory, steps)
    parts = dict(steps.memory._regions)
    with torch.no_grad():
        assert_equal(searched.__wrapped__(family, memory, steps), expected)
    assert all(steps.memory._regions[name] is part for name, part in parts.items())


def test_longer_memories_and_more_streams_replace_the_memory(
    speech_to_text: Any, memory: Remember
) -> None:
    steps = StaticSteps("auto", capturer=Graphs())
    with torch.inference_mode():
        one = EncoderDecoderBranches(
            speech_to_text.decoder, [memory(50)], [[2, 7]], heads=HEADS, steps=steps
        )
        one.step(torch.tensor([9]))
    del one
    for frames in (FRAMES, (3, 70, 9), FRAMES):
        found = searched(speech_to_text, memory, steps, frames=frames)
        assert_equal(found, searched(speech_to_text, memory, None, frames=frames))
    assert [part.shape[2] for part in steps.memory._regions.values()] == [3] * 3
    assert steps.memory._regions["source"].shape[4] == 80
    assert steps.capture == "auto"


def test_a_search_within_another_gets_memory_of_its_own(
    speech_to_text: Any, memory: Remember
) -> None:
    steps = StaticSteps("static")
    expected = searched(speech_to_text, memory, None)
    searched(speech_to_text, memory, steps, frames=(3, 30, 9))  # the memory is large enough for all
    steps._steps.clear()

    def outer(steps: StaticSteps | None) -> list[Tensor]:
        turn = EncoderDecoderBranches(
            speech_to_text.decoder, [memory(30)], [[2, 7, 9]], heads=HEADS, steps=steps
        )
        assert_equal(searched(speech_to_text, memory, steps), expected)
        turn.step(torch.tensor([11]))
        return [turn.log_probs, turn.newest_attention()]

    with torch.inference_mode():
        assert_equal(outer(steps), outer(None))
    assert [key[:2] for key in steps._steps] == [(1, 1)]  # the inner search had plain steps


@pytest.mark.parametrize("name", ["speech_to_text", "whisper", "seamless_m4t"])
def test_graphs_are_captured_once_per_shape_and_compared_at_first(
    make_family: Callable[[str], Any], memory: Remember, name: str
) -> None:
    """Captured positions stay right although tables of sines are extended, and thereby moved."""
    family, graphs = make_family(name), Graphs()
    steps = StaticSteps("auto", capturer=graphs)
    searched(family, memory, steps)  # the memory grows
    graphs.captured = 0
    expected = searched(family, memory, None)
    assert_equal(searched(family, memory, steps), expected)
    shapes = graphs.captured
    assert 3 < shapes < STEPS
    assert_equal(searched(family, memory, steps), expected)
    assert graphs.captured == shapes
    assert steps.capture == "auto"
    assert sum(step.replays > CHECKED for step in steps._steps.values()) > 3


def test_a_step_copies_nothing_between_host_and_gpu(family: Any, memory: Remember) -> None:
    steps = StaticSteps("auto", capturer=without_host)
    found = searched(family, memory, steps)
    assert_equal(found, searched(family, memory, None))
    assert steps.capture == "auto"


def test_other_heads_and_numbers_of_frames_are_other_graphs(
    speech_to_text: Any, memory: Remember
) -> None:
    graphs = Graphs()
    steps = StaticSteps("auto", capturer=graphs)
    searched(speech_to_text, memory, steps, frames=(3, 40, 9))
    for frames in (FRAMES, (3, 40, 9)):
        for heads in ({}, HEADS, {0: None, 1: None}):
            before = graphs.captured
            options: Any = {"frames": frames, "heads": heads}
            found = searched(speech_to_text, memory, steps, **options)
            assert_equal(found, searched(speech_to_text, memory, None, **options))
            assert graphs.captured > before
    assert steps.capture == "auto"


def test_graphs_of_changed_weights_are_captured_again(
    make_family: Callable[[str], Any], memory: Remember
) -> None:
    """Weights that move, and biases that change in place: they are joined by a copy."""
    family, graphs = make_family("seamless_m4t"), Graphs()
    steps = StaticSteps("auto", capturer=graphs)
    for _ in range(2):
        searched(family, memory, steps)
    before = graphs.captured
    with torch.no_grad():
        for weight in family.decoder.parameters():
            weight.data = weight.data.mul(0.5)
    assert_equal(searched(family, memory, steps), searched(family, memory, None))
    moved = graphs.captured
    assert moved > before
    with torch.no_grad():
        for name, weight in family.decoder.named_parameters():
            if "proj.bias" in name:
                weight.fill_(0.5)
    assert_equal(searched(family, memory, steps), searched(family, memory, None))
    assert graphs.captured > moved
    assert steps.capture == "auto"


@pytest.mark.parametrize(
    ("capturer", "reason"),
    [(stale, "differ from plain ones"), (refused, "not permitted when stream is capturing\\)")],
)
def test_a_wrong_or_refused_graph_is_given_up(
    speech_to_text: Any, memory: Remember, capturer: Any, reason: str
) -> None:
    steps = StaticSteps("auto", capturer=capturer)
    expected = searched(speech_to_text, memory, None)
    with pytest.warns(UserWarning, match=reason) as warned:
        found = searched(speech_to_text, memory, steps)
    assert_equal(found, expected)
    assert len(warned) == 1
    assert steps.capture == "off"
    assert_equal(searched(speech_to_text, memory, steps), expected)


def test_auto_changes_nothing_without_a_gpu(speech_to_text: Any, memory: Remember) -> None:
    steps = StaticSteps("auto")
    found, expected = (searched(speech_to_text, memory, given) for given in (steps, None))
    assert not steps.memory._regions
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


BACKBONES: dict[str, tuple[Any, str, str]] = {  # class, source and target language
    "speech_to_text": (SpeechToText, "en", "de"),
    "whisper": (Whisper, "de", "en"),
    "canary": (Canary, "en", "de"),
    "seamless_m4t": (SeamlessM4T, "en", "de"),
}


def newest(weights: Tensor, frames: Tensor) -> Tensor:
    """Mark tokens that attend most to one of the last four frames."""
    return weights.argmax(dim=-1) >= frames - 4


def answered(
    kind: str, folder: Path, capture: str, beams: int, request: Request
) -> list[Hypothesis]:
    """Two answers of three streams each; drafts of the first ones are verified by the second."""
    backbone_class, source, target = BACKBONES[kind]
    backbone = backbone_class(
        name=str(folder),
        alignment=AlignmentConfig(layer=1),
        search=SearchConfig(beams=beams, no_repeat_ngram=3),
        capture=capture,
        max_tokens=20,
        dtype="float64",
    )
    backbone.load()
    assert backbone.steps.capture == capture
    if capture == "auto":
        backbone.steps = StaticSteps("auto", capturer=without_host)
    sessions = [
        new_session(backbone, white_noise(size, size, scale=0.1), source=source, target=target)
        for size in (32_000, 20_480, 47_000)
    ]
    answers = []
    for _ in range(2):
        found = backbone.decode(sessions, [request] * 3, frozenset({Capability.ALIGNMENT}))
        for session, hypothesis in zip(sessions, found, strict=True):
            backbone.commit(session, hypothesis, min(2, len(hypothesis.token_ids)))
        answers += found
    assert backbone.steps.capture == capture
    assert bool(backbone.steps._steps) == (capture != "off")
    return answers


@pytest.mark.parametrize(
    ("beams", "capture", "late"),
    [(1, "static", None), (1, "auto", newest), (3, "auto", None), (3, "static", newest)],
)
@pytest.mark.parametrize("kind", BACKBONES)
def test_backbones_write_the_same(
    folders: Folders, kind: str, beams: int, capture: str, late: StopRule | None
) -> None:
    request = Request(stop_at=late)
    found = answered(kind, folders(kind), capture, beams, request)
    expected = answered(kind, folders(kind), "off", beams, request)
    for one, other in zip(found, expected, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert (one.finished, one.truncated) == (other.finished, other.truncated)
        torch.testing.assert_close(one.alignment, other.alignment, rtol=0, atol=1e-9)
    assert any(len(hypothesis.token_ids) for hypothesis in found)
