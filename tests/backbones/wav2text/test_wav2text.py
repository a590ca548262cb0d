"""Wav2Text: padded rows equal single rows, saved weights, transcripts, errors."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig
from zoo.backbones.wav2text.transcript import SourceWords, best_path, label_frames
from zoo.backbones.wav2text.wav2text import Wav2Text
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Talk
from zoo.base.types import Capability, Request, Task
from zoo.data.excerpts import Excerpt
from zoo.streaming.session import Session

Make = Callable[..., Wav2Text]
GERMAN = language("de")


def noise(samples: int, seed: int = 0) -> Tensor:
    return white_noise(samples, seed, scale=0.3)


@pytest.fixture
def excerpts(tmp_path: Path) -> list[Excerpt]:
    audio.write(tmp_path / "talk.wav", noise(160_000))
    talk = Talk("talk", tmp_path / "talk.wav", 10.0, "en", ())
    return [
        Excerpt(talk, 0.0, 6.5, ("The", "old", "cat."), ("Die", "alte", "Katze."), GERMAN),
        Excerpt(talk, 5.03, 6.11, ("cat",), ("Katze",), GERMAN),
        Excerpt(talk, 8.0, 8.3, (), (), GERMAN),
    ]


def losses(backbone: Wav2Text, excerpts: list[Excerpt]) -> dict[str, float]:
    with torch.no_grad():
        return {
            name: float(value) for name, value in backbone(backbone.collator()(excerpts)).items()
        }


def test_rows_of_a_batch_equal_each_alone(make: Make, excerpts: list[Excerpt]) -> None:
    backbone = make()
    together, alone = (
        losses(backbone, excerpts),
        [losses(backbone, [excerpt]) for excerpt in excerpts],
    )
    # space in front, end
    tokens = [len(excerpt.text.encode()) + bool(excerpt.text) + 1 for excerpt in excerpts]
    frames = [82, 14, 4]
    for name, sizes in (("translation", tokens), ("transcript", frames)):
        mean = sum(one[name] * size for one, size in zip(alone, sizes, strict=True)) / sum(sizes)
        assert together[name] == pytest.approx(mean, rel=1e-9), name
    assert together["loss"] == pytest.approx(together["translation"] + together["transcript"])


def test_a_batch_is_collated_in_a_worker_and_masks_its_padding(
    make: Make, excerpts: list[Excerpt]
) -> None:
    batch = pickle.loads(pickle.dumps(make().collator()))(excerpts)
    assert batch.audio.shape == (3, 82 * 1280)
    assert batch.lengths.tolist() == [82, 14, 4]
    assert batch.words.tolist() == [3, 2, 1, 1]
    assert batch.word_counts.tolist() == [3, 1, 0]
    assert (batch.labels != -100).sum(dim=1).tolist() == [
        len(" Die alte Katze.") + 1,
        len(" Katze") + 1,
        1,
    ]


def test_forced_words_are_inputs_without_labels(make: Make, excerpts: list[Excerpt]) -> None:
    collate = make().collator()
    free, forced = collate(excerpts[:1]), collate([replace(excerpts[0], num_forced=2)])
    assert forced.inputs.equal(free.inputs)
    assert (forced.labels == -100).sum() == len(" Die alte")
    assert forced.labels[0, len(" Die alte") :].equal(free.labels[0, len(" Die alte") :])


def test_a_frozen_encoder_gets_no_gradient_and_the_transcript_reaches_its_head_only(
    make: Make, excerpts: list[Excerpt]
) -> None:
    backbone = make()
    backbone.trainable(["adapter", "norm", "decoder", "transcriber"])
    backbone(backbone.collator()(excerpts))["loss"].backward()
    assert all(parameter.grad is None for parameter in backbone.encoder.parameters())
    assert backbone.adapter.projection.weight.grad is not None
    backbone = make()
    backbone(backbone.collator()(excerpts))["transcript"].backward()
    touched = {
        name.split(".")[0]
        for name, p in backbone.named_parameters()
        if p.grad is not None and p.grad.any()
    }
    assert touched == {"transcriber"}


def test_weights_there_and_back(make: Make, excerpts: list[Excerpt], tmp_path: Path) -> None:
    first = make(seed=1)
    first.save(tmp_path / "export")
    second = make(seed=2, tokenizer=None, checkpoint=str(tmp_path / "export"))
    assert losses(first, excerpts) == losses(second, excerpts)
    assert second.source_words == first.source_words
    tied = second.decoder.module.embed_tokens.weight.data_ptr()
    assert second.decoder.head.weight.data_ptr() == tied
    first.save(tmp_path / "half", torch.bfloat16)
    assert losses(make(checkpoint=str(tmp_path / "half")), excerpts)["loss"] == pytest.approx(
        losses(first, excerpts)["loss"], rel=0.05
    )


def stream(backbone: Wav2Text, samples: int, seed: int) -> Session:
    return new_session(backbone, noise(samples, seed))


def test_memories_of_a_batch_of_streams_equal_each_alone(make: Make) -> None:
    backbone = make()
    sessions = [
        stream(backbone, samples, seed) for seed, samples in enumerate((70_000, 1_281, 20_000))
    ]
    waves = [session.audio for session in sessions]
    with torch.inference_mode():
        together = backbone.encode_audio(sessions, waves)
        alone = [
            backbone.encode_audio([session], [wave])[0]
            for session, wave in zip(sessions, waves, strict=True)
        ]
    assert [len(memory) for memory in together] == [55, 2, 16]
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_a_transcript_is_the_best_path_of_the_head(make: Make) -> None:
    backbone = make()
    sessions = [stream(backbone, samples, seed) for seed, samples in enumerate((70_000, 20_000))]
    with torch.inference_mode():
        backbone.transcriber.weight.normal_(std=3)  # so that the path moves
        memories = backbone.encode_audio(sessions, [session.audio for session in sessions])
        answers = backbone.transcribe(
            sessions, [Request(task=Task.TRANSCRIPTION)] * 2, memories, frozenset()
        )
        aligned = backbone.decode(
            sessions, [Request(task=Task.TRANSCRIPTION)] * 2, frozenset({Capability.ALIGNMENT})
        )
    for session, memory, answer, other in zip(sessions, memories, answers, aligned, strict=True):
        assert answer.alignment is None
        assert other.token_ids.tolist() == answer.token_ids.tolist()
        assert other.require_alignment().shape == (answer.num_new_tokens, len(memory))
        with torch.inference_mode():
            path = backbone.transcriber(session.backbone_state.hidden).argmax(-1).tolist()
        kept = [
            label
            for place, label in enumerate(path)
            if label and (place == 0 or label != path[place - 1])
        ]
        assert answer.token_ids.tolist() == kept
        assert answer.transcript == " ".join(("cat", "old", "the")[label - 1] for label in kept)
        assert answer.word_starts.all()
        assert (answer.finished, answer.prefix_length) == (True, 0)
    assert any(answer.num_new_tokens > 1 for answer in answers)


def test_best_path_by_hand() -> None:
    path = torch.tensor([0, 2, 2, 0, 2, 1, 1, 0])
    assert best_path(torch.eye(3)[path]) == [2, 2, 1]
    assert best_path(torch.eye(3)[torch.tensor([0, 0])]) == []


def test_frames_of_labels_by_hand() -> None:
    path = torch.tensor([0, 2, 2, 0, 2, 1, 1, 0])
    certain = 100 * torch.eye(3)[path]  # a probability of 1
    expected = [[1.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    assert label_frames(certain, merged=2).tolist() == expected
    assert label_frames(torch.eye(3)[torch.tensor([0, 0])], merged=2).shape == (0, 1)


def test_source_words_are_spelled_alike(tmp_path: Path) -> None:
    words = SourceWords.of(["Cat.", "the", "The", "--"])
    assert words.words == ("cat", "the")
    assert words.ids(["THE", "dog", "cat!"]) == [2, 1]
    words.write(tmp_path)
    assert SourceWords.read(tmp_path) == words
    (tmp_path / "source_words.json").write_text("{}")
    with pytest.raises(ZooError, match="must be a list of words"):
        SourceWords.read(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": None}, "needs a tokenizer"),
        ({"block_chunks": 0}, "block_chunks of at least 1, not 0"),
        ({"decoder": {"d_modell": 16}}, "has fields that a Speech2Text decoder lacks: d_modell"),
        ({"checkpoint": "nowhere"}, "There is no trained Wav2Text in nowhere"),
        ({"tokenizer": "nowhere"}, "nowhere"),
    ],
)
def test_errors_are_one_sentence(make: Make, options: dict[str, object], message: str) -> None:
    with pytest.raises(ZooError) as refusal:
        make(**options)
    assert message in str(refusal.value)


def test_weights_of_another_network_are_refused(make: Make, tmp_path: Path) -> None:
    make().save(tmp_path)
    with pytest.raises(ZooError, match="does not fit the network"):
        make(
            checkpoint=str(tmp_path),
            encoder=EncoderConfig(conv_channels=(4,) * 7, hidden=16, layers=1, heads=2),
        )
