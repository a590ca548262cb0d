"""CTC: batches equal single streams, no repeated prefix, saved weights, loss by hand, errors."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCTC, Wav2Vec2FeatureExtractor

from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.ctc.ctc import CTC, CTCOutput
from zoo.base.errors import ZooError
from zoo.base.types import Request, Task
from zoo.streaming.session import Session

Make = Any


def session(backbone: CTC, samples: Tensor, prefix: list[int] | None = None) -> Session:
    return new_session(backbone, samples, source="de", prefix=prefix or [])


def test_a_batch_equals_its_streams_alone(make: Make) -> None:
    backbone = make()
    streams = [
        session(backbone, white_noise(samples, seed))
        for seed, samples in enumerate((9_600, 16_111, 320))
    ]
    requests = [Request(task=Task.TRANSCRIPTION)] * 3
    together = backbone.decode(streams, requests, frozenset())
    alone = [backbone.decode([stream], requests[:1], frozenset())[0] for stream in streams]
    assert [one.transcript for one in together] == [one.transcript for one in alone]
    assert len(together[1].transcript or "") > 5
    assert together[0].transcript != together[1].transcript


def test_words_of_the_prefix_are_not_generated_again(make: Make) -> None:
    backbone = make()
    samples = white_noise(16_000)
    [whole] = backbone.decode([session(backbone, samples)], [Request()], frozenset())
    ids = whole.token_ids.tolist()
    [rest] = backbone.decode([session(backbone, samples, ids[:3])], [Request()], frozenset())
    assert rest.prefix_length == 3
    assert rest.token_ids.tolist() == ids[3:]
    space = backbone.spelling.space
    assert rest.word_starts.tolist() == [
        place == 0 or label == space for place, label in enumerate(ids)
    ]
    [short] = backbone.decode([session(backbone, samples, [*ids, 3])], [Request()], frozenset())
    assert short.num_new_tokens == 0
    [transcript] = backbone.decode(
        [session(backbone, samples, ids[:3])], [Request(task=Task.TRANSCRIPTION)], frozenset()
    )
    assert transcript.prefix_length == 0
    assert transcript.token_ids.tolist() == ids


def test_weights_there_and_back(make: Make, tmp_path: Path) -> None:
    backbone = make()
    backbone.save(tmp_path)
    again = make(seed=1, name=str(tmp_path), config=None)
    samples = white_noise(16_000)
    transcripts = [
        model.decode([session(model, samples)], [Request()], frozenset())[0].transcript
        for model in (backbone, again)
    ]
    assert transcripts[0] == transcripts[1]
    halved = tmp_path / "halved"
    backbone.save(halved, torch.bfloat16)
    assert {tensor.dtype for tensor in load_file(halved / "model.safetensors").values()} == {
        torch.bfloat16
    }
    assert AutoModelForCTC.from_pretrained(halved).config.vocab_size == 8


def test_forward_and_decode_encode_the_same_frames(make: Make) -> None:
    backbone = make()
    waves = [white_noise(8_000), white_noise(6_000, 1)]
    given = backbone.extractor(
        [one.numpy() for one in waves], sampling_rate=16_000, return_tensors="pt"
    )
    with torch.no_grad():
        output = backbone(given["input_features"].double(), given["attention_mask"])
    for row, samples in enumerate(waves):
        ids = backbone.spelling.collapsed(output.logits[row, : output.lengths[row]].argmax(-1))
        [answer] = backbone.decode([session(backbone, samples)], [Request()], frozenset())
        assert ids.tolist() == answer.token_ids.tolist()
    assert len(output.hidden) == 3  # before the first layer, and after each of two


def test_the_loss_is_that_of_all_paths_per_letter(make: Make) -> None:
    """Two frames, one letter: the paths are a blank, blank a and a a."""
    backbone = make()
    scores = torch.tensor([[0.5, 0.1, 0.1, 0.3], [0.2, 0.1, 0.1, 0.6]]).log()
    output = CTCOutput(torch.tensor([2]), scores[None], ())
    loss = backbone.loss(output, torch.tensor([3]), torch.tensor([1]))
    assert float(loss) == pytest.approx(-math.log(0.3 * 0.2 + 0.5 * 0.6 + 0.3 * 0.6))


def test_the_receptive_field_of_a_frame(make: Make) -> None:
    """Two spectra: that many frames fit into a wave, and a sample less has one less."""
    backbone = make()
    length, hop = backbone.span
    for samples, frames in ((length + 4 * hop, 5), (length + 4 * hop - 1, 4)):
        given = backbone.extractor(
            white_noise(samples).numpy(), sampling_rate=16_000, return_tensors="pt"
        )
        assert int(given["attention_mask"].sum()) == frames


def test_phases_of_the_recording_do_not_matter(make: Make) -> None:
    backbone = make()
    samples = white_noise(16_000)
    hypotheses = [
        backbone.decode([session(backbone, one)], [Request()], frozenset())[0]
        for one in (samples, -samples)
    ]
    assert hypotheses[0].transcript == hypotheses[1].transcript


def test_errors(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="different letters in lower case, not 'aab'"):
        make(letters="aab")
    with pytest.raises(ZooError, match=r"Unknown field of backbone\.config 'layers'"):
        make(config={"layers": 2})
    with pytest.raises(ZooError, match="tokenizer"):
        make(name=str(tmp_path), config=None)
    make().save(tmp_path)
    Wav2Vec2FeatureExtractor().save_pretrained(tmp_path)
    with pytest.raises(ZooError, match="has no filterbank features"):
        make(name=str(tmp_path), config=None)
