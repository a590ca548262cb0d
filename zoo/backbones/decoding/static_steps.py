"""Decoding steps of fixed shapes, which a GPU captures once and replays.

A decoding step has hundreds of small operations, and a GPU spends more time on starting them than
on computing them. CUDA graphs start all of them at once, but replay the same shapes and addresses.
Here the keys and values of a batch therefore lie in static memory, their number is rounded up, and
masks exclude the positions that are not used. Causal LMs and decoders with cross-attention share
this; their branches supply the computation.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, get_args
from warnings import warn

import torch
from torch import Tensor, nn

from zoo.backbones.decoding.alignment import Heads
from zoo.backbones.decoding.branches import KeyValueCache
from zoo.backbones.decoding.static_memory import PlacedCache, StaticMemory, rounded_up, zeros
from zoo.base.errors import check_choice
from zoo.base.machine.weight_layout import weight_state

Capture = Literal["off", "auto", "static"]
Shape = tuple[int, int, int]  # live streams, beams, keys

CHECKED = 3  # first steps of a graph that are compared with a plain step
MOST_GRAPHS = 64  # number of captured shapes; steps of further shapes are plain steps
# Permitted difference of states, relative to the largest one. TF32 products round to 10 bits, which
# gives differences of up to 1.2e-3.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-2}
COARSE = 5e-2  # permitted difference for types of 16 bits


class Stepped(NamedTuple):
    """Outputs of one step.

    Attributes:
        hidden: (streams, new, width) states after the last norm.
        weights: (streams, rows, heads, keys) recorded attention; None if nothing is recorded.
    """

    hidden: Tensor
    weights: Tensor | None

    def copied(self, keys: int) -> "Stepped":
        """Copy the states and the attention to the first keys.

        A view of the attention would keep the memory of the padding, too.
        """
        weights = None if self.weights is None else self.weights[..., :keys].clone()
        return Stepped(self.hidden.clone(), weights)


class StepInputs(NamedTuple):
    """Inputs of one step with fixed addresses.

    Attributes:
        ids: (streams, beams) token ids.
        positions: (streams, beams) positions of the tokens in their texts.
        mask: (streams, 1, beams, keys) added to the scores.
        cache_positions: (beams,) cache positions that the step writes.
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor
    cache_positions: Tensor


Computation = Callable[[StepInputs, PlacedCache], Stepped]
Capturer = Callable[[Callable[[], Stepped]], Callable[[], Stepped]]


class Prepare(Protocol):
    """Returns the computation of a decoder for one shape.

    The computation is kept for later searches. It must not refer to the branches of a search: they
    own its cache, and the static memory is in use as long as the cache exists.
    """

    def __call__(self, live: int, beams: int, keys: int) -> Computation:
        """Return the computation for live streams, beams and keys."""


def cuda_graph(compute: Callable[[], Stepped]) -> Callable[[], Stepped]:
    """Capture a computation without inputs and outputs of its own on the current CUDA device.

    Returns:
        A function that repeats the computation and returns the same tensors with new contents.
    """
    current = torch.cuda.current_stream()
    aside = torch.cuda.Stream()
    aside.wait_stream(current)
    with torch.cuda.stream(aside):  # libraries allocate their workspaces before the capture
        for _ in range(2):
            compute()
    current.wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=aside):  # the default stream may be of another device
        outputs = compute()

    def replay() -> Stepped:
        graph.replay()
        return outputs

    return replay


