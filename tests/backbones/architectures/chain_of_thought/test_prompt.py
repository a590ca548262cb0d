"""Where a transcript ends, however a model spells the separator."""

from collections.abc import Sequence

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from zoo.backbones.architectures.chain_of_thought.prompt import Template, ThoughtPrompt
from zoo.base.errors import ZooError

MERGES = (("s", "e"), ("se", "p"), ("Ġ", "<"), (".", "<"), (">", "Ġ"), ("<", "sep"))


@pytest.fixture(scope="module")
def prompt() -> ThoughtPrompt:
    """Bytes and a few longer pieces; its own separator is " <", "sep", ">"."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<|user|>", "<|audio|>", "<|end|>", *alphabet, *("".join(merge) for merge in MERGES)]
    ids_of_pieces = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=ids_of_pieces, merges=list(MERGES)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(pieces[:3])
    template = Template(user="<|user|>", audio="<|audio|>", assistant="")
    return ThoughtPrompt(
        tokenizer=PreTrainedTokenizerFast(tokenizer_object=tokenizer), template=template
    )


@pytest.mark.parametrize(
    ("tokens", "transcript", "kept"),
    [
        (["a", ".", "Ġ<", "sep", ">"], "a.", 2),
        (["a", ".", "Ġ", "<", "s", "e", "p", ">"], "a.", 2),
        (["a", ".", "Ġ", "<sep", ">"], "a.", 2),
        (["a", ".", "<", "sep", ">"], "a.", 2),
        (["a", ".", "Ġ<", "sep", ">Ġ"], "a.", 2),
        (["a", ".<", "sep", ">"], "a.", 1),
        (["a", ".<", "s", "e", "p", ">Ġ"], "a.", 1),
        (["<", "sep", ">"], "", 0),
        (["Ġ<", "sep", ">"], "", 0),
    ],
)
def test_a_transcript_ends_before_the_separator(
    prompt: ThoughtPrompt, tokens: Sequence[str], transcript: str, kept: int
) -> None:
    assert prompt.tokenizer.convert_ids_to_tokens(prompt.separator) == ["Ġ<", "sep", ">"]
    ids = prompt.tokenizer.convert_tokens_to_ids(list(tokens))
    assert None not in ids
    for short in range(len(ids)):
        assert prompt.transcribed(ids[:short]) is None
    found = prompt.transcribed(ids)
    assert found is not None
    assert (prompt.text(found[0]), found[1]) == (transcript, kept)
    assert found[0] == prompt.transcript(transcript)[:-3]


@pytest.mark.parametrize("separator", ["", " "])
def test_a_separator_is_needed(separator: str) -> None:
    with pytest.raises(ZooError, match="needs a separator"):
        Template(separator=separator)
