"""A model missing from the hub is an error of one sentence before anything is loaded."""

from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from zoo.backbones.pretrained import hub, settings
from zoo.backbones.pretrained.loading import from_pretrained, read_config
from zoo.base.errors import ZooError

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
    cache(tmp_path, revision="main", commit="0" * 40)
    hub.check("decoder", "a/b")


def cache(folder: Path, *, revision: str, commit: str, content: str = "{}") -> Path:
    """Write a revision of the model a/b, with a config.json, to the local cache."""
    model = folder / "cache" / "models--a--b"
    snapshot = model / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(content)
    (model / "refs").mkdir(exist_ok=True)
    (model / "refs" / revision).write_text(commit)
    return snapshot


def test_a_name_may_have_a_revision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(HfApi, "auth_check", refusing(AssertionError("asked")))
    cache(tmp_path, revision="main", commit="0" * 40, content='{"model_type": "newest"}')
    old = cache(tmp_path, revision="v1", commit="1" * 40, content='{"model_type": "oldest"}')

    hub.check("decoder", "a/b@v1")
    assert hub.ModelSource.from_name("a/b@v1").cached() == old
    assert hub.local_folder("decoder", str(tmp_path), files=["*.json"]) == tmp_path
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert read_config("a/b")["model_type"] == "newest"
    assert read_config("a/b@v1")["model_type"] == "oldest"
    assert read_config(f"a/b@{'1' * 40}")["model_type"] == "oldest"


def test_settings_are_checked_before_other_files_are_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    downloads: list[object] = []

    def download(place: str, revision: str, **options: object) -> str:
        downloads.append(options["allow_patterns"])
        content = '{"_attn_implementation": "evil/kernel"}' if revision == "bad" else "{}"
        return str(cache(tmp_path, revision=revision, commit=revision[0] * 40, content=content))

    monkeypatch.setattr(hub, "snapshot_download", download)
    with pytest.raises(ZooError, match=r"^The config\.json of a/b@bad has _attn_impl"):
        from_pretrained(refusing(AssertionError("loaded")), "a/b@bad")
    asked = {"place": "a/b", "revision": "g" * 40, "trust_remote_code": False}
    assert [from_pretrained(load, "a/b@good") for _ in range(2)] == [asked, asked]
    assert downloads == [list(settings.FILES)] * 2  # one for each revision


def load(place: str, **options: object) -> dict[str, object]:
    return {"place": place, **options}


def test_a_missing_revision_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache(tmp_path, revision="main", commit="0" * 40)
    monkeypatch.setattr(HfApi, "auth_check", lambda self, name: None)

    def model_info(self: HfApi, name: str, revision: str) -> None:
        assert (name, revision) == ("a/b", "v2")
        raise refusal(RevisionNotFoundError)

    monkeypatch.setattr(HfApi, "model_info", model_info)
    with pytest.raises(ZooError, match=r"decoder 'a/b' has no revision 'v2'; name a branch"):
        hub.check("decoder", "a/b@v2")


def test_a_folder_with_an_at_sign_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model@v1"
    folder.mkdir()
    assert hub.ModelSource.from_name(str(folder)) == hub.ModelSource(str(folder))


def test_the_hub_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(HfApi, "auth_check", lambda self, name: asked.append(name))
    hub.check("decoder", "a/b")
    assert asked == ["a/b"]
