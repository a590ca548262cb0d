"""Recognisers by name: words of the network, single and batched, and errors for missing models."""

import json
from itertools import groupby
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoProcessor,
    Wav2Vec2BertForCTC,
    Wav2Vec2ForCTC,
    WhisperForConditionalGeneration,
    WhisperProcessor,
)

from tests.fixtures import tiny_checkpoints
from zoo.alignment.recognisers.base import Recogniser
from zoo.alignment.recognisers.named import NamedRecogniser
from zoo.alignment.recognisers.pauses import split_at_pauses
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE
from zoo.config import build, compose


def wave(seconds: float, seed: int = 0) -> Tensor:
    return 0.1 * torch.randn(
        round(seconds * SAMPLE_RATE), generator=torch.Generator().manual_seed(seed)
    )


def loaded(folder: Path, **options: object) -> NamedRecogniser:
    recogniser = NamedRecogniser(name=str(folder), **options)  # type: ignore[arg-type]
    assert recogniser.unavailable_reason() is None
    recogniser.load()
    return recogniser


def collapsed(folder: Path, samples: Tensor) -> str:
    """Transcript of a wav2vec 2.0, by hand."""
    network = Wav2Vec2ForCTC.from_pretrained(folder).eval()
    values = (samples - samples.mean()) / (samples.var(unbiased=False) + 1e-7).sqrt()
    with torch.no_grad():
        labels = network(values[None]).logits[0].argmax(-1).tolist()
    pieces = {
        number: piece for piece, number in json.loads((folder / "vocab.json").read_text()).items()
    }
    found = [pieces[label] for label, _ in groupby(labels)]
    return "".join(" " if piece == "|" else piece for piece in found if piece != "<pad>").strip()


