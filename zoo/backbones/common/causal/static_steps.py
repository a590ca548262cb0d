"""Decoding steps of fixed shapes, which a GPU captures once and replays.

A decoding step of a causal LM has hundreds of small operations, and a GPU spends more time on
starting them than on computing them. CUDA graphs start all of them at once, but replay the same
shapes and addresses. Here the key-value cache of a batch therefore lies in memory that the searches
of a backbone share, its length is rounded up, and a mask excludes the positions that are not used.
"""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args
from warnings import warn

import torch
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.common.branches import KeyValueCache
from zoo.backbones.common.causal.decoder import Recorder
from zoo.backbones.common.causal.layers import FastLayers, fast_layers
from zoo.errors import check_choice

Capture = Literal["off", "auto", "static"]
Heads = Mapping[int, Sequence[int] | None]
Shape = tuple[int, int, int]  # live streams, beams, keys

KEYS = 256  # the number of keys is rounded up to a multiple
CHECKED = 3  # first steps of a graph that are compared with a plain step
MOST_GRAPHS = 64  # shapes; steps of further shapes are plain steps
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}  # of states, relative to the largest one
COARSE = 5e-2  # the same for types of 16 bits


class Stepped(NamedTuple):
    """Outputs of one step.

    Attributes:
        hidden: (streams, new, width) states after the last norm.
        weights: (streams, rows, heads, keys) recorded attention; None if nothing is recorded.
    """

    hidden: Tensor
    weights: Tensor | None


class StepInputs(NamedTuple):
    """Inputs of one step with fixed addresses.

    Attributes:
        ids: (streams, beams) token ids.
        positions: (streams, beams) rotary positions.
        mask: (streams, 1, beams, keys) added to the scores.
        places: (beams,) cache positions that the step writes.
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor
    places: Tensor


Capturer = Callable[[Callable[[], Stepped]], Callable[[], Stepped]]


def cuda_graph(compute: Callable[[], Stepped]) -> Callable[[], Stepped]:
    """Capture a computation without inputs and outputs of its own as a CUDA graph.

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
    with torch.cuda.graph(graph):
        outputs = compute()

    def replay() -> Stepped:
        graph.replay()
        return outputs

    return replay


class StaticSteps:
    """Static memory and captured steps of one backbone.

    Attributes:
        capture: Which steps are static.
            off: none.
            auto: on a GPU all, captured as graphs. The first steps of each graph are compared with
            plain ones. If the states differ or the GPU refuses the capture, a warning is printed
            and all later steps are plain ones.
            static: all, on any device, without graphs.
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
        self._memory: Tensor | None = None  # (layers, 2, streams, heads, room, head size)
        self._cache: weakref.ref[KeyValueCache] | None = None  # that lies in the memory
        self._steps: dict[tuple[Any, ...], _Step] = {}
        self._layers: FastLayers | None = None
        self._weights: tuple[int, ...] = ()

    def apply_to(self, device: torch.device) -> bool:
        """Whether steps on a device are static."""
        if self.capture == "auto":
            return device.type == "cuda" or self._capturer is not None
        return self.capture == "static"

    def cache(self, decoder: PreTrainedModel, shape: Sequence[int], like: Tensor) -> KeyValueCache:
        """Return a cache for one search, in the static memory unless another search uses it.

        Args:
            decoder: Causal LM of the search.
            shape: Layers, 2, streams, heads, positions and head size. The cache has at least as
                many positions; their contents are undefined.
            like: Tensor with the dtype and device of the cache.
        """
        layers, pair, streams, heads, positions, size = shape
        if self._cache is not None and self._cache() is not None:
            return KeyValueCache(like.new_empty(tuple(shape)))
        self._check_weights(decoder)
        memory = self._memory
        fits = (
            memory is not None
            and (memory.dtype, memory.device) == (like.dtype, like.device)
            and memory.shape[2] >= streams
            and memory.shape[4] >= positions
        )
        if memory is None or not fits:
            held = (0, 0) if memory is None else (memory.shape[2], memory.shape[4])
            room = max(rounded_up(positions), held[1])
            memory = like.new_zeros(layers, pair, max(streams, held[0]), heads, room, size)
            self._replace(memory)
        cache = KeyValueCache(memory[:, :, :streams])
        self._cache = weakref.ref(cache)
        return cache

    def _holds(self, cache: KeyValueCache) -> bool:
        """Whether a cache lies in the static memory; a plain step may have moved it elsewhere."""
        if self._memory is None or self._cache is None or self._cache() is not cache:
            return False
        return cache.data.data_ptr() == self._memory.data_ptr()

    def _replace(self, memory: Tensor) -> None:
        """Use other memory; captured steps refer to the addresses of the old one."""
        self._steps.clear()
        self._memory = memory

    def step(
        self,
        decoder: PreTrainedModel,
        cache: KeyValueCache,
        ids: Tensor,
        positions: Tensor,
        visible: Tensor,
        heads: Heads | None,
        plain: Callable[[], Stepped],
    ) -> Stepped:
        """Run the decoder over one new token per row and write keys and values to the cache.

        Args:
            decoder: Causal LM.
            cache: Keys and values; its ``length`` is unchanged.
            ids: (streams, beams) token ids.
            positions: (streams, beams) rotary positions.
            visible: (streams, beams, cached + beams) bool attention mask.
            heads: Heads whose attention is recorded, by layer.
            plain: Computes the same without static shapes, and writes the same cache positions.

        Returns:
            States and attention, whose keys may be padded with zeros.
        """
        if self.capture == "off" or not self._holds(cache):
            return plain()
        self._reserve(cache, ids.shape[1])
        keys = rounded_up(cache.length + ids.shape[1])
        shape = (*ids.shape, keys)
        recorded = (
            () if heads is None else tuple((layer, *(of or ())) for layer, of in heads.items())
        )
        step = self._steps.get((shape, recorded))
        if step is None:
            if len(self._steps) == MOST_GRAPHS:
                return plain()
            step = _Step(self._computation(decoder, cache, shape, heads), cache.data, shape)
            self._steps[shape, recorded] = step
        step.fill(ids, positions, visible, cache.length)
        if self.capture == "static":
            return step.compute(step.inputs)
        return self._replayed(step, plain)

    def _replayed(self, step: "_Step", plain: Callable[[], Stepped]) -> Stepped:
        """Replay a step; compare it with the plain computation at first."""
        try:
            found = step.replay(self._capturer or cuda_graph)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            return self._give_up(f"the decoder cannot be captured ({reason})", plain)
        if step.replays > CHECKED:
            return found
        expected = plain()
        if not agree(found.hidden, expected.hidden):
            return self._give_up("captured steps differ from plain ones", lambda: expected)
        return found

    def _give_up(self, reason: str, plain: Callable[[], Stepped]) -> Stepped:
        """Print a warning and use plain steps from now on."""
        warn(f"backbone.capture: {reason}; decoding goes on without captured steps.", stacklevel=2)
        self.capture = "off"
        self._steps.clear()
        return plain()

    def _reserve(self, cache: KeyValueCache, new: int) -> None:
        """Move to larger memory if the cache is full."""
        memory = self._memory
        if memory is None or cache.length + new <= memory.shape[4]:
            return
        shape = list(memory.shape)
        shape[4] = rounded_up(2 * shape[4])
        larger = memory.new_zeros(shape)
        larger[..., : memory.shape[4], :] = memory
        self._replace(larger)
        cache.data = larger[:, :, : cache.data.shape[2]]

    def _check_weights(self, decoder: PreTrainedModel) -> None:
        """Forget the captured steps if the weights lie elsewhere now."""
        weights = tuple(weight.data_ptr() for weight in decoder.model.parameters())
        if self._layers is None or weights != self._weights:
            self._steps.clear()
            self._layers = fast_layers(decoder)  # may move weights
            self._weights = tuple(weight.data_ptr() for weight in decoder.model.parameters())

    def _computation(
        self, decoder: PreTrainedModel, cache: KeyValueCache, shape: Shape, heads: Heads | None
    ) -> "Computation":
        """Return the decoder's computation for one shape."""
        layers, embed = self._layers, decoder.get_input_embeddings()
        live, beams, keys = shape
        data = cache.data[:, :, :live, :, :keys]

        def compute(inputs: StepInputs) -> Stepped:
            recorder = None if heads is None else Recorder(heads, beams)
            placed = PlacedCache(data, inputs.places)
            assert layers is not None
            hidden = layers(embed(inputs.ids), inputs.positions, inputs.mask, placed, recorder)
            return Stepped(hidden, None if recorder is None else recorder.weights())

        return compute


