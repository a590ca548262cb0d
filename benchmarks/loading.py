"""Peak main memory while bfloat16 weights are loaded, as ratios to the size of the weights.

    python benchmarks/loading.py

Each case writes a randomly initialised checkpoint of about ``--megabytes`` in bfloat16, in shards
where its format has shards, and loads it in bfloat16 in a process of its own. Anonymous memory
(RssAnon of /proc) counts, from before the loading on: memory-mapped files are not part of it.
"""

import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import nn
from transformers import WhisperConfig, WhisperForConditionalGeneration
from transformers.utils import logging

from harness import ROOT, parser_of, print_result, print_table, rounded, weight_bytes
from zoo.backbones.base import Backbone
from zoo.backbones.common.pretrained.loading import load_network
from zoo.config import build, compose

Overrides = Sequence[str]

CONTROLS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
SHARDS = 5  # of a checkpoint in shards
PERIOD = 0.001  # seconds between two readings of the memory
DTYPE = "++backbone.dtype=bfloat16"
WIDTH, WIDE = 1024, 4096  # of a layer: hidden states, feed-forward block
LAYER = 4 * WIDTH**2 + 2 * WIDTH * WIDE  # parameters of a layer, about the same in all cases


def layers_of(megabytes: int) -> int:
    """Layers whose bfloat16 weights have about so many megabytes."""
    return max(round(megabytes * 1e6 / (2 * LAYER)), 1)


def shard_size(megabytes: int) -> str:
    """Size of a shard, as Transformers reads it."""
    return f"{max(megabytes // SHARDS, 1)}MB"


def write_whisper(folder: Path, megabytes: int, dtype: torch.dtype = torch.bfloat16) -> None:
    """A Whisper of which a quarter of the layers are the decoder's, in shards."""
    layers = max(layers_of(megabytes), 4)
    config = WhisperConfig(
        d_model=WIDTH,
        encoder_layers=layers - layers // 4,
        decoder_layers=layers // 4,
        encoder_attention_heads=16,
        decoder_attention_heads=16,
        encoder_ffn_dim=WIDE,
        decoder_ffn_dim=WIDE,
        vocab_size=512,
        **dict.fromkeys(CONTROLS, 0),
    )
    network = WhisperForConditionalGeneration._from_config(config, dtype=dtype)
    network.save_pretrained(folder, max_shard_size=shard_size(megabytes))


def write_whisper_float32(folder: Path, megabytes: int) -> None:
    """A Whisper as above in float32, twice as large on disk as in memory."""
    write_whisper(folder, megabytes, torch.float32)


def load_whisper(folder: Path, _: int) -> nn.Module:
    """Load it as all encoder-decoders of Transformers are loaded."""
    network: nn.Module = load_network(WhisperForConditionalGeneration, str(folder), torch.bfloat16)
    return network


def phi4(megabytes: int) -> Overrides:
    """Overrides of a Phi-4-Multimodal whose causal LM has nearly all weights."""
    return (
        "system=streamuni",
        "backbone=phi4_minitalks",
        f"backbone.config.hidden_size={WIDTH}",
        f"backbone.config.intermediate_size={2 * WIDE // 3}",  # three projections
        f"backbone.config.num_hidden_layers={layers_of(megabytes)}",
        f"backbone.tokenizer={ROOT / 'checkpoints/phi4_minitalks_en-de'}",
        "backbone.alignment.heads=null",
        DTYPE,
    )


def write_phi4(folder: Path, megabytes: int) -> None:
    """A Phi-4-Multimodal in shards."""
    backbone = loaded([*phi4(megabytes), "backbone.name=null"])
    backbone.model.save_pretrained(folder, max_shard_size=shard_size(megabytes))


def load_phi4(folder: Path, megabytes: int) -> nn.Module:
    """Load it as the published one."""
    return loaded([*phi4(megabytes), f"backbone.name={folder}"])


def infinisst(megabytes: int) -> Overrides:
    """Overrides of an InfiniSST with nearly all weights in its decoder."""
    return (
        "system=infinisst",
        "backbone=infinisst_minitalks",
        f"backbone.decoder.hidden_size={WIDTH}",
        f"backbone.decoder.intermediate_size={2 * WIDE // 3}",
        f"backbone.decoder.num_hidden_layers={layers_of(megabytes)}",
        f"backbone.tokenizer={ROOT / 'checkpoints/infinisst_minitalks_en-de'}",
        DTYPE,
    )


