"""All forms emit the same text, and other text is detected."""

import json
import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.fixtures.tiny_checkpoints import phi4_multimodal
from zoo.backbones.architectures.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Hypothesis, Request, SpeechChunk, Task
from zoo.systems.base import StreamingSystem

SMALL = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "initializer_range": 0.4,
    "audio_config.hidden_size": 16,
    "audio_config.intermediate_size": 24,
    "audio_config.num_blocks": 1,
    "audio_config.num_attention_heads": 2,
    "audio_config.ext_pw_out_channel": 16,
    "audio_config.depthwise_separable_out_channel": 16,
    "audio_config.nemo_conv_channels": 4,
    "audio_config.initializer_range": 0.4,
}
Thinker = tuple[StreamingSystem, ChainOfThought]


@pytest.fixture(scope="module")
def overrides(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A network of random weights."""
    folder = tmp_path_factory.mktemp("phi4")
    phi4_multimodal(folder)
    small = [f"backbone.config.{name}={value}" for name, value in SMALL.items()]
    named = ["backbone.name=null", f"backbone.tokenizer={folder}", "backbone.embedding_std=0.5"]
    return [
        *named,
        *small,
        "backbone.dtype=float64",
        "backbone.max_tokens=12",
        "backbone.alignment.layer=0",
        "backbone.alignment.heads=null",
    ]


@pytest.fixture
def thinker(script: ModuleType, overrides: list[str]) -> Thinker:
    """A random network that generates separators and ends; the separator is one token here."""
    torch.manual_seed(2)
    system, backbone = script.load_system([*overrides, 'backbone.template.separator=" We"'], 3)
    with torch.no_grad():
        backbone.decoder.lm_head.weight[[*backbone.prompt.separator, backbone.prompt.end]] *= 1.6
    return system, backbone


@pytest.fixture
def noise() -> Tensor:
    """Six chunks of the system's."""
    return 0.1 * torch.randn(6, 10_240, generator=torch.Generator().manual_seed(1))


def content(hypothesis: Hypothesis) -> tuple[object, ...]:
    ids, starts = hypothesis.token_ids.tolist(), hypothesis.word_starts.tolist()
    return ids, starts, hypothesis.prefix_length, hypothesis.transcript


def test_the_plain_loop_answers_alike(script: ModuleType, thinker: Thinker, noise: Tensor) -> None:
    """Also for earlier audio ends and after cuts; all translations to their end."""
    system, backbone = thinker
    sides = [
        (one, script.on_backbone(system, one).open(""))
        for one in (backbone, script.PlainLoop(backbone))
    ]
    transcripts, translations = set(), set()
    for chunk in noise:
        answers_of: list[list[tuple[object, ...]]] = []
        for side, session in sides:
            session.receive(SpeechChunk(chunk))
            needs = frozenset({Capability.TRANSCRIPT})
            requests = [
                Request(task=Task.TRANSCRIPTION, audio_end=end)
                for end in (None, session.visible_frames - 4)
            ]
            answers = [side.decode([session], [request], needs)[0] for request in requests]
            asked = Request(
                audio_end=session.visible_frames - 4, transcript_ids=answers[-1].token_ids
            )
            answers += [
                side.decode([session], [asked], needs)[0],
                side.decode([session], [Request()], needs)[0],
            ]
            side.commit(session, answers[-1], 1)
            session.prefix_ids = torch.cat([session.prefix_ids, answers[-1].token_ids[:1]])
            answers_of.append([content(answer) for answer in answers])
        assert answers_of[0] == answers_of[1]
        transcripts |= {str(answer[0]) for answer in answers_of[0][:2]}
        translations |= {str(answer[0]) for answer in answers_of[0][2:]}
    assert len(transcripts) > 2
    assert len(translations) > 2


def test_other_words_are_detected(script: ModuleType, overrides: list[str], noise: Tensor) -> None:
    torch.manual_seed(3)
    forms = script.forms(*script.load_system(overrides, 3))
    decoder = forms[script.PLAIN].thinker.decoder
    with torch.no_grad():
        decoder.lm_head.weight.copy_(decoder.lm_head.weight.roll(1, dims=0))
    with pytest.raises(ZooError, match="emit different text after"):
        script.compare(forms, noise.flatten(), chunk=10_240)


def test_it_runs(
    script: ModuleType,
    overrides: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["streamuni_step.py", "--small", "--chunks", "4", *overrides])
    script.main()
    facts = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert list(facts["forms"]) == [script.PLAIN, script.RELEASED, script.OURS]
    passes = [form["passes"] for form in facts["forms"].values()]
    assert passes == sorted(passes, reverse=True)
    assert passes[-1] < passes[0]


def test_the_shipped_model_needs_a_third_of_the_passes_at_most(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real words, which ``main`` compares."""
    monkeypatch.setattr(sys, "argv", ["streamuni_step.py", "--small", "--chunks", "12"])
    script.main()
    facts = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert facts["words"] >= 10
    assert facts["passes_speedup"] >= 3
    assert facts["released_passes_speedup"] >= 2
    assert {"time_speedup", "released_time_speedup"} < set(facts)


@pytest.mark.parametrize("given", [["--chunks", "0"], ["--k", "-1"]])
def test_impossible_sizes_are_refused(
    script: ModuleType, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        script.arguments(given)
    assert left.value.code == 2
    assert given[0] in capsys.readouterr().err


def test_another_backbone_is_refused(script: ModuleType) -> None:
    with pytest.raises(ZooError, match="a speech chain of thought"):
        script.load_system(["system=streamatt"], 3)