Computation = Callable[[StepInputs], Stepped]


class _Step:
    """The step of one shape: its inputs, its computation, and its graph as soon as it is captured.

    Attributes:
        compute: The computation.
        inputs: Its inputs, whose contents change from step to step.
        replays: Number of replays so far.
    """

    def __init__(self, compute: Computation, data: Tensor, shape: Shape) -> None:
        live, beams, keys = shape
        self.compute = compute
        ids = torch.zeros(live, beams, dtype=torch.long, device=data.device)
        mask = data.new_zeros(live, 1, beams, keys)
        self.inputs = StepInputs(ids, torch.zeros_like(ids), mask, torch.zeros_like(ids[0]))
        self.replays = 0
        self._replay: Callable[[], Stepped] | None = None

    def fill(self, ids: Tensor, positions: Tensor, visible: Tensor, length: int) -> None:
        """Write the inputs of the next step; see ``StaticSteps.step``."""
        inputs = self.inputs
        inputs.ids.copy_(ids)
        inputs.positions.copy_(positions)
        inputs.mask.fill_(-torch.inf)
        inputs.mask[:, 0, :, : visible.shape[-1]].masked_fill_(visible, 0)
        inputs.places.copy_(torch.arange(length, length + ids.shape[1], device=ids.device))

    def replay(self, capturer: Capturer) -> Stepped:
        """Run the captured computation; the outputs are copies."""
        if self._replay is None:
            self._replay = capturer(lambda: self.compute(self.inputs))
        self.replays += 1
        hidden, weights = self._replay()
        return Stepped(hidden.clone(), None if weights is None else weights.clone())


class PlacedCache(KeyValueCache):
    """A cache of fixed length that is written at given positions.

    Attributes:
        places: (new,) the positions.
    """

    def __init__(self, data: Tensor, places: Tensor) -> None:
        super().__init__(data, data.shape[4])
        self.places = places

    def update(
        self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write keys and values (streams, heads, new, head size) of new positions.

        Returns:
            Keys and values of the layer at all positions.
        """
        keys, values = self.data[layer]
        keys.index_copy_(2, self.places, key)
        values.index_copy_(2, self.places, value)
        return keys, values


def rounded_up(positions: int) -> int:
    """Return a number of positions, rounded up to a multiple of ``KEYS``."""
    return -(-positions // KEYS) * KEYS


def agree(found: Tensor, expected: Tensor) -> bool:
    """Whether two tensors are equal within the rounding of their dtype."""
    tolerance = TOLERANCE.get(expected.dtype, COARSE)
    return bool((found - expected).abs().max() <= tolerance * expected.abs().max())
