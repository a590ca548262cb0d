"""Conversion of a checkpoint released by InfiniSST's authors to a folder for ``SpeechLLM.load``.

The released file maps names to tensors. The language model has the names of Transformers, and
``model.speech_encoder`` contains fairseq's wav2vec 2.0 and the adapter. Besides the names, two
things differ. First, the released rotary positions rotate neighbouring values of a head, whereas
this repository rotates the two halves of a head, so the converter reorders the rows of the query
and key projections. Second, the released file stores rotary frequencies, whereas this repository
computes the frequencies, so the converter compares the stored with the computed values.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)

from zoo.backbones.decoding.causal.decoder import decoder_config
from zoo.backbones.encoders.wav2vec2.adapter import Adapter
from zoo.backbones.encoders.wav2vec2.encoder import (
    KERNELS,
    EncoderConfig,
    StreamingEncoder,
    frequencies,
)
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.loading import from_config, load_tokenizer
from zoo.backbones.pretrained.weights import WEIGHTS
from zoo.base.disk.files import atomic_file
from zoo.base.errors import ZooError, shorten_list
from zoo.base.machine.commands import run_script
from zoo.base.machine.hints import job_command, program
from zoo.base.progress import show_progress

LLM = "meta-llama/Llama-3.1-8B-Instruct"
SPEECH_TOKENS = ("<sp_patch>", "<sp_start>", "<sp_end>")
LATENCY_TOKEN = "<latency_{}>"
WAV2VEC2 = "model.speech_encoder.speech_encoder."
NAMES = (  # prefix in this repository, prefix in the released file; # stands for a number
    ("decoder.", ""),
    ("adapter.first.", "model.speech_encoder.length_shrink.conv_layers.0.0."),
    ("adapter.second.", "model.speech_encoder.length_shrink.conv_layers.1.0."),
    ("adapter.norms.#.", "model.speech_encoder.length_shrink.conv_layers.#.2.1."),
    ("adapter.projection.", "model.speech_encoder.proj."),
    (
        "encoder.feature_extractor.conv_layers.#.conv.",
        f"{WAV2VEC2}feature_extractor.conv_layers.#.0.",
    ),
    (
        "encoder.feature_extractor.conv_layers.#.layer_norm.",
        f"{WAV2VEC2}feature_extractor.conv_layers.#.2.1.",
    ),
    ("encoder.feature_projection.layer_norm.", f"{WAV2VEC2}layer_norm."),
    ("encoder.feature_projection.projection.", f"{WAV2VEC2}post_extract_proj."),
    ("encoder.encoder.layers.#.attention.", f"{WAV2VEC2}encoder.layers.#.self_attn."),
    ("encoder.encoder.layers.#.layer_norm.", f"{WAV2VEC2}encoder.layers.#.self_attn_layer_norm."),
    (
        "encoder.encoder.layers.#.feed_forward.intermediate_dense.",
        f"{WAV2VEC2}encoder.layers.#.fc1.",
    ),
    ("encoder.encoder.layers.#.feed_forward.output_dense.", f"{WAV2VEC2}encoder.layers.#.fc2."),
    ("encoder.", WAV2VEC2),
)
FREQUENCIES = f"{WAV2VEC2}encoder.layers.{{}}.self_attn.rotary_emb.freqs"
UNUSED = (
    tuple(  # positions that rotary ones replace, and what only wav2vec 2.0's pre-training needs
        WAV2VEC2 + name
        for name in ("encoder.pos_conv.", "mask_emb", "quantizer.", "project_q.", "final_proj.")
    )
)
ROTATED = re.compile(r"encoder\.encoder\.layers\.\d+\.attention\.[qk]_proj\.")
TYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.float64: "F64"}


def convert(
    file: str | Path, folder: str | Path, *, llm: str = LLM, dtype: torch.dtype | None = None
) -> EncoderConfig:
    """Write ``model.safetensors``, ``config.json`` and the tokenizer.

    Only one tensor at a time is held in memory.

    Args:
        file: Released checkpoint.
        folder: Destination, a new or empty folder.
        llm: Hub id or folder of the base model, whose config and tokenizer are read.
        dtype: Dtype of the written weights. None keeps the dtype of each weight.

    Returns:
        Configuration of the encoder in the file.

    Raises:
        ZooError: If the folder is not empty, or the file is no released InfiniSST checkpoint.
    """
    file, folder = Path(file), Path(folder)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ZooError(f"{folder} is there already and not empty; name a new folder.")
    released = Released(file)
    hub.check("base model", llm)
    rows = released.shape("model.embed_tokens.weight")[0]
    tokenizer = extended_tokenizer(llm, rows)
    config = decoder_config(llm, vocabulary=rows)
    config.vocab_size = rows
    names = released.matched(config)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    config.save_pretrained(folder)
    _write(
        folder / WEIGHTS,
        {name: released.tensors[theirs] for name, theirs in names.items()},
        released.encoder.heads,
        dtype,
    )
    return released.encoder


class Released:
    """Tensors of a released checkpoint, and the encoder configuration derived from their shapes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.tensors = read_checkpoint(file)
        self.encoder = self._encoder()
        for layer in range(self.encoder.layers):
            self._check_frequencies(layer)

    def shape(self, name: str) -> torch.Size:
        """Return the shape of a tensor. Raises ZooError if the checkpoint lacks the tensor."""
        if name not in self.tensors:
            raise ZooError(f"{self.file} is no released InfiniSST: it has no tensor {name}.")
        return self.tensors[name].shape

    def matched(self, config: PreTrainedConfig) -> dict[str, str]:
        """Map every weight name of this repository to the name in the released file.

        Raises:
            ZooError: If a weight is missing, superfluous or of another shape.
        """
        network = _network(self.encoder, config)
        expected = {ours: released_name(ours) for ours in network}
        present = {name for name in self.tensors if not name.startswith(UNUSED)}
        present -= {FREQUENCIES.format(layer) for layer in range(self.encoder.layers)}
        if config.tie_word_embeddings:
            present.discard("lm_head.weight")
        _refuse(f"{self.file} lacks", set(expected.values()) - present)
        _refuse(f"{self.file} has what the network lacks:", present - set(expected.values()))
        for ours, theirs in expected.items():
            if self.shape(theirs) != network[ours]:
                raise ZooError(
                    f"{theirs} in {self.file} has shape {list(self.shape(theirs))}, not "
                    f"{list(network[ours])}; was it trained from another --llm?"
                )
        return expected

    def _encoder(self) -> EncoderConfig:
        hidden = self.shape(f"{WAV2VEC2}post_extract_proj.weight")[0]
        convolution = f"{WAV2VEC2}feature_extractor.conv_layers.{{}}.0.{{}}"
        layers = 0
        while f"{WAV2VEC2}encoder.layers.{layers}.fc1.weight" in self.tensors:
            layers += 1
        return EncoderConfig(
            conv_channels=[
                self.shape(convolution.format(layer, "weight"))[0] for layer in range(len(KERNELS))
            ],
            conv_bias=convolution.format(0, "bias") in self.tensors,
            hidden=hidden,
            layers=layers,
            heads=hidden // (2 * self.shape(FREQUENCIES.format(0)).numel()),
            ff=self.shape(f"{WAV2VEC2}encoder.layers.0.fc1.weight")[0],
        )

    def _check_frequencies(self, layer: int) -> None:
        name = FREQUENCIES.format(layer)
        self.shape(name)
        base = self.encoder.rope_base
        if not torch.equal(
            self.tensors[name].bfloat16(), frequencies(self.encoder.head_size, base).bfloat16()
        ):
            raise ZooError(
                f"{name} in {self.file} are not the frequencies of base {base:g}; only those are "
                "supported."
            )


