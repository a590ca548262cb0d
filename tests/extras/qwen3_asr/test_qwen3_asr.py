"""Qwen3-ASR: transcripts, alignments and encoder are those of Transformers' class."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from tests.fixtures import tiny_checkpoints
from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.cascade.cascade import Cascade
from zoo.backbones.decoding.alignment import EveryHead
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.types import Capability, Cut, Request, Task
from zoo.config import build, compose
from zoo.extras.qwen3_asr.encoder import encode
from zoo.extras.qwen3_asr.qwen3_asr import CHATML, Qwen3Asr
from zoo.streaming.session import Session

ENGLISH = language("en")
ALIGNED = frozenset({Capability.ALIGNMENT})
SECONDS = (1.3, 0.7, 2.9)

pytestmark = pytest.mark.skipif(
    not hasattr(transformers, "Qwen3ASRConfig"), reason="this Transformers has no Qwen3-ASR"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("qwen3_asr")
    tiny_checkpoints.qwen3_asr(folder)
    return folder


@pytest.fixture(scope="module")
def backbone(folder: Path) -> Qwen3Asr:
    backbone = Qwen3Asr(name=str(folder), dtype="float64", max_tokens=12)
    backbone.load()
    return backbone


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    model = transformers.Qwen3ASRForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    )
    return model.eval()


def live(backbone: Qwen3Asr, seconds: float, prefix: str = "") -> Session:
    wave = white_noise(int(seconds * 16_000), seed=int(10 * seconds), scale=0.1)
    session = new_session(backbone, wave, prefix=backbone.prompt.ids(prefix))
    session.target_language = session.source_language = ENGLISH
    return session


def inputs(backbone: Qwen3Asr, session: Session) -> dict[str, Tensor]:
    """What Transformers' class receives for the audio and the text of a stream."""
    wave = session.audio.numpy()
    extractor = transformers.Qwen3ASRFeatureExtractor(feature_size=16, min_length=0)
    features = extractor(wave, sampling_rate=16_000, padding=True, return_attention_mask=True)
    mask = features["attention_mask"]
    count = backbone.embeddings(int(mask.sum()))
    text = (
        f"{CHATML.user}{CHATML.audio * count}<|audio_end|><|im_end|>\n"
        "<|im_start|>assistant\nlanguage English<asr_text>"
    )
    ids = [*backbone.prompt.ids(text), *session.prefix_ids.tolist()]
    return {
        "input_ids": torch.tensor([ids]),
        "input_features": features["input_features"].double(),
        "input_features_mask": mask,
    }


@pytest.mark.parametrize("prefix", ["", "the sea"])
@torch.inference_mode()
def test_words_and_alignments_are_those_of_transformers(
    prefix: str, backbone: Qwen3Asr, theirs: Any
) -> None:
    backbone.align_with(EveryHead())
    session = live(backbone, SECONDS[0], prefix)
    [answer] = backbone.decode([session], [Request()], ALIGNED)
    given = inputs(backbone, session)
    generated = theirs.generate(
        **given,
        max_new_tokens=12,
        do_sample=False,
        eos_token_id=backbone.ends,
        suppress_tokens=backbone.never,
    )[0, given["input_ids"].shape[1] :]
    ended = [token for token in generated.tolist() if token not in backbone.ends]
    assert answer.token_ids.tolist() == ended != []

    ids = torch.cat([given["input_ids"], answer.token_ids[None]], dim=1)
    attentions = theirs(**given | {"input_ids": ids}, output_attentions=True).attentions
    places = (ids[0] == backbone.prompt.audio).nonzero().flatten()
    columns = places[backbone.frame_embeddings(session.audio.numel(), len(places))]
    text = answer.prefix_length + answer.num_new_tokens
    weights = torch.cat([layer[0] for layer in attentions])[:, -text - 1 : -1, columns]
    # The features are float32, and Transformers computes norms and the softmax in float32.
    torch.testing.assert_close(
        answer.require_alignment(), weights.transpose(0, 1), rtol=0, atol=1e-5
    )


def test_a_transcript_is_the_answer_without_written_words(backbone: Qwen3Asr) -> None:
    transcription = Request(task=Task.TRANSCRIPTION)
    [transcript] = backbone.decode([live(backbone, 2.1, "the sea")], [transcription], ALIGNED)
    [answer] = backbone.decode([live(backbone, 2.1)], [Request()], ALIGNED)
    assert transcript.prefix_length == 0
    assert transcript.token_ids.tolist() == answer.token_ids.tolist() != []
    assert transcript.transcript == backbone.text(answer.token_ids.tolist()).strip()
    assert torch.equal(transcript.require_alignment(), answer.require_alignment())


def test_streams_of_a_batch_are_as_alone(backbone: Qwen3Asr) -> None:
    together = backbone.decode(
        [live(backbone, seconds) for seconds in SECONDS], [Request()] * 3, ALIGNED
    )
    for seconds, answer in zip(SECONDS, together, strict=True):
        [alone] = backbone.decode([live(backbone, seconds)], [Request()], ALIGNED)
        assert alone.token_ids.tolist() == answer.token_ids.tolist()
        torch.testing.assert_close(
            alone.require_alignment(), answer.require_alignment(), rtol=0, atol=1e-9
        )


def test_audio_is_forgotten(backbone: Qwen3Asr) -> None:
    session = live(backbone, 2.5)
    backbone.decode([session], [Request()], frozenset())
    cut = Cut(frames=20)
    backbone.forget(session, cut)
    session.forget(cut)
    [answer] = backbone.decode([session], [Request()], frozenset())
    alone = live(backbone, 1)
    alone.audio = session.audio
    [expected] = backbone.decode([alone], [Request()], frozenset())
    assert answer.token_ids.tolist() == expected.token_ids.tolist()


@torch.inference_mode()
def test_recordings_are_encoded_as_by_transformers(backbone: Qwen3Asr, theirs: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    lengths = (3, 57, 100, 240, 512)
    features = [torch.randn(n, 16, generator=generator, dtype=torch.float64) for n in lengths]
    states, _ = encode(backbone.tower, features)
    for frames, hidden in zip(features, states, strict=True):
        padded = torch.zeros(1, 16, -(-len(frames) // 100) * 100, dtype=torch.float64)
        padded[0, :, : len(frames)] = frames.T
        mask = (torch.arange(padded.shape[2]) < len(frames)).long()[None]
        expected = theirs.model.get_audio_features(padded, mask).pooler_output
        torch.testing.assert_close(
            backbone.project(hidden), expected.reshape(-1, 16), rtol=0, atol=1e-6
        )


Make = Callable[..., Cascade]


def test_it_is_the_transcriber_of_a_cascade(folder: Path) -> None:
    given = [
        "system=streamatt",
        "backbone=cascade_qwen3",
        "backbone@backbone.transcriber=qwen3_asr",
    ]
    cascade = build(compose("evaluate", given).system).backbone
    assert Capability.ALIGNMENT in cascade.exposes
    with pytest.raises(ZooError, match="does not translate it to German"):
        build(compose("evaluate", ["system=streamatt", "backbone=qwen3_asr"]).system)
