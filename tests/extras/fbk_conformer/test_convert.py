"""Files in the layout of FBK-fairseq are converted; others are refused in one sentence."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.fixtures.fbk_layout import write
from zoo.base.errors import ZooError
from zoo.extras.fbk_conformer.convert import convert, main
from zoo.extras.fbk_conformer.fbk_conformer import FBKConformer
from zoo.extras.fbk_conformer.network import read_config


def run(theirs: Path, **options: Any) -> Path:
    folder = theirs.with_name("ours")
    convert(theirs / "checkpoint.pt", folder, config=theirs / "config.yaml", **options)
    return folder


def resave(theirs: Path, change: dict[str, Any]) -> None:
    """Save the checkpoint again with entries replaced."""
    state = torch.load(theirs / "checkpoint.pt", weights_only=False)
    torch.save({**state, **change}, theirs / "checkpoint.pt")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    write(tmp_path / "theirs")
    return tmp_path / "theirs"


@pytest.mark.parametrize("nested", [True, False])
def test_arguments_are_read_from_a_dict_config_and_from_a_namespace(
    tmp_path: Path, nested: bool
) -> None:
    write(tmp_path / "theirs", nested=nested, no_scale_embedding=True)
    config = read_config(run(tmp_path / "theirs"))
    assert (config.encoder.layers, config.encoder.heads, config.encoder.ff) == (2, 2, 48)
    assert (config.encoder.kernel, config.decoder.layers) == (7, 4)
    assert (config.encoder.scaled, config.decoder.scaled) == (False, False)
    assert config.statistics is not None
    assert config.statistics.mean[0] == 8.0


def test_an_argument_of_an_old_checkpoint_is_that_of_the_architecture(theirs: Path) -> None:
    state = torch.load(theirs / "checkpoint.pt", weights_only=False)
    arguments = state["cfg"].model
    del arguments.conformer_half_step_residual, arguments.no_scale_embedding
    resave(theirs, {"cfg": None, "args": arguments})
    config = read_config(run(theirs))
    assert (config.encoder.half_step, config.encoder.scaled) == (True, True)


def test_token_ids_are_those_of_the_dictionary_and_text_that_of_the_pieces(theirs: Path) -> None:
    backbone = FBKConformer(name=str(run(theirs)))
    backbone.load()
    lines = (theirs / "target.txt").read_text(encoding="utf-8").splitlines()
    ids = {line.split(" ")[0]: 4 + number for number, line in enumerate(lines)}
    text = "das Wetter ist schön!"
    written = backbone.tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces = backbone.tokenizer.tokenize(text)
    assert written == [ids[piece] for piece in pieces]
    assert backbone.text([2, *written]) == text


def test_options_name_files_that_have_another_name(theirs: Path) -> None:
    for name, new in (
        ("target.model", "vocab.model"),
        ("target.txt", "vocab.txt"),
        ("gcmvn.npz", "mean.npz"),
    ):
        (theirs / name).rename(theirs / new)
    with pytest.raises(ZooError, match=r"There is no file .*target.model; name the .* --spm"):
        run(theirs)
    given = {"spm": "vocab.model", "dictionary": "vocab.txt", "statistics": "mean.npz"}
    run(theirs, **{option: theirs / name for option, name in given.items()})


class Malicious:
    """An object whose unpickling runs a command."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_no_other_object_is_loaded_and_nothing_runs(theirs: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    resave(theirs, {"extra_state": {"best": Malicious(mark)}})
    with pytest.raises(
        ZooError, match=r"is not loaded, because it contains .* no checkpoint .*: posix.mkdir\.$"
    ):
        run(theirs)
    assert not mark.exists()
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("arch", "s2t_transformer_fbk", "of architecture 's2t_transformer_fbk'; only conformer"),
        ("ctc_compress_strategy", "avg", "ctc_compress_strategy=avg; only none is supported"),
        ("decoder_learned_pos", True, "decoder_learned_pos=True; only False is supported"),
        ("conv_kernel_sizes", "5,5,5", r"2 subsampling convolutions \(frames of 40 ms\), not 3"),
        ("encoder_layers", 3, "lacks weights of the network: encoder.layers.2"),
        ("decoder_layers", 3, "weights that the network lacks: decoder.layers.3"),
        ("decoder_ffn_embed_dim", 32, r"has shape \[24, 16\], not \[32, 16\]"),
    ],
)
def test_a_network_that_is_not_supported_is_refused(
    tmp_path: Path, option: str, value: object, message: str
) -> None:
    write(tmp_path / "theirs", **{option: value})
    with pytest.raises(ZooError, match=message):
        run(tmp_path / "theirs")