class StaticSteps:
    """Static memory and captured steps of one decoder.

    Attributes:
        capture: Which steps are static.
            off: none.
            auto: on a GPU all of the search that uses the static memory, captured as graphs. The
            first steps of each graph are compared with plain ones. If the states differ or the GPU
            refuses the capture, a warning is printed and ``capture`` becomes ``off``: all later
            steps are plain ones.
            static: the same on any device, without graphs.
        memory: Memory of the caches, and of whatever else the steps read.
    """

    def __init__(self, capture: Capture, *, capturer: Capturer | None = None) -> None:
        """Allocate nothing yet.

        Args:
            capture: Which steps are static.
            capturer: Captures a step on any device, with ``auto``. None: ``cuda_graph`` on GPUs.
        """
        check_choice("backbone.capture", capture, get_args(Capture))
        self.capture: Capture = capture
        self._capturer = capturer
        self._steps: dict[tuple[Hashable, ...], _Step] = {}
        self._weights: list[tuple[Any, ...]] = []  # the steps refer to their addresses
        self.memory = StaticMemory(self._steps.clear)

    def __reduce__(self) -> tuple[Callable[[], "StaticSteps"], tuple[()]]:
        """Copy and pickle the arguments only, because a graph belongs to its process."""
        return partial(StaticSteps, self.capture, capturer=self._capturer), ()

    def apply_to(self, device: torch.device) -> bool:
        """Whether steps on a device are static."""
        if self.capture == "auto":
            return device.type == "cuda" or self._capturer is not None
        return self.capture == "static"

    def cache(self, network: nn.Module, shape: Sequence[int], like: Tensor) -> KeyValueCache:
        """Return a cache for one search, in the static memory unless another search uses it.

        The cache has memory of its own, too, if no step on its device is static.

        Args:
            network: Decoder of the search, whose weights lie where the steps will use them.
            shape: Layers, 2, streams, heads, positions and head size. The cache has at least as
                many positions; their contents are undefined.
            like: Tensor with the dtype and device of the cache.
        """
        if self.memory.in_use or not self.apply_to(like.device):
            return KeyValueCache(like.new_empty(tuple(shape)))
        weights = weight_state(network)
        if weights != self._weights:
            self._steps.clear()
            self._weights = weights
        return self.memory.cache(shape, like)

    def holds(self, cache: KeyValueCache) -> bool:
        """Whether a cache lies in the static memory."""
        return self.memory.holds(cache)

    def free_memory(self) -> None:
        """Free the memory and the graphs. The graphs also keep the weights in memory."""
        self._weights = []
        self.memory.clear()

    def step(
        self,
        cache: KeyValueCache,
        ids: Tensor,
        positions: Tensor,
        visible: Tensor,
        *,
        kind: Hashable,
        recorded: int,
        prepare: Prepare,
        plain: Callable[[], Stepped],
    ) -> Stepped:
        """Run the decoder over one new token per row and write keys and values to the cache.

        Args:
            cache: Keys and values; its ``length`` is unchanged.
            ids: (streams, beams) token ids.
            positions: (streams, beams) positions of the tokens in their texts.
            visible: (streams, beams, cached + beams) bool attention mask.
            kind: Whatever else the computation depends on, such as the recorded heads.
            recorded: Number of first keys whose attention is returned by a static step.
            prepare: Returns the computation for a shape. It is called once per shape and kind.
            plain: Computes the same without static shapes, and writes the same cache positions.

        Returns:
            States and attention; that of plain steps may have keys padded with zeros.
        """
        if self.capture == "off" or not self.holds(cache):
            return plain()
        live, beams = ids.shape
        self.memory.reserve(cache, beams)
        keys = rounded_up(cache.length + beams)
        step = self._steps.get((live, beams, keys, kind))
        if step is None:
            if len(self._steps) == MOST_GRAPHS:
                return plain()
            step = _Step(prepare(live, beams, keys), cache.data, (live, beams, keys))
            self._steps[live, beams, keys, kind] = step
        step.fill(ids, positions, visible, cache.length)
        if self.capture == "static":
            return step.compute().copied(recorded)
        return self._replayed(step, recorded, plain)

    def _replayed(self, step: "_Step", recorded: int, plain: Callable[[], Stepped]) -> Stepped:
        """Replay a step, and compare its first replays with the plain computation."""
        try:
            stepped = step.replay(self._capturer or cuda_graph).copied(recorded)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            return self._give_up(f"the decoder cannot be captured ({reason})", plain)
        if step.replays > CHECKED:
            return stepped
        expected = plain()
        if not agree(stepped.hidden, expected.hidden):
            return self._give_up("captured steps differ from plain ones", lambda: expected)
        return stepped

    def _give_up(self, reason: str, plain: Callable[[], Stepped]) -> Stepped:
        """Print a warning and use plain steps from now on."""
        warn(f"backbone.capture: {reason}; decoding goes on without captured steps.", stacklevel=2)
        self.capture = "off"
        self.free_memory()
        return plain()


class _Step:
    """The step of one shape: its inputs, its computation, and its graph as soon as it is captured.

    Attributes:
        inputs: Its inputs, whose contents change from step to step.
        replays: Number of replays so far.
    """

    def __init__(self, computation: Computation, data: Tensor, shape: Shape) -> None:
        """Allocate the inputs.

        Args:
            computation: Computation of the decoder.
            data: Static memory of the cache.
            shape: Number of live streams, beams and keys.
        """
        live, beams, keys = shape
        ids, positions = (zeros((live, beams), data, torch.long) for _ in range(2))
        mask, cache_positions = (
            zeros((live, 1, beams, keys), data),
            zeros((beams,), data, torch.long),
        )
        self.inputs = StepInputs(ids, positions, mask, cache_positions)
        self.replays = 0
        self._computation = computation
        self._data = data[:, :, :live, :, :keys]
        self._replay: Callable[[], Stepped] | None = None

    def fill(self, ids: Tensor, positions: Tensor, visible: Tensor, length: int) -> None:
        """Write the inputs of the next step; see ``StaticSteps.step``."""
        inputs = self.inputs
        inputs.ids.copy_(ids)
        inputs.positions.copy_(positions)
        inputs.mask.fill_(-torch.inf)
        inputs.mask[:, 0, :, : visible.shape[-1]].masked_fill_(visible, 0)
        inputs.cache_positions.copy_(torch.arange(length, length + ids.shape[1], device=ids.device))

    def compute(self) -> Stepped:
        """Run the computation."""
        return self._computation(self.inputs, PlacedCache(self._data, self.inputs.cache_positions))

    def replay(self, capturer: Capturer) -> Stepped:
        """Run the captured computation; the next replay overwrites the outputs."""
        if self._replay is None:
            with torch.cuda.device_of(self._data):
                self._replay = capturer(self.compute)
        self.replays += 1
        return self._replay()


def recorded_heads(heads: Heads | None) -> Hashable:
    """Identify the heads whose attention is recorded, in a ``kind`` of steps."""
    if heads is None:
        return None
    return tuple((layer, None if of is None else tuple(of)) for layer, of in heads.items())


def agree(actual: Tensor, expected: Tensor) -> bool:
    """Whether two tensors are equal within the rounding of their dtype."""
    tolerance = TOLERANCE.get(expected.dtype, COARSE)
    return bool((actual - expected).abs().max() <= tolerance * expected.abs().max())