@pytest.mark.parametrize("kind", ["masked", "unmasked"])
def test_a_ctc_model_returns_its_best_path(kind: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    samples = wave(1.3)
    [text] = loaded(folder).transcribe([samples])
    assert len(text) > 5
    assert text == collapsed(folder, samples)


def test_a_wav2vec2_bert_receives_its_filterbanks(bert: Path) -> None:
    samples = wave(1.3)
    processor = AutoProcessor.from_pretrained(bert)
    given = processor(samples.numpy(), sampling_rate=SAMPLE_RATE, return_tensors="pt")
    frames = int(given["attention_mask"].sum())
    with torch.no_grad():
        labels = Wav2Vec2BertForCTC.from_pretrained(bert).eval()(**given).logits.argmax(-1)
    [text] = loaded(bert).transcribe([samples])
    assert len(text) > 5
    assert [text] == [line.strip() for line in processor.batch_decode(labels[:, :frames])]


@pytest.mark.parametrize("kind", ["masked", "unmasked", "bert", "whisper"])
def test_company_changes_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    options = {"language": "de"} if kind == "whisper" else {}
    recogniser = loaded(request.getfixturevalue(kind), batch_size=3, dtype="float64", **options)
    waves = [wave(seconds, seed) for seed, seconds in enumerate((0.7, 1.9, 0.05, 1.1))]
    together = recogniser.transcribe(waves)
    assert together == [recogniser.transcribe([one])[0] for one in waves]
    assert len(set(together)) > 2


def test_whisper_receives_its_language(whisper: Path) -> None:
    samples = wave(2.0)
    network = WhisperForConditionalGeneration.from_pretrained(whisper)
    processor: WhisperProcessor = AutoProcessor.from_pretrained(whisper)
    given = processor(
        samples.numpy(), sampling_rate=SAMPLE_RATE, return_tensors="pt", return_attention_mask=True
    )
    transcripts = {}
    for language in ("de", "es"):
        ids = network.generate(
            **given, language=language, task="transcribe", do_sample=False, num_beams=1
        )
        [text] = processor.batch_decode(ids, skip_special_tokens=True)
        transcripts[language] = text.strip()
        assert loaded(whisper, language=language).transcribe([samples]) == [text.strip()]
    assert transcripts["de"] != transcripts["es"]


def test_canary_receives_its_prompt(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", minversion="5.23")
    tiny_checkpoints.canary(tmp_path / "canary", positions=32)
    samples = [wave(2.0), wave(1.1, 1)]
    network = transformers.CanaryForConditionalGeneration.from_pretrained(tmp_path / "canary")
    processor = AutoProcessor.from_pretrained(tmp_path / "canary")
    transcripts = {}
    for language in ("de", "es"):
        expected = []
        for one in samples:
            given = processor.apply_transcription_request(one.numpy(), source_language=language)
            length = given["decoder_input_ids"].shape[1]
            ids = network.generate(
                **given, do_sample=False, num_beams=1, max_new_tokens=32 - length
            )
            expected.append(processor.decode(ids[0, length:], skip_special_tokens=True).strip())
        recogniser = loaded(tmp_path / "canary", language=language, batch_size=1)
        transcripts[language] = recogniser.transcribe(samples)
        assert transcripts[language] == expected
    assert transcripts["de"] != transcripts["es"]
    for unknown in ("ja", None):
        with pytest.raises(ZooError, match=r"does not recognise .*; set recogniser.language to"):
            loaded(tmp_path / "canary", language=unknown)


def test_a_sequence_model_that_needs_an_instruction_is_refused(tmp_path: Path) -> None:
    config = {
        "architectures": ["GraniteSpeechForConditionalGeneration"],
        "model_type": "granite_speech",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ZooError, match=r"is not a recogniser but GraniteSpeechFor.* of type whisper"
    ):
        NamedRecogniser(name=str(tmp_path)).load()


@pytest.mark.parametrize(("language", "separator"), [(None, " "), ("de", " "), ("zh", "")])
def test_long_speech_is_recognised_in_pieces(
    masked: Path, language: str | None, separator: str
) -> None:
    samples = torch.cat([wave(1.2, 1), torch.zeros(SAMPLE_RATE // 2), wave(1.5, 2)])
    recogniser = loaded(masked, piece_seconds=2.0, language=language)
    first, second = split_at_pauses(samples, 2 * SAMPLE_RATE)
    assert recogniser.transcribe([samples]) == [
        separator.join(recogniser.transcribe([first, second]))
    ]


def test_silence_gives_an_empty_transcript(masked: Path) -> None:
    assert loaded(masked).transcribe([torch.zeros(0), torch.zeros(SAMPLE_RATE), wave(0.5)])[:2] == [
        "",
        "",
    ]
    assert loaded(masked).transcribe([]) == []


def test_an_optional_recogniser_that_is_missing_is_reported(tmp_path: Path) -> None:
    name = str(tmp_path / "recogniser_minitalks_es")
    reason = NamedRecogniser(name=name, optional=True).unavailable_reason()
    assert reason is not None
    assert name in reason
    with pytest.raises(ZooError, match="No recogniser could be loaded"):
        NamedRecogniser(name=name).unavailable_reason()


def test_other_models_are_refused_as_recognisers(tmp_path: Path, whisper: Path) -> None:
    with pytest.raises(ZooError, match=r"no readable config\.json"):
        NamedRecogniser(name=str(tmp_path)).unavailable_reason()
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})
    )
    with pytest.raises(ZooError, match="is not a recogniser but LlamaForCausalLM"):
        NamedRecogniser(name=str(tmp_path)).unavailable_reason()
    with pytest.raises(
        ZooError,
        match=r"does not recognise 'ro'; choose recogniser\.language from: de, en, es, ja, zh",
    ):
        loaded(whisper, language="ro")
    with pytest.raises(ZooError, match="piece_seconds from 1 to 30"):
        NamedRecogniser(name="any", piece_seconds=40)


@pytest.mark.parametrize("choice", ["minitalks", "named"])
def test_a_configuration_builds_one(choice: str) -> None:
    recogniser = build(compose("evaluate", [f"recogniser={choice}"]).recogniser)
    assert isinstance(recogniser, Recogniser)
    assert recogniser.language == "de"
    assert recogniser.optional == (choice == "minitalks")
