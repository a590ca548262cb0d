"""A model missing from the hub is an error of one sentence before anything is loaded."""

from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

from zoo.backbones.common.pretrained import hub
from zoo.errors import ZooError

Answer = Callable[..., None]


class Response:
    """The fields of a reply that errors of the hub read."""

    headers: dict[str, str] = {}  # noqa: RUF012
    request = None
    status_code = 503


def refusing(error: Exception) -> Answer:
    def auth_check(self: HfApi, name: str) -> None:
        raise error

    return auth_check


def refusal(kind: type[HfHubHTTPError]) -> HfHubHTTPError:
    error = kind.__new__(kind)
    error.response = Response()
    return error


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError("[Errno -2] Name or\nservice not known"),
            r"cannot be reached \(\[Errno -2\] Name or service not known\)",
        ),
        (TimeoutError(), r"cannot be reached \(TimeoutError\)"),
        (refusal(HfHubHTTPError), r"cannot be reached \(it answers 503\)"),
        (
            refusal(GatedRepoError),
            r"decoder 'a/b' is gated: accept its licence on https://huggingface\.co/a/b",
        ),
        (refusal(RepositoryNotFoundError), "neither a folder here nor a model on the hub"),
    ],
)
def test_a_refusal_of_the_hub_is_reported(
    monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    monkeypatch.setattr(HfApi, "auth_check", refusing(error))
    with pytest.raises(ZooError, match=sentence) as error:
        hub.check("decoder", "a/b")
    assert "\n" not in str(error.value)


def test_an_impossible_hub_name_is_not_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HfApi, "auth_check", refusing(AssertionError("asked")))
    with pytest.raises(
        ZooError, match=r"No tokenizer could be loaded from /no/such folder; it must be a folder or"
    ):
        hub.check("tokenizer", "/no/such folder")


def test_a_folder_and_a_cached_model_need_no_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(HfApi, "auth_check", refusing(AssertionError("asked")))
    hub.check("decoder", str(tmp_path))
    commit = "0" * 40
    cached = tmp_path / "cache" / "models--a--b"
    (cached / "snapshots" / commit).mkdir(parents=True)
    (cached / "snapshots" / commit / "config.json").write_text("{}")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    hub.check("decoder", "a/b")


def test_the_hub_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(HfApi, "auth_check", lambda self, name: asked.append(name))
    hub.check("decoder", "a/b")
    assert asked == ["a/b"]
