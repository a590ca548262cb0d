"""A chat template has limits of time and memory, and writes what Transformers writes."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.fixtures import tiny_checkpoints
from zoo.backbones.pretrained.chat_templates import render

MESSAGES = [{"role": "user", "content": "Translate: <|x|> é 你好"}]
PLAIN = (
    "{{ bos_token }}{% for message in messages %}[{{ message.role }}] {{ message.content | trim }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}{{ enable_thinking }}"
)
LOOP = "{% for a in range(99999) %}"
ENDLESS = {
    "a loop in a loop": 3 * LOOP + 3 * "{% endfor %}",
    "a power": "{{ 9 ** (9 ** 9) }}",
    "a text that doubles": (
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}"
        "{% endfor %}{{ n.x }}"
    ),
    "a long text": "{{ 'a' * 100000000000 }}",
    "a wide number": "{{ '%99999999999d' % 1 }}",
    "a prompt of megabytes": "{{ 'a' * 3000000 }}",
}
FAILING = {
    "{% for %}": "Expected an expression",
    "{{ raise_exception('no role') }}": "^no role$",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}": "access to attribute '__class__'",
    "{{ messages[7].content.x }}": "has no element 7",
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_template_without_an_end_is_ended(kind: str) -> None:
    with pytest.raises(ValueError, match=r"^it (needs more than|makes a prompt of)"):
        render(ENDLESS[kind], MESSAGES, {})


@pytest.mark.parametrize("template", FAILING)
def test_a_template_that_fails(template: str) -> None:
    with pytest.raises(ValueError, match=FAILING[template]):
        render(template, MESSAGES, {})


def test_a_prompt_is_that_of_transformers(tmp_path: Path) -> None:
    tiny_checkpoints.whisper(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    expected = tokenizer.apply_chat_template(
        MESSAGES,
        chat_template=PLAIN,
        add_generation_prompt=True,
        tokenize=False,
        enable_thinking=False,
    )
    variables = {**tokenizer.special_tokens_map, "enable_thinking": False}
    assert render(PLAIN, MESSAGES, variables) == expected
    assert "[user] Translate: <|x|> é 你好[assistant]False" in expected
