"""The special tokens of a tokenizer that a training makes."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from zoo.backbones.base import TokenizerCorpus
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.text.tokenizer import SPECIAL_TOKENS
from zoo.base.languages import language
from zoo.config import arguments_of, compose
from zoo.training import job
from zoo.training.tokenizer import backbone_class


def special_tokens(folder: Path, multipliers: set[int], *overrides: str) -> list[str]:
    """The tokens before the first byte."""
    cfg = compose("train", list(overrides))
    corpus = TokenizerCorpus(
        talks=[], source=language("en"), target=language("de"), size=500, multipliers=multipliers
    )
    backbone_class(cfg).train_tokenizer(corpus, folder, arguments_of(cfg.backbone))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return tokenizer.convert_ids_to_tokens(range(len(tokenizer) - 256))


def test_a_tokenizer_has_what_its_template_needs(tmp_path: Path) -> None:
    assert special_tokens(tmp_path, {1, 8}) == list(SPECIAL_TOKENS)
    latency = 'backbone.template.latency="<m{multiplier}>"'
    assert special_tokens(tmp_path, {2, 3}, latency) == list(SPECIAL_TOKENS)  # not in the prompt
    instruction = 'backbone.template.instruction="{latency}<|eot_id|>"'
    assert special_tokens(tmp_path, {2, 3}, latency, instruction) == [
        *SPECIAL_TOKENS,
        "<m1>",
        "<m2>",
        "<m3>",
    ]
    assert special_tokens(tmp_path, {4}, "convention=released")[len(SPECIAL_TOKENS) :] == [
        "<latency_1>",
        "<latency_2>",
        "<latency_3>",
        "<latency_4>",
        "<sp_patch>",
    ]


def test_an_evaluation_repeats_the_convention_and_added_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = ["convention=released", "+backbone.encoder.window=12", "++data.folder=talks"]
    trained = ["+backbone.checkpoint=null", "+training.train_talks=3", "seed=1"]
    monkeypatch.setattr(job, "overrides", lambda: [*needed, *trained])
    monkeypatch.setattr(job, "choice_overrides", lambda *groups: ["system=infinisst"])
    monkeypatch.setattr(job, "search_arguments", list)
    backbone: Any = InfiniSST
    assert job.evaluation_overrides(backbone) == ["system=infinisst", *needed]
