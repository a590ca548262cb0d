"""Canary alone: prompts and languages, control tokens, decoder positions, frames of 80 ms."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoProcessor

from tests.fixtures.streams import new_session, white_noise
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.search import SearchConfig
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.types import Capability, Request, Task
from zoo.config import build, compose
from zoo.extras import canary
from zoo.extras.canary import Canary
from zoo.streaming.session import Session

Folders = Callable[..., Path]
PLAIN = frozenset[Capability]()
ALIGNED = frozenset({Capability.ALIGNMENT})


def load(folder: Path, **options: Any) -> Canary:
    settings = {"dtype": "float64", "max_tokens": 12, "search": SearchConfig()} | options
    backbone = Canary(name=str(folder), **settings)
    backbone.load()
    return backbone


def opened(backbone: Canary, source: str, target: str, samples: int = 0) -> Session:
    """A stream that has received noise."""
    audio = white_noise(samples, seed=samples, scale=0.1)
    return new_session(backbone, audio, source=source, target=target)


@pytest.mark.parametrize("punctuation", [True, False])
@pytest.mark.parametrize(
    ("source", "target", "task", "written"),
    [
        ("en", "de", Task.TRANSLATION, "de"),
        ("de", "en", Task.TRANSLATION, "en"),
        ("de", "en", Task.TRANSCRIPTION, "de"),
        ("de", "de", Task.TRANSLATION, "de"),
    ],
)
def test_the_opening_is_the_models_prompt_with_both_languages(
    source: str, target: str, task: Task, written: str, punctuation: bool, folders: Folders
) -> None:
    backbone = load(folders("canary"), punctuation=punctuation)
    opening = backbone.opening(opened(backbone, source, target), task)
    request = AutoProcessor.from_pretrained(folders("canary")).apply_transcription_request(
        white_noise(16_000).numpy(),
        source_language=source,
        target_language=written,
        punctuation=punctuation,
    )
    assert opening == request["decoder_input_ids"][0].tolist()
    tokens = backbone.tokenizer.convert_ids_to_tokens(opening)
    assert tokens[3:6] == [
        f"<|{source}|>",
        f"<|{written}|>",
        "<|pnc|>" if punctuation else "<|nopnc|>",
    ]


def test_a_transcript_is_in_the_source_language_and_has_no_prefix(folders: Folders) -> None:
    backbone = load(folders("canary"))
    session, same = opened(backbone, "de", "en", 20_480), opened(backbone, "de", "de", 20_480)
    session.prefix_ids = torch.tensor([40, 41])
    [transcript] = backbone.decode([session], [Request(task=Task.TRANSCRIPTION)], PLAIN)
    [expected] = backbone.decode([same], [Request()], PLAIN)
    assert transcript.prefix_length == 0
    assert transcript.token_ids.tolist() == expected.token_ids.tolist() != []
    assert transcript.transcript == backbone.text(expected.token_ids.tolist()).strip()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            "de",
            "fr",
            "from and into English only, not de-fr; choose target_language=en, or target_l",
        ),
        ("zh", "en", "Canary does not support Chinese; choose source_language from: bg, cs, da"),
        ("en", "ja", "Canary does not support Japanese; choose target_language from: bg, cs, da"),
    ],
)
def test_languages_are_refused_before_weights_are_read(
    source: str, target: str, message: str, tmp_path: Path
) -> None:
    given = ["system=streamatt", "backbone=canary", f"backbone.name={tmp_path}"]
    with pytest.raises(ZooError, match=message):
        build(
            compose(
                "evaluate", [*given, f"source_language={source}", f"target_language={target}"]
            ).system
        )


def test_a_language_without_a_token_is_refused(folders: Folders) -> None:
    backbone = load(folders("canary"))
    backbone.check_languages(language("en"), language("fr"))  # canary-1b-v2 has it
    with pytest.raises(ZooError, match=r"target_language of .*'fr'.*de, en, es"):
        opened(backbone, "en", "fr")


def test_control_tokens_are_never_generated(folders: Folders) -> None:
    backbone = load(folders("canary"))
    tokens = {*backbone.tokenizer.convert_ids_to_tokens(backbone.never)}
    assert {"<|en|>", "<|startoftranscript|>", "<|notimestamp|>", "<pad>"} <= tokens
    assert "<|endoftext|>" not in tokens
    assert backbone.end not in backbone.never


def test_kept_text_and_hypothesis_stay_within_the_decoder_positions(folders: Folders) -> None:
    backbone = load(folders("canary", positions=32), max_tokens=40)
    session = opened(backbone, "en", "de", 20_480)
    session.prefix_ids = torch.tensor([40] * 18)
    [hypothesis] = backbone.decode([session], [Request()], ALIGNED)
    assert hypothesis.num_new_tokens <= 32 - 9 - 18
    session.prefix_ids = torch.tensor([40] * 23)
    with pytest.raises(ZooError, match="32 positions, but 32 tokens of its opening and of written"):
        backbone.decode([session], [Request()], PLAIN)


@torch.inference_mode()
def test_the_alignment_is_the_cross_attention_of_transformers(folders: Folders) -> None:
    backbone = load(folders("canary"), alignment=AlignmentConfig(layer=3))
    session = opened(backbone, "en", "de", 20_480)
    [hypothesis] = backbone.decode([session], [Request()], ALIGNED)
    opening = backbone.opening(session, Task.TRANSLATION)
    model = transformers.CanaryForConditionalGeneration.from_pretrained(
        folders("canary"), dtype=torch.float64, attn_implementation="eager"
    ).eval()
    output = model.model.decoder(
        torch.tensor([[*opening, *hypothesis.token_ids.tolist()]]),
        encoder_hidden_states=session.backbone_state.memory[None],
        output_attentions=True,
    )
    rows = output.cross_attentions[3][0].mean(dim=0)  # (positions, frames)
    first = len(opening) - 1
    expected = rows[first : first + hypothesis.num_new_tokens]
    assert hypothesis.num_new_tokens > 2
    torch.testing.assert_close(hypothesis.alignment, expected, rtol=0, atol=1e-6)


def test_the_defaults_are_those_of_the_documentation() -> None:
    default = Canary(name="anything")
    assert (default.alignment.layer, default.alignment.normalisation) == (3, "z_score")
    assert (default.search.beams, default.frame_samples) == (5, 1280)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("config.json", {"encoder_config": {"subsampling_factor": 4}}, "of 4; only 8"),
        ("config.json", {"encoder_config": {"num_mel_bins": 32}}, "feature_size=16; only 32"),
        ("processor_config.json", {"feature_extractor": {"n_fft": 400}}, "n_fft=400; only 512"),
        (
            "processor_config.json",
            {"feature_extractor": {"preemphasis": 0.9}},
            "preemphasis=0.9; only 0.97",
        ),
    ],
)
def test_another_encoder_or_extractor_is_refused(
    file: str, changes: dict[str, dict[str, float]], message: str, folders: Folders, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders("canary"), tmp_path / "copy"))
    settings = json.loads((folder / file).read_text())
    for part, values in changes.items():
        settings[part] |= values
    (folder / file).write_text(json.dumps(settings))
    if file == "config.json":  # weights of another shape are refused earlier
        config = transformers.CanaryConfig.from_pretrained(folder)
        transformers.CanaryForConditionalGeneration(config).save_pretrained(folder)
    with pytest.raises(ZooError, match=message):
        load(folder)


def test_a_model_without_a_prompt_is_refused(folders: Folders, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders("canary"), tmp_path / "copy"))
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ZooError, match=r"has no prompt \(chat_template\.jinja\)"):
        load(folder)


def test_an_old_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))  # without Canary
    with pytest.raises(ZooError, match=r"^Canary needs Transformers 5\.23 or newer, but 5\."):
        canary.canary_classes()
