"""Which tokens a tokenizer of one's own has beside what it learns."""

from zoo.backbones.common.text.tokenizer import SPECIAL_TOKENS
from zoo.config import compose
from zoo.training.job import EVALUATED, special_tokens


def test_a_tokenizer_has_what_its_template_needs() -> None:
    default = compose("train").backbone.template
    assert special_tokens(default, {1, 8}) == list(SPECIAL_TOKENS)
    latency = compose("train", ['backbone.template.latency="<m{multiplier}>"']).backbone.template
    assert special_tokens(latency, {2, 3}) == list(
        SPECIAL_TOKENS
    )  # the instruction does not say it
    told = compose(
        "train",
        [
            'backbone.template.latency="<m{multiplier}>"',
            'backbone.template.instruction="{latency}<|eot_id|>"',
        ],
    )
    assert special_tokens(told.backbone.template, {2, 3}) == [
        *SPECIAL_TOKENS,
        "<m1>",
        "<m2>",
        "<m3>",
    ]
    released = compose("train", ["convention=released"]).backbone.template
    assert special_tokens(released, [4])[len(SPECIAL_TOKENS) :] == [
        "<latency_1>",
        "<latency_2>",
        "<latency_3>",
        "<latency_4>",
        "<sp_patch>",
    ]


def test_an_evaluation_repeats_the_convention() -> None:
    assert "convention=released".startswith(EVALUATED)
