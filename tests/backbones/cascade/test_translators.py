"""Text LLMs of several architectures translate as Transformers' own classes do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    PreTrainedModel,
)

from tests.backbones.cascade.conftest import SHAPE, TRANSLATORS, WINDOW, Make, TimingTranscriber
from zoo.backbones.cascade.cascade import Cascade
from zoo.backbones.cascade.data import TextBatch
from zoo.backbones.cascade.prompt import PromptFields
from zoo.backbones.decoding.alignment import EveryHead
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.decoding.teacher_forcing import IGNORED
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Request
from zoo.streaming.session import Session

Live = Callable[..., Session]
ALIGNED = frozenset({Capability.ALIGNMENT})
LEVELS = [1, 2, 3, 4, 5, 6]  # one word per frame


def translating(make: Make, kind: str, **options: object) -> Cascade:
    return make(
        config={"model_type": kind, **SHAPE, **TRANSLATORS[kind]},
        transcriber=TimingTranscriber(),
        prefix_place="answer",
        end_scale=1.0,
        **options,
    )


def published(backbone: Cascade, folder: Path) -> PreTrainedModel:
    """The translator as Transformers loads it, with its own attention."""
    backbone.save(folder)
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    )
    if hasattr(model.config, "num_experts"):
        model.set_experts_implementation("eager")
    return model.eval()


def prompt_ids(backbone: Cascade, session: Session) -> list[int]:
    text = backbone.transcriber.text(LEVELS)
    opening = backbone.prompt.opening(
        PromptFields(
            source=session.source_language,
            target=session.target_language,
            transcript=text,
            translation=backbone.text(session.prefix_ids.tolist()),
        )
    )
    return [*opening, *session.prefix_ids.tolist()]


@pytest.mark.parametrize("kind", sorted(TRANSLATORS))
@torch.inference_mode()
def test_words_and_alignments_are_those_of_transformers(
    kind: str, make: Make, live: Live, tmp_path: Path
) -> None:
    backbone = translating(make, kind)
    backbone.align_with(EveryHead())
    session = live(backbone, LEVELS, "Julia hat")
    [answer] = backbone.decode([session], [Request()], ALIGNED)
    [plain] = backbone.decode([session], [Request()], frozenset())
    assert answer.token_ids.tolist() == plain.token_ids.tolist() != []

    model = published(backbone, tmp_path)
    prompt = prompt_ids(backbone, session)
    assert len(prompt) > 2 * WINDOW
    generated = model.generate(  # type: ignore[operator]
        torch.tensor([prompt]),
        max_new_tokens=backbone.max_tokens,
        do_sample=False,
        eos_token_id=backbone.ends,
        pad_token_id=0,
        suppress_tokens=backbone.never,
    )[0, len(prompt) :]
    ended = [token for token in generated.tolist() if token not in backbone.ends]
    assert answer.token_ids.tolist() == ended

    text = torch.tensor([[*prompt, *ended]])
    attentions = model(text, output_attentions=True).attentions
    fields = PromptFields(
        source=session.source_language,
        target=session.target_language,
        transcript=backbone.transcriber.text(LEVELS),
        translation="",
    )
    characters = backbone.prompt.transcript_characters(fields)
    source = backbone._source_tokens(session, backbone_transcript(session))
    places = [place for place, last in enumerate(characters) if last is not None]
    begin = len(prompt) - answer.prefix_length - 1
    weights = torch.cat([layer[0] for layer in attentions])[:, begin:-1, places]
    expected = source.at_frames(weights.transpose(0, 1))
    # Transformers computes norms and the softmax in float32.
    torch.testing.assert_close(answer.require_alignment(), expected, rtol=0, atol=1e-5)
    if kind == "gemma3_text":  # the layers with a window do not reach the transcript
        assert not expected[:, :4].any()
        assert expected[:, 4:8].all()


def backbone_transcript(session: Session) -> Any:
    [transcript] = session.backbone_state.transcripts.values()
    return transcript


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("kind", sorted(TRANSLATORS))
def test_a_batch_is_translated_as_its_streams_alone(
    beams: int, kind: str, make: Make, live: Live
) -> None:
    backbone = translating(make, kind, search=SearchConfig(beams=beams))
    streams = [(LEVELS, "Julia hat"), ([7, 8], ""), ([9, 1, 2], "Wir fahren mit dem Zug")]
    together = backbone.decode([live(backbone, *one) for one in streams], [Request()] * 3, ALIGNED)
    for stream, answer in zip(streams, together, strict=True):
        [alone] = backbone.decode([live(backbone, *stream)], [Request()], ALIGNED)
        assert alone.token_ids.tolist() == answer.token_ids.tolist()
        torch.testing.assert_close(
            answer.require_alignment(), alone.require_alignment(), rtol=0, atol=1e-6
        )


def test_the_text_part_of_a_gemma_3_with_vision(
    make: Make, live: Live, tokenizer_folder: Path, tmp_path: Path
) -> None:
    text = translating(make, "gemma3_text")
    vision = {
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "image_size": 28,
        "patch_size": 14,
    }
    config = Gemma3Config(text_config=text.translator.config.to_dict(), vision_config=vision)
    whole = Gemma3ForConditionalGeneration(config).double()
    whole.model.language_model.load_state_dict(text.translator.model.state_dict())
    whole.tie_weights()
    whole.save_pretrained(tmp_path)
    backbone = make(
        name=str(tmp_path), config=None, transcriber=TimingTranscriber(), prefix_place="answer"
    )
    for needs in (ALIGNED, frozenset[Capability]()):
        [answer], [expected] = (
            each.decode([live(each, LEVELS, "Julia hat")], [Request()], needs)
            for each in (backbone, text)
        )
        assert answer.token_ids.tolist() == expected.token_ids.tolist() != []
    backbone.save(tmp_path / "text")
    again = make(name=str(tmp_path / "text"), config=None, transcriber=TimingTranscriber())
    for name, weight in backbone.translator.named_parameters():
        assert torch.equal(weight, again.translator.get_parameter(name)), name
    with pytest.raises(ZooError, match=r"one of: phi3, .* gemma3_text; not gemma3"):
        make(config={"model_type": "gemma3", **SHAPE})


@pytest.mark.parametrize("kind", sorted(TRANSLATORS))
def test_every_part_of_a_translator_is_trained(kind: str, make: Make) -> None:
    backbone = translating(make, kind)
    ids = torch.arange(6, 30).reshape(2, 12)
    labels = ids.clone()
    labels[:, :4] = IGNORED
    backbone(TextBatch(ids, labels))["loss"].backward()
    for name, parameter in backbone.translator.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
