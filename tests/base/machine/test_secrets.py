"""Keys of W&B and of the hub are not shown, whatever text contains them."""

import pytest

from zoo.backbones.pretrained.loading import loader_errors
from zoo.base.errors import ZooError
from zoo.base.machine.secrets import MASK, VARIABLES, mask_secrets


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("key", ["hf_0123456789", "hf_01234567\nhf_89abcdef"])
def test_a_key_of_the_environment(variable: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, key)
    for form in (key, repr(key), repr(key.encode()), " ".join(key.split())):
        assert "hf_" not in mask_secrets(f"Illegal header value {form}.")
    with (
        pytest.raises(ZooError, match=r"^No model: Illegal header \*\*\*\.$"),
        loader_errors("No model"),
    ):
        raise ValueError(f"Illegal header {key}")


def test_other_texts_are_unchanged() -> None:
    assert (
        mask_secrets("a text", None, "", "\n", environment={"HF_TOKEN": "", "HOME": "a"})
        == "a text"
    )
    assert mask_secrets("a text", "text", environment={}) == f"a {MASK}"