def wav2text(megabytes: int) -> Overrides:
    """Overrides of the encoder-decoder of minitalks with nearly all weights in its decoder."""
    return (
        "system=streamatt",
        "backbone=offline_minitalks",
        f"backbone.decoder.d_model={WIDTH}",
        f"backbone.decoder.decoder_ffn_dim={WIDE - 2 * WIDTH}",  # and cross-attention
        f"backbone.decoder.decoder_layers={layers_of(megabytes)}",
        f"backbone.tokenizer={ROOT / 'checkpoints/offline_minitalks_en-de'}",
        DTYPE,
    )


def loaded(overrides: Overrides) -> Backbone:
    """Build and load a backbone."""
    backbone: Backbone = build(compose("evaluate", list(overrides)).backbone)
    backbone.load()
    return backbone


def writer_of(overrides: Callable[[int], Overrides]) -> Callable[[Path, int], None]:
    """The function that writes one of our own exports, in one file."""

    def write(folder: Path, megabytes: int) -> None:
        loaded([*overrides(megabytes), "backbone.checkpoint=null"]).save(folder, torch.bfloat16)

    return write


def loader_of(overrides: Callable[[int], Overrides]) -> Callable[[Path, int], nn.Module]:
    """The function that loads one of our own exports."""

    def load(folder: Path, megabytes: int) -> nn.Module:
        return loaded([*overrides(megabytes), f"backbone.checkpoint={folder}"])

    return load


@dataclass(frozen=True)
class Case:
    """One path of loading.

    Attributes:
        write: Writes a checkpoint of so many megabytes to a folder.
        load: Loads it.
        shipped: Overrides of a small shipped model. It is loaded before the measurement, because
            the imports of the first loading take memory, too.
    """

    write: Callable[[Path, int], None]
    load: Callable[[Path, int], nn.Module]
    shipped: Overrides = ()


CASES = {
    "whisper": Case(write_whisper, load_whisper),
    "whisper_from_float32": Case(write_whisper_float32, load_whisper),
    "phi4_multimodal": Case(write_phi4, load_phi4, ["system=streamuni", "backbone=phi4_minitalks"]),
    "infinisst_export": Case(
        writer_of(infinisst),
        loader_of(infinisst),
        ["system=infinisst", "backbone=infinisst_minitalks"],
    ),
    "wav2text_export": Case(
        writer_of(wav2text), loader_of(wav2text), ["system=streamatt", "backbone=offline_minitalks"]
    ),
}


def anonymous_bytes() -> int:
    """Memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no RssAnon")


def write(case: str, folder: Path, megabytes: int) -> None:
    """Write the checkpoint of a case; runs in a process of its own."""
    logging.disable_progress_bar()
    torch.manual_seed(0)
    CASES[case].write(folder, megabytes)


def measure(case: str, folder: Path, megabytes: int) -> tuple[int, int]:
    """Load the checkpoint of a case; runs in a process of its own.

    Returns:
        Largest anonymous memory above that before the loading, and size of the weights, in bytes.
    """
    logging.disable_progress_bar()
    if CASES[case].shipped:
        loaded([*CASES[case].shipped, DTYPE])
    done = threading.Event()
    readings = [anonymous_bytes()]

    def watch() -> None:
        while not done.wait(PERIOD):
            readings.append(anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    network = CASES[case].load(folder, megabytes)
    done.set()
    watcher.join()
    return max(readings) - readings[0], weight_bytes(network)


def main() -> None:
    """Measure all paths and print their peaks and ratios."""
    sizes = {"megabytes": (500, 20, "size of the weights")}
    given = parser_of(__doc__, sizes).parse_args()
    ratios, rows = {}, []
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as alone,
    ):
        for case in CASES:
            folder = Path(name) / case
            alone.submit(write, case, folder, given.megabytes).result()
            peak, size = alone.submit(measure, case, folder, given.megabytes).result()
            ratios[f"{case}_ratio"] = peak / size
            rows.append([case, f"{size / 1e6:.0f}", f"{peak / 1e6:.0f}", f"{peak / size:.2f}"])
    print_table(["case", "weights (MB)", "peak (MB)", "peak / weights"], rows)
    print_result("loading", {"megabytes": given.megabytes}, rounded(ratios))


if __name__ == "__main__":
    main()
