"""The prompt, letter by letter, and the fields of a template."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from zoo.backbones.cascade.prompt import CascadePrompt, PrefixPlace, PromptFields, Template
from zoo.base.errors import ZooError
from zoo.base.languages import language

EN, DE, ES = language("en"), language("de"), language("es")


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(tokenizer_folder)  # type: ignore[no-any-return]


def asked(
    tokenizer: PreTrainedTokenizerBase, prefix_place: PrefixPlace, template: Template | None = None
) -> str:
    prompt = CascadePrompt(
        tokenizer=tokenizer, template=template or Template(), prefix_place=prefix_place
    )
    ids = prompt.opening(
        PromptFields(source=EN, target=DE, transcript=" Julia spent the", translation="Julia hat ")
    )
    return str(tokenizer.decode(ids))


def test_the_default_is_the_papers(tokenizer: PreTrainedTokenizerBase) -> None:
    assert asked(
        tokenizer, "prompt"
    ) == (  # section 4.2, in the chat format of Phi-4-mini-instruct's model card
        "<|user|>Translate the English text to German based on the given German translation. "
        "English text: Julia spent the. German translation: Julia hat<|end|><|assistant|>"
    )


def test_what_was_written_may_stand_elsewhere(tokenizer: PreTrainedTokenizerBase) -> None:
    assert asked(tokenizer, "both") == asked(tokenizer, "prompt")
    assert asked(tokenizer, "answer").endswith("German translation: <|end|><|assistant|>")


@pytest.mark.parametrize("prefix_place", ["prompt", "answer", "both"])
def test_tokens_of_the_transcript_are_located(
    prefix_place: PrefixPlace, tokenizer: PreTrainedTokenizerBase
) -> None:
    prompt = CascadePrompt(tokenizer=tokenizer, template=Template(), prefix_place=prefix_place)
    given = PromptFields(source=EN, target=DE, transcript=" Julia spent the ", translation="Die ")
    characters = prompt.transcript_characters(given)
    ids, _ = prompt.quoted(given)
    assert ids == prompt.opening(given)
    assert len(characters) == len(ids)
    inside = [character for character in characters if character is not None]
    first = characters.index(inside[0])
    assert characters[first : first + len(inside)] == inside == sorted(inside)
    assert inside[-1] == len("Julia spent the") - 1
    assert str(tokenizer.decode(ids[first : first + len(inside)])).strip() == "Julia spent the"


def test_languages_are_named(tokenizer: PreTrainedTokenizerBase) -> None:
    prompt = CascadePrompt(tokenizer=tokenizer, template=Template(), prefix_place="prompt")
    ids = prompt.opening(PromptFields(source=DE, target=ES, transcript="Ja", translation=""))
    assert "Translate the German text to Spanish based on the given Spanish" in str(
        tokenizer.decode(ids)
    )


def test_the_chat_format_is_tokens_not_text(tokenizer: PreTrainedTokenizerBase) -> None:
    prompt = CascadePrompt(tokenizer=tokenizer, template=Template(), prefix_place="prompt")
    ids = prompt.opening(PromptFields(source=EN, target=DE, transcript="Ja", translation=""))
    user, end, assistant = tokenizer.convert_tokens_to_ids(["<|user|>", "<|end|>", "<|assistant|>"])
    assert (ids[0], ids[-2:], prompt.end) == (user, [end, assistant], end)


@pytest.mark.parametrize(
    "instruction", ["Translate.", "{transcript} {time}", "{transcript} {", "{transcript} {0}"]
)
def test_an_instruction_with_other_braces_is_refused(instruction: str) -> None:
    with pytest.raises(ZooError, match=r"must have \{transcript\} in it"):
        Template(instruction=instruction)


def test_an_end_that_is_no_token_is_refused(tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ZooError, match=r"no single token '<\|im_end\|>'"):
        CascadePrompt(
            tokenizer=tokenizer, template=Template(end="<|im_end|>"), prefix_place="prompt"
        )