def test_files_that_do_not_fit_are_refused(theirs: Path) -> None:
    with pytest.raises(ZooError, match="There is no file"):
        convert("nothing.pt", theirs / "new", config=theirs / "config.yaml")
    with pytest.raises(ZooError, match="is there already; name a new folder"):
        convert(theirs / "checkpoint.pt", theirs, config=theirs / "config.yaml")
    settings = yaml.safe_load((theirs / "config.yaml").read_text())

    def refuse(message: str, **changes: Any) -> None:
        (theirs / "config.yaml").write_text(yaml.safe_dump(settings | changes))
        with pytest.raises(ZooError, match=message):
            run(theirs)
        (theirs / "config.yaml").write_text(yaml.safe_dump(settings))

    refuse("several target languages", prepend_tgt_lang_tag=True)
    refuse(
        r"feature transforms \['delta_deltas'\] and no global_cmvn",
        transforms={"*": ["delta_deltas"]},
        global_cmvn=None,
    )
    refuse("names no dictionary; name one with --dictionary", vocab_filename=None)

    np.savez(theirs / "gcmvn.npz", mean=np.zeros(80))
    refuse("does not contain the arrays mean and std")
    np.savez(theirs / "gcmvn.npz", mean=np.zeros(40), std=np.ones(40))
    refuse("need 80 numbers, one per mel bin, not 40")


def test_a_dictionary_of_another_model_is_refused(theirs: Path) -> None:
    file = theirs / "target.txt"
    lines = file.read_text(encoding="utf-8").splitlines()
    for message, changed in (
        ("lacks tokens of the dictionary: ▁nope", ["▁nope 1", *lines[1:]]),
        (r"Line 1 of .* is not a token and its count", ["nope", *lines[1:]]),
        ("repeats a token", [lines[1], *lines[1:]]),
        (r"shape \[\d+, 16\], not \[\d+, 16\]; do the dictionary", lines[1:]),
    ):
        file.write_text("\n".join(changed) + "\n", encoding="utf-8")
        with pytest.raises(ZooError, match=message):
            run(theirs)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (theirs / "target.model").write_bytes(b"nothing")
    with pytest.raises(ZooError, match=r"target\.model is damaged or no SentencePiece model"):
        run(theirs)


def test_damaged_and_foreign_checkpoints_are_refused(theirs: Path) -> None:
    file = theirs / "checkpoint.pt"
    for state, message in (
        ([1], "it contains no training arguments"),
        ({"model": {}}, "it contains no training arguments"),
    ):
        torch.save(state, file)
        with pytest.raises(ZooError, match=message):
            run(theirs)
    write(theirs)
    resave(theirs, {"model": {}})
    with pytest.raises(ZooError, match="it contains no weights"):
        run(theirs)
    file.write_bytes(b"nothing")
    with pytest.raises(ZooError, match="is damaged or no checkpoint of fairseq"):
        run(theirs)


def test_the_command_prints_its_usage(
    theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ours"
    given = [str(theirs / "checkpoint.pt"), str(folder), "--config", str(theirs / "config.yaml")]
    main(given)
    assert f"backbone=fbk_conformer backbone.name={folder}" in capsys.readouterr().out
    names = {file.name for file in folder.iterdir()}
    assert {"model.safetensors", "config.json", "vocab.json"} <= names
    assert json.loads((folder / "config.json").read_text())["encoder"]["width"] == 16
    assert not any("ctc_fc" in name for name in load_file(folder / "model.safetensors"))
    with pytest.raises(SystemExit, match="2"):
        main(given)
    assert "is there already" in capsys.readouterr().err
    shutil.rmtree(folder)


def test_a_full_disk_is_one_sentence(
    theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("zoo.extras.fbk_conformer.convert.save_tensors", full)
    folder = tmp_path / "ours"
    with pytest.raises(SystemExit, match="2"):
        main([str(theirs / "checkpoint.pt"), str(folder), "--config", str(theirs / "config.yaml")])
    assert capsys.readouterr().err.startswith("error: The disk of ")
    assert not folder.exists()
