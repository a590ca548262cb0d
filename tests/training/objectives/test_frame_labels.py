"""Frame labels: as many of 20 ms as a frame of the encoder has."""

from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.backbones.base import Backbone
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Word
from zoo.data.robust_segments import RobustSegment
from zoo.training.objectives.frame_labels import FrameBatch, FrameLabels

WORDS = (Word("Hello,", 0.04, 0.12), Word("world.", 0.12, 0.28))
TALK = Talk(
    "talk",
    None,
    0.32,
    "en",
    (Segment(0.04, 0.24, "Hello, world.", WORDS),),
    labels={"phonemes": (Word("h", 0.1, 0.2),)},
)


class GivenStates(Backbone):
    """Its frames are set by the test."""

    hidden: Tensor

    def encode_training(self, samples: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
        return self.hidden, self.hidden

    def decode(self, *given: object) -> list[object]:  # type: ignore[override]
        raise AssertionError("not in training")

    def text(self, token_ids: list[int]) -> str:
        raise AssertionError("not in training")


@pytest.mark.parametrize("labels_per_frame", [1, 2, 4])
def test_every_label_has_its_own_prediction(
    labels_per_frame: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RobustSegment, "samples", lambda segment: torch.zeros(5120))
    frames = 16 // labels_per_frame
    objective, backbone = (
        FrameLabels(hidden_size=frames, labels_per_frame=labels_per_frame),
        GivenStates(),
    )
    objective.prepare([TALK], backbone)
    segment = RobustSegment(TALK, 0.0, 1, 0.32, TALK.segments)
    batch = objective.batch([segment, segment])
    assert batch.words[0].tolist() == [0, 0, *[1] * 4, *[2] * 8, 0, 0]  # hello, world
    assert batch.phonemes[0].tolist() == [*[0] * 5, *[1] * 5, *[0] * 6]
    # frame t is unit t, so that a head is a table
    backbone.hidden = torch.eye(frames).expand(2, -1, -1)
    with torch.no_grad():
        head: Any = objective.heads["words"]
        # (labels, classes) of the whole segment
        table = torch.nn.functional.one_hot(batch.words[0], 3).float() * 20
        head.weight.copy_(table.reshape(frames, -1).T)
        head.bias.zero_()
    losses = objective.losses(backbone, batch)
    assert losses["words"] < 1e-3
    assert losses["word_accuracy"] == 1
    shifted = FrameBatch(batch.samples, batch.phonemes, batch.words.roll(3, dims=1), 1)
    assert objective.losses(backbone, shifted)["words"] > 1


def test_the_top_layer_predicts_the_time_of_each_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RobustSegment, "samples", lambda segment: torch.zeros(5120))
    objective, backbone = (
        FrameLabels(hidden_size=8, labels_per_frame=2, places=[0.32, 4.0], place_weight=3.0),
        GivenStates(),
    )
    objective.prepare([TALK], backbone)
    batch = objective.batch([RobustSegment(TALK, 0.0, 1, 0.32, TALK.segments)] * 2)
    backbone.hidden = torch.eye(8).expand(2, -1, -1)
    with torch.no_grad():
        seconds = 0.04 * torch.arange(8)
        turns = torch.stack([2 * torch.pi * seconds / length for length in (0.32, 4.0)], dim=1)
        head: Any = objective.heads["places"]
        head.weight.copy_(torch.cat([turns.sin(), turns.cos()], dim=1).T)
        head.bias.zero_()
        losses = objective.losses(backbone, batch)
        assert losses["places"] < 1e-9
        head.bias += 0.5
        wrong = objective.losses(backbone, batch)
    torch.testing.assert_close(wrong["places"], torch.tensor(0.25))
    torch.testing.assert_close(wrong["loss"], losses["loss"] + 0.75)


def test_places_that_are_none_are_refused() -> None:
    with pytest.raises(ZooError, match="places above 0 seconds"):
        FrameLabels(hidden_size=8, places=[0.0])