def read_checkpoint(file: Path) -> dict[str, Tensor]:
    """Read the named tensors of a file, mapped from disk, without unpickling other objects.

    Raises:
        ZooError: If the file is missing or unreadable, or contains anything but named tensors.
    """
    if not file.is_file():
        raise ZooError(
            f"There is no file {file}; the authors' README links to their pytorch_model.bin files."
        )
    try:
        if file.suffix == ".safetensors":
            tensors = load_file(file)
        else:
            tensors = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # the unpickler may raise any error for a damaged file
        raise ZooError(
            f"{file} is no file of weights alone (safetensors, or torch.save of named tensors)."
        ) from error
    holds_weights = isinstance(tensors, Mapping) and all(
        isinstance(tensor, Tensor) and tensor.dtype in TYPES for tensor in tensors.values()
    )
    if not holds_weights or not tensors:
        raise ZooError(
            f"{file} does not hold named weights and nothing else, as a released checkpoint does."
        )
    nested = (
        "model.lm_head.weight" in tensors
    )  # as the training script leaves it, before its last step
    return {
        name.removeprefix("model.") if nested else name: tensor for name, tensor in tensors.items()
    }


def released_name(name: str) -> str:
    """Return the name in the released file for a weight name of this repository."""
    for ours, theirs in NAMES:
        pattern = re.escape(ours).replace(r"\#", r"(\d+)")
        if match := re.match(pattern, name):
            number = match.group(1) if match.groups() else ""
            return theirs.replace("#", number) + name[match.end() :]
    raise ValueError(name)


