"""How far is each stage of a step from what the machine can do?

    python benchmarks/roofline.py                             families of 0.4 to 0.6 B parameters
    python benchmarks/roofline.py --threads 2 --dtype bfloat16
    python benchmarks/roofline.py --decoder-weights int8      also with --dtype, --systems
    python benchmarks/roofline.py --systems streamuni,simulu  systems as they are configured
    python benchmarks/roofline.py --small                     seconds

The floor of a matrix product, a convolution or an attention is the larger of two times: its inputs
and outputs divided by the bandwidth of a large matrix-vector product in float32, and its operations
divided by the speed of a large matrix product in the type of the weights, both measured in the same
run with the same threads.
The floor of a stage is the sum. All else (normalisation, activations, beams, Python) has none.

The same audio is streamed twice: for the clock alone, then with every operator timed and counted.
What is not spent in operators is Python. Weights are random, so the number of tokens has no
meaning: the decoders of the three families generate to their limits.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from harness import parser_of, print_result, print_table, recording
from infinisst_step import arguments as infinisst_arguments
from infinisst_step import random_backbone
from streamatt_step import arguments as streamatt_arguments
from streamatt_weights import save_random_seamless
from whisper_step import arguments as whisper_arguments
from whisper_step import save_random_whisper
from zoo.backbones.base import Backbone
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.seamless_m4t.seamless_m4t import SeamlessM4T
from zoo.backbones.whisper import Whisper
from zoo.base.errors import ZooError
from zoo.base.machine.commands import run_script
from zoo.base.machine.int8 import DecoderWeights
from zoo.base.types import SAMPLE_RATE, Seconds, SpeechChunk
from zoo.config import build, compose
from zoo.history.keep_all import KeepAll
from zoo.history.recent_words import RecentWords
from zoo.policies.alignatt import AlignAtt
from zoo.policies.turn_taking import TurnTaking
from zoo.streaming.stages import OTHER, StageMeter, measure_stages
from zoo.systems.base import StreamingSystem

SIZES = {
    "chunks": (3, 2, "measured chunks, after those that warm up"),
    "warm_up": (5, 2, "chunks before them"),
    "threads": (1, 1, "CPU threads"),
    "width": (1024, 64, "of decoders and encoders"),
    "layers": (12, 4, "of decoders and encoders, each"),
    "product": (2048, 256, "rows and columns of the large matrix product"),
    "megabytes": (512, 16, "of the large matrix of the matrix-vector product"),
}
TRIALS = 5  # of both products; the best one counts
FAMILIES = ("infinisst", "streamatt", "whisper")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
# products with packed weights, and with weights of 8 bits, whose bytes are counted as they are
LINEAR = (torch.ops.mkldnn._linear_pointwise, torch.ops.aten._weight_int8pack_mm)
OPERATORS, FLOOR, WORK = range(3)  # of a reading
HEADS = 4  # least attention heads; each has at most 64 activations


@dataclass(frozen=True, slots=True)
class Machine:
    """What the machine can do.

    Attributes:
        bandwidth: Bytes per second that a matrix-vector product in float32 reads.
        speed: Floating-point operations per second of a matrix product.
    """

    bandwidth: float
    speed: float

    def floor(self, size: float, operations: float) -> Seconds:
        """Return the least time for ``size`` bytes and a number of operations."""
        return max(size / self.bandwidth, operations / self.speed)


def measured_machine(options: argparse.Namespace) -> Machine:
    """Return the best of some trials.

    The matrix of the matrix-vector product is float32: PyTorch's kernels for other types read
    memory more slowly than it allows.
    """
    square = torch.randn(options.product, options.product).to(DTYPES[options.dtype])
    columns = 4096
    long = torch.randn(options.megabytes * 1_000_000 // columns // 4, columns)
    vector = torch.randn(columns)
    return Machine(
        bandwidth=long.nbytes / best_time(lambda: long @ vector),
        speed=2 * options.product**3 / best_time(lambda: square @ square),
    )


def best_time(function: Callable[[], object]) -> Seconds:
    """Return the shortest time of some trials, after one that warms up."""
    times = []
    for _ in range(TRIALS + 1):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times[1:])


class Operators(TorchDispatchMode):
    """Times every operator, and adds up floors and operations.

    Args:
        machine: What the machine can do.

    Attributes:
        seconds: Spent in operators.
        floor: Seconds of the sum of their floors.
        operations: Floating-point operations.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.seconds = self.floor = self.operations = 0.0
        self._overhead = 0.0
        self._overhead = self._measured_overhead()

    def __torch_dispatch__(
        self, function: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operator; one that consists of others is taken apart."""
        kwargs = kwargs or {}
        packet = function._overloadpacket
        if packet not in (ATTENTION, *LINEAR) and packet not in flop_registry:
            with self:
                result = function.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        start = time.perf_counter()
        result = function(*args, **kwargs)
        self.seconds += time.perf_counter() - start - self._overhead
        if packet is ATTENTION:
            operations = sdpa_flop_count(*(one.shape for one in args[:3]))
        elif packet in LINEAR:
            operations = 2 * args[0].numel() * result.shape[-1]
        elif packet in flop_registry:
            operations = flop_registry[packet](*args, **kwargs, out_val=result)
        else:
            return result
        results = result if isinstance(result, tuple) else (result,)
        tensors = [one for one in (*args, *results) if isinstance(one, Tensor)]
        size = sum(one.numel() * one.element_size() for one in tensors)
        self.operations += operations
        self.floor += self.machine.floor(size, operations)
        return result

    def _measured_overhead(self) -> Seconds:
        """Return by how much the call of an operator takes longer here than elsewhere."""
        number, count = torch.zeros(1), 2000
        start = time.perf_counter()
        for _ in range(count):
            number.neg()
        alone = time.perf_counter() - start
        with self:
            for _ in range(count):
                number.neg()
        inside, self.seconds = self.seconds, 0.0
        return max(0.0, inside - alone) / count

    def reading(self) -> NDArray[np.float64]:
        """Return seconds in operators, seconds of floors, and operations until now."""
        return np.array([self.seconds, self.floor, self.operations])


@dataclass(slots=True)
class Profile:
    """What the measured chunks of a system have cost, by stage.

    Attributes:
        seconds: By the clock alone, per chunk.
        readings: Sums over the chunks, in the order of ``Operators.reading``.
    """

    seconds: list[dict[str, Seconds]] = field(default_factory=list)
    readings: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def total(self, stage: str) -> Seconds:
        """Return the seconds of a stage over all chunks: the median of a chunk, times chunks."""
        values = [one.get(stage, 0.0) for one in self.seconds]
        return statistics.median(values) * len(values)


def system_on(
    backbone: Backbone, policy: Any, history: Any, *, chunk_seconds: Seconds
) -> StreamingSystem:
    """Return a system on a loaded backbone."""
    system = StreamingSystem(
        name="roofline",
        backbone=backbone,
        policy=policy,
        history=history,
        source_language="en",
        target_language="en" if isinstance(backbone, Whisper) else "de",
        chunk_seconds=chunk_seconds,
    )
    return system.eval()


def heads_of(width: int) -> int:
    """Return the number of attention heads of a network of this width."""
    return max(HEADS, width // 64)


def infinisst(options: argparse.Namespace) -> StreamingSystem:
    """Return InfiniSST: greedy, a window of 1,000 positions, 10 tokens per chunk."""
    given = [f"--hidden={options.width}", f"--layers={options.layers}", f"--dtype={options.dtype}"]
    given += [f"--heads={heads_of(options.width)}", f"--encoder-hidden={options.width}"]
    given += [f"--encoder-layers={options.layers}", "--beams=1"]
    chosen = infinisst_arguments([*given, *(["--small"] if options.small else [])])
    backbone = random_backbone(chosen)
    backbone.decoder_weights = options.decoder_weights
    return system_on(backbone, TurnTaking(), KeepAll(), chunk_seconds=0.96)


def streamatt(options: argparse.Namespace) -> StreamingSystem:
    """Return StreamAtt on SeamlessM4T: greedy, chunks of a second."""
    given = [f"--hidden={options.width}", f"--encoder-layers={options.layers}"]
    given += [f"--decoder-layers={options.layers}", f"--heads={heads_of(options.width)}"]
    chosen = streamatt_arguments([*given, *(["--small"] if options.small else [])])
    with tempfile.TemporaryDirectory() as folder:
        save_random_seamless(Path(folder), chosen, recording(10))
        greedy = SearchConfig(beams=1)
        backbone = SeamlessM4T(name=folder, max_tokens=48, search=greedy, **types(options))
        backbone.load()
        history = RecentWords(words=10, max_seconds=12, restart=None, speech=None)
        return system_on(backbone, AlignAtt(frames=2), history, chunk_seconds=1)


def whisper(options: argparse.Namespace) -> StreamingSystem:
    """Return StreamAtt on Whisper: greedy, chunks of a second, encoder inputs of 30 s."""
    given = [f"--hidden={options.width}", f"--layers={options.layers}"]
    given += [f"--heads={heads_of(options.width)}"]
    chosen = whisper_arguments([*given, *(["--small"] if options.small else [])])
    with tempfile.TemporaryDirectory() as folder:
        save_random_whisper(Path(folder), chosen)
        backbone = Whisper(name=folder, max_tokens=40, no_speech=1.0, **types(options))
        backbone.load()
        history = RecentWords(words=20, max_seconds=10, restart=None, speech=None)
        return system_on(backbone, AlignAtt(frames=10), history, chunk_seconds=1)


def types(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a backbone that choose the types of its weights."""
    return {"dtype": options.dtype, "decoder_weights": options.decoder_weights}


def configured(name: str, options: argparse.Namespace) -> StreamingSystem:
    """Return a system of the zoo with its trained weights. Raises ZooError for other kinds."""
    chosen = [f"system={name}", "device=cpu", f"backbone.dtype={options.dtype}"]
    if options.decoder_weights != "dtype":  # not every backbone has the key
        chosen.append(f"backbone.decoder_weights={options.decoder_weights}")
    system = build(compose("evaluate", chosen).system)
    if not isinstance(system, StreamingSystem):
        raise ZooError(f"roofline needs a system that streams by a backbone, not {name!r}.")
    system.configure_model()
    return system.eval()


def profile(system: StreamingSystem, machine: Machine, options: argparse.Namespace) -> Profile:
    """Stream the same audio twice: for the clock alone, and with operators counted."""
    count = options.warm_up + options.chunks
    chunks = recording(count * system.chunk_samples / SAMPLE_RATE).split(system.chunk_samples)
    found, operators = Profile(), Operators(machine)
    plain, counted = system.open("plain"), system.open("counted")
    for number, samples in enumerate(chunks[:count]):
        is_measured = number >= options.warm_up
        meter = StageMeter(time.perf_counter)
        with measure_stages(meter):
            system.step([plain], [SpeechChunk(samples)])
        readings = StageMeter(cast("Any", operators.reading))
        with measure_stages(readings), operators:
            system.step([counted], [SpeechChunk(samples)])
        if is_measured:
            found.seconds.append(meter.seconds)
            for name, reading in readings.seconds.items():
                found.readings[name] = found.readings.get(name, np.zeros(3)) + reading
    return found


def facts(name: str, found: Profile, machine: Machine) -> tuple[list[list[str]], dict[str, float]]:
    """Return a row per stage, and the ratios of a system."""
    rows, ratios = [], {}
    chunks = len(found.seconds)
    whole = sum(found.total(stage) for stage in found.readings)
    for stage, reading in found.readings.items():
        seconds = found.total(stage)
        floor, work = reading[FLOOR], reading[WORK]
        over, share = seconds / floor if floor else 0.0, work / seconds / machine.speed
        python = max(0.0, 1 - reading[OPERATORS] / seconds)
        cells = [f"{1000 * seconds / chunks:.1f}", f"{1000 * floor / chunks:.1f}"]
        cells += [f"{over:.2f}" if floor else "", f"{100 * share:.0f} %", f"{100 * python:.0f} %"]
        rows.append([name, stage, *cells])
        if stage == "decode" and floor:
            ratios[f"{name}_decode_over_floor"] = over
        elif stage in ("encoder", "prefill") and floor:
            ratios[f"{name}_{stage}_of_peak"] = share
            ratios[f"{name}_{stage}_over_floor"] = over
    spent = sum(reading[OPERATORS] for reading in found.readings.values())
    ratios[f"{name}_python_share"] = max(0.0, 1 - spent / whole)
    return rows, ratios


def main() -> None:
    """Measure the machine, then each family, and print a table and the result."""
    parser = parser_of(__doc__, SIZES)
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="float32", help="of weights")
    parser.add_argument("--systems", default="", help="systems of the zoo instead of the families")
    parser.add_argument(
        "--decoder-weights",
        choices=get_args(DecoderWeights),
        default="dtype",
        help="those that each decoding step reads",
    )
    options = parser.parse_args()
    if options.width % (2 * heads_of(options.width)):
        parser.error("argument --width: must be a multiple of 64, or of 8 up to 256")
    # Transformers imports DeepSpeed where it is installed, which otherwise warns about GPUs.
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    makers = {"infinisst": infinisst, "streamatt": streamatt, "whisper": whisper}
    machine = measured_machine(options)
    rows: list[list[str]] = []
    sizes: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for name in options.systems.split(",") if options.systems else FAMILIES:
        system = configured(name, options) if options.systems else makers[name](options)
        parameters = sum(one.numel() for one in system.backbone.parameters())
        sizes[f"{name}_parameters_millions"] = round(parameters / 1e6, 1)
        more_rows, more = facts(name, profile(system, machine, options), machine)
        rows += more_rows
        ratios |= {key: round(value, 3) for key, value in more.items()}
    columns = ("system", "stage", "ms per chunk", "floor", "over floor", "of peak", "Python")
    print_table(columns, [row for row in rows if row[1] != OTHER or float(row[2]) >= 0.1])
    peaks = {
        "gigabytes_per_second": round(machine.bandwidth / 1e9, 1),
        "gigaflops_per_second": round(machine.speed / 1e9, 1),
    }
    names = ("chunks", "threads", "dtype", "decoder_weights")
    settings = {name: getattr(options, name) for name in names}
    print_result("roofline", settings, peaks, sizes, ratios)


if __name__ == "__main__":
    run_script(main)
