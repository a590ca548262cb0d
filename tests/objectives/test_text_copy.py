"""The text encoder of a tiny random SeamlessM4T learns to be read from; what reads it stays as it is."""

import pytest
import torch

from zoo.backbones.common.speech_llm.prompt import LEAN
from zoo.backbones.common.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.data.clips import Clip
from zoo.errors import ZooError
from zoo.objectives.text_copy import TextCopy


def test_encoder_and_decoder_are_fed_the_same_text(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = TextCopy()
    objective.prepare([], speaking)
    batch = objective.batch(clips[:1], 1)
    german, end = speaking.tokenizer.convert_tokens_to_ids("__deu__"), speaking.end
    text = speaking.tokenizer.encode("Das Haus fiel.", add_special_tokens=False)
    assert batch.read[0].tolist() == [german, *text, end]
    assert batch.inputs[0].tolist() == [speaking.start, german, *text]
    assert batch.labels[0].tolist() == [-100, *text, end]


def test_the_reader_learns_and_the_rest_stays(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = TextCopy()
    objective.prepare([], speaking)
    before = {name: value.clone() for name, value in speaking.state_dict().items()}
    speaking.trainable(["reader"])
    speaking.train()
    optimizer = torch.optim.AdamW([p for p in speaking.parameters() if p.requires_grad], lr=2e-2)
    batch = objective.batch(clips, 1)
    told = []
    for _ in range(60):
        loss = objective.losses(speaking, batch)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        told.append(loss.item())
    assert told[-1] < 0.8 * told[0]
    changed = {
        name for name, value in speaking.state_dict().items() if not value.equal(before[name])
    }
    assert changed
    assert all(name.startswith("reader.") and "embed" not in name for name in changed)


def test_a_row_that_is_padded_costs_what_it_costs_alone(
    speaking: SeamlessM4TSpeech, clips: list[Clip]
) -> None:
    objective = TextCopy()
    objective.prepare([], speaking)
    speaking.eval()
    sizes, costs = [], []
    with torch.no_grad():
        for clip in clips:
            batch = objective.batch([clip], 1)
            sizes.append(int((batch.labels >= 0).sum()))
            costs.append(float(objective.losses(speaking, batch)["loss"]) * sizes[-1])
        together = float(objective.losses(speaking, objective.batch(clips, 1))["loss"])
    assert together == pytest.approx(sum(costs) / sum(sizes), rel=1e-4)


def test_a_backbone_without_a_text_encoder_is_refused() -> None:
    backbone = InfiniSST(encoder=EncoderConfig(), decoder={}, template=LEAN, tokenizer="none")
    with pytest.raises(ZooError, match=r"with its text encoder .*, not this InfiniSST"):
        TextCopy().prepare([], backbone)