def extended_tokenizer(llm: str, rows: int) -> PreTrainedTokenizerBase:
    """Load the language model's tokenizer and add the speech and latency tokens of the authors.

    Args:
        llm: Hub id or folder of the base model.
        rows: Number of tokens after the addition. Latency tokens fill the ids after the speech
            tokens.

    Raises:
        ZooError: If no tokenizer can be loaded, or ``rows`` leaves no id for a latency token.
    """
    tokenizer = load_tokenizer(llm)
    latencies = rows - len(tokenizer) - len(SPEECH_TOKENS)
    tokens = [*SPEECH_TOKENS, *(LATENCY_TOKEN.format(m) for m in range(1, latencies + 1))]
    if latencies < 1 or tokenizer.add_tokens(tokens, special_tokens=True) != len(tokens):
        raise ZooError(
            f"The checkpoint has {rows} token embeddings and {llm} {len(tokenizer)} tokens, to "
            f"which the released code adds {len(SPEECH_TOKENS)} and one per latency; was it "
            "trained from another --llm?"
        )
    return tokenizer


def half_split(projection: Tensor, heads: int) -> Tensor:
    """Reorder the rows or biases of a projection from interleaved pairs to two halves per head."""
    pairs: Tensor = projection.unflatten(0, (heads, -1, 2))
    return pairs.transpose(1, 2).flatten(0, 2)


def _network(encoder: EncoderConfig, config: PreTrainedConfig) -> dict[str, torch.Size]:
    """Return the names and shapes of all weights without allocating the weights."""
    with torch.device("meta"):
        decoder = from_config(AutoModelForCausalLM, config, torch.float32)
        adapter = Adapter(hidden=encoder.hidden, embedding=config.hidden_size, norm=True)
        network = nn.ModuleDict(
            {"encoder": StreamingEncoder(encoder), "adapter": adapter, "decoder": decoder}
        )
    shapes = {name: tensor.shape for name, tensor in network.state_dict().items()}
    if config.tie_word_embeddings:
        del shapes["decoder.lm_head.weight"]
    return shapes


def _refuse(what: str, names: set[str]) -> None:
    if names:
        raise ZooError(f"{what} {shorten_list(sorted(names))}.")


def _write(
    path: Path, tensors: Mapping[str, Tensor], heads: int, dtype: torch.dtype | None
) -> None:
    """Write a safetensors file tensor by tensor: a length, a JSON header and the bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        kind = dtype or tensor.dtype
        start, end = end, end + tensor.numel() * kind.itemsize
        header[name] = {
            "dtype": TYPES[kind],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    try:
        with atomic_file(path) as temporary, temporary.open("wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            for name, tensor in show_progress(
                tensors.items(), total=len(tensors), title=f"Writing {path}"
            ):
                ours = half_split(tensor, heads) if ROTATED.match(name) else tensor
                values = ours.to(dtype or tensor.dtype).contiguous().flatten()
                values.view(torch.uint8).numpy().tofile(out)
    except OSError as error:
        raise ZooError(f"{path} ({end / 1e9:.1f} GB) could not be written: {error}.") from error


def command(
    arguments: Sequence[str] | None,
    *,
    name: str,
    title: str,
    convert: Callable[..., EncoderConfig],
    use: str,
) -> None:
    """Run a converter's command line; it exits with code 2 for an error that the user can correct.

    Args:
        arguments: Command-line arguments. None reads the arguments of the process.
        name: Name of the backbone package.
        title: First line of the command's help text.
        convert: Conversion function, with the signature of ``convert`` in this module.
        use: Overrides of the command that evaluates the result; {0} stands for the folder.
    """
    parser = argparse.ArgumentParser(prog=program(f"convert-{name}"), description=title)
    parser.add_argument("file", help="the authors' pytorch_model.bin")
    parser.add_argument("folder", help="new folder, which the backbone then names")
    parser.add_argument(
        "--llm",
        default=LLM,
        help="base model: hub id or folder (config and tokenizer); default %(default)s",
    )
    parser.add_argument(
        "--dtype",
        choices=[str(kind).removeprefix("torch.") for kind in TYPES],
        help="of the weights written; default: as they are",
    )
    options = parser.parse_args(arguments)

    def write() -> None:
        dtype = getattr(torch, options.dtype) if options.dtype else None
        encoder = convert(options.file, options.folder, llm=options.llm, dtype=dtype)
        print(
            f"Written to {options.folder}: {encoder.layers} encoder layers of {encoder.hidden}, "
            f"{encoder.heads} heads."
        )
        print(f"Use it: {job_command('evaluate')} {use.format(options.folder)}")

    run_script(write, Path(options.folder))
