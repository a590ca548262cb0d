"""Translations of prefixes by a causal LM: the plumbing, with a network that has no knowledge."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from tests.apps.prepare.conftest import segment
from zoo.apps.prepare.items import Notes, new_item
from zoo.apps.prepare.job import prepare
from zoo.apps.prepare.steps.prefixes import PrefixesStep
from zoo.apps.prepare.translators.causal_lm import CausalLM
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Talk, Target
from zoo.config import compose
from zoo.data.corpora import Aligned

ENGLISH, GERMAN = language("en"), language("de")
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
ANSWERS = {"d": "X", "s": "Y", "n": "Z"}  # by the last letter of a text


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose next token depends on the last one only: ``ANSWERS``, then the end.

    Letters that have no answer are repeated without end.
    """
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer(["a"], vocabulary_size=270)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    chain(tokenizer).save_pretrained(folder)
    return folder


def chain(tokenizer: PreTrainedTokenizerBase) -> LlamaForCausalLM:
    size = len(tokenizer)
    width = 288  # at least the vocabulary, so that embeddings are one-hot
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=width,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=4,
        bos_token_id=None,
        eos_token_id=None,
    )
    network = LlamaForCausalLM(config)
    network.generation_config.update(repetition_penalty=1e6)  # which greedy decoding ignores
    ids = {letter: tokenizer.convert_tokens_to_ids(letter) for letter in "dsnXYZ"}
    following = torch.arange(size)
    for letter, answer in ANSWERS.items():
        following[ids[letter]] = ids[answer]
        following[ids[answer]] = int(tokenizer.eos_token_id)
    with torch.no_grad():
        for parameter in network.model.layers.parameters():
            parameter.zero_()  # no layer changes its input
        network.model.embed_tokens.weight.copy_(torch.eye(size, width))
        network.lm_head.weight.copy_(successors(following, width))
    return network


def successors(following: torch.Tensor, width: int) -> torch.Tensor:
    """Weights (vocabulary, width) with which the largest score is that of the following token."""
    weights = torch.zeros(len(following), width)
    weights[following, torch.arange(len(following))] = 1.0
    return weights


def test_each_text_has_its_own_answer_in_any_batch(model: Path) -> None:
    for batch_size in (1, 2, 8):
        translator = CausalLM(
            name=str(model),
            prompt="{source} {target}: {transcript}",
            max_tokens=4,
            batch_size=batch_size,
        )
        translator.check()
        translator.load()
        found = translator.translate(
            ["Good", "Good cats", "rain", "a long beginning of a sentence and", "Good morning"],
            source=ENGLISH,
            target=GERMAN,
        )
        assert found == ["X", "Y", "Z", "X", None]  # "g" never ends


def test_a_prompt_has_the_names_of_the_languages(model: Path) -> None:
    translator = CausalLM(name=str(model), prompt="{transcript}, {source} to {target}")
    translator.load()
    opening = translator._opening("Good", ENGLISH, GERMAN)
    assert translator._tokenizer.decode(opening).strip() == "Good, English to German"


def test_usable_segments_get_translations_of_all_prefixes_in_each_language(model: Path) -> None:
    one = segment(0.0)
    both = replace(one, targets={**one.targets, "es": Target("Los buenos gatos duermen.")})
    never = segment(2.0, "Nothing else ends.", "Sonst endet nichts.")
    talk = Talk("t", Path("t.wav"), 6.0, "en", (both, never, segment(4.0)))
    item = replace(new_item(talk), notes=(Notes(), Notes(), Notes("tags")))
    step = PrefixesStep(CausalLM(name=str(model), prompt="{transcript}", max_tokens=3))
    step.load()
    [found] = step([item])
    first, second, third = found.talk.segments
    assert {code: target.prefixes for code, target in first.targets.items()} == {
        "de": ("X", "Y"),
        "es": ("X", "Y"),
    }
    assert first.targets["de"].alignment == one.targets["de"].alignment
    assert second.targets["de"].prefixes == third.targets["de"].prefixes == ()
    assert [note.reason for note in found.notes] == ["", "prefix translations", "tags"]
    assert found.notes[1].detail == "no complete German translation of 'Nothing'"


def test_a_preparation_writes_them_once(model: Path, corpus: Path, tmp_path: Path) -> None:
    def run(*overrides: str) -> list[Talk]:
        prepare(
            compose(
                "prepare",
                [
                    "data=aligned",
                    f"data.folder={corpus}",
                    f"prepare.folder={tmp_path / 'out'}",
                    "prepare.splits=[train]",
                    "device=cpu",
                    "logger.mode=disabled",
                    "steps=[words,prefixes,alignment,filters]",
                    f"prefixes.name={model}",
                    "prefixes.prompt='{transcript}'",
                    "prefixes.max_tokens=3",
                    *overrides,
                ],
            )
        )
        return Aligned(folder=str(tmp_path / "out")).talks("train")

    talks = run()
    assert [talk.segments[0].targets["de"].prefixes for talk in talks] == [("X", "Y")] * 4
    assert [one.usable for one in talks[0].segments] == [True, False, False]  # "One," has no answer
    [work] = (tmp_path / "out" / "work" / "train" / "prefixes").iterdir()
    written = work.stat().st_mtime_ns
    assert run("filters.max_ratio=2") == talks
    assert work.stat().st_mtime_ns == written


def test_what_cannot_translate_is_refused_in_one_sentence(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="The step prefixes needs name, the hub id or folder of a"):
        CausalLM(name=None).check()
    with pytest.raises(ZooError, match=r"prefixes\.prompt must have \{transcript\} in it"):
        CausalLM(name=str(model), prompt="Translate {txt}")
    train_tokenizer(["a"], vocabulary_size=270).save_pretrained(tmp_path)
    with pytest.raises(
        ZooError, match=r"has no chat template; prefixes\.name must be a model that"
    ):
        CausalLM(name=str(tmp_path)).check()
    broken = train_tokenizer(["a"], vocabulary_size=270)
    broken.chat_template = "{{ raise_exception('no user') }}"
    broken.save_pretrained(tmp_path)
    chain(broken).save_pretrained(tmp_path)
    translator = CausalLM(name=str(tmp_path))
    translator.load()
    with pytest.raises(ZooError, match=r"The chat template of .* cannot be applied: no user"):
        translator.translate(["Good"], source=ENGLISH, target=GERMAN)
