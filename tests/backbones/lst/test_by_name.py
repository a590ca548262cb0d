"""An exported LST needs its folder alone; given options override the folder's."""

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import HfApi

from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.lst.description import plain_values
from zoo.backbones.lst.lst import LST
from zoo.backbones.pretrained import hub
from zoo.base.errors import ZooError
from zoo.base.types import Capability, Request
from zoo.config import build, compose
from zoo.streaming.session import Session

Make = Callable[..., LST]
ALIGNED = frozenset({Capability.ALIGNMENT})


@pytest.fixture(scope="module")
def exported(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``zoo.training.export`` writes it."""
    folder = tmp_path_factory.mktemp("exported")
    backbone = make()
    backbone.save(folder)
    settings = {
        "encoder": {
            **asdict(backbone.encoder_config),
            "_target_": "zoo.backbones.encoders.wav2vec2.encoder.EncoderConfig",
        },
        "decoder": dict(backbone.decoder_source),
        "template": asdict(backbone.template),
        "block_chunks": 1,
        "alignment": {"layer": 1, "query": "own", "heads": None},
        "name": None,
        "search": {"beams": 1},
    }
    settings["encoder"]["conv_channels"] = list(settings["encoder"]["conv_channels"])
    (folder / "config.yaml").write_text(yaml.safe_dump({"backbone": settings, "seed": 0}))
    return folder


def named(folder: Path | str, *more: str) -> LST:
    """``backbone=lst`` on the command line."""
    given = ["backbone.dtype=float64", "backbone.search.beams=1", *more]
    cfg = compose(
        "evaluate", ["system=streamatt", "backbone=lst", f"backbone.name={folder}", *given]
    )
    backbone: LST = build(cfg.system).backbone
    backbone.load()
    return backbone.eval()


def test_an_export_of_a_further_training_has_the_description_of_its_weights(
    exported: Path, tmp_path: Path
) -> None:
    first = named(exported)
    first.save(tmp_path)
    null = dict.fromkeys(
        ("name", "encoder", "decoder", "template", "adapter_norm", "block_chunks", "alignment")
    )  # as in a training that names a checkpoint
    arguments = first.exported_arguments({**null, "name": str(exported), "dtype": "float64"})
    assert (arguments["name"], arguments["dtype"]) == (None, "float64")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"backbone": arguments}))
    second = named(tmp_path)
    for name in ("template", "adapter_norm", "block_chunks", "alignment", "decoder_source"):
        assert getattr(second, name) == getattr(first, name)
    assert plain_values(second.encoder_config) == plain_values(first.encoder_config)


def test_the_folder_defines_the_network(
    make: Make, exported: Path, live: Callable[..., Session]
) -> None:
    backbone, origin = named(exported), make()
    assert backbone.alignment == AlignmentConfig(layer=1, query="own")
    assert (backbone.block_chunks, backbone.template) == (1, origin.template)
    assert backbone.encoder_config == origin.encoder_config.__class__(
        **{
            **asdict(origin.encoder_config),
            "conv_channels": list(origin.encoder_config.conv_channels),
        }
    )
    origin = make(
        alignment={"layer": 1, "query": "own"},
        search=backbone.search,
        max_tokens=backbone.max_tokens,
    )
    found, expected = (
        one.decode([live(one, seconds=2.0, prefix=[40, 41])], [Request()], ALIGNED)[0]
        for one in (backbone, origin)
    )
    assert torch.equal(found.token_ids, expected.token_ids)
    assert torch.equal(found.require_alignment(), expected.require_alignment())


def test_options_override_the_named_checkpoint(exported: Path) -> None:
    backbone = named(
        exported, "backbone.alignment.layer=2", "backbone.block_chunks=0", "backbone.template=lean"
    )
    assert backbone.alignment == AlignmentConfig(layer=2, query="own")
    assert backbone.block_chunks == 0


def test_a_name_on_the_hub_is_brought_here(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(HfApi, "auth_check", lambda self, name: asked.append(name))
    monkeypatch.setattr(
        hub, "snapshot_download", lambda name, **_: asked.append(name) or str(exported)
    )
    assert named("somebody/lst").tokenizer.name_or_path == str(exported)
    assert asked == ["somebody/lst"] * 2


def test_a_missing_folder_is_an_error(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ZooError, match=r"no trained LST in .*; name another folder with backbone\.name="
    ):
        named(tmp_path)
    with pytest.raises(ZooError, match="no trained LST in /nowhere"):
        named("/nowhere")
    shutil.copytree(exported, tmp_path / "copy")
    for content in (None, "- 1", "backbone: {encoder: {hiden: 3}}"):
        if content is None:
            (tmp_path / "copy" / "config.yaml").unlink()
        else:
            (tmp_path / "copy" / "config.yaml").write_text(content)
        with pytest.raises(
            ZooError, match=r"config\.yaml is missing or damaged; an exported or converted LST"
        ):
            named(tmp_path / "copy")


def test_without_a_name_it_is_the_papers() -> None:
    backbone = build(compose("evaluate", ["system=streamatt", "backbone=lst"]).system).backbone
    assert (backbone.encoder_config.hidden, backbone.encoder_config.layers) == (1024, 24)
    assert (
        backbone.decoder_source == backbone.tokenizer_source == "meta-llama/Llama-3.1-8B-Instruct"
    )
    assert (backbone.alignment.layer, backbone.block_chunks, backbone.search.beams) == (14, 0, 4)
