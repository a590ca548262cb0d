"""Keys and values at fixed addresses, in memory that the searches of a backbone share.

A captured step reads and writes the same addresses at every replay. The cache of a search therefore
lies in memory that is kept for the next search, with room for more positions. Only one search at a
time can use the memory.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.backbones.decoding.branches import KeyValueCache, LayerCache

KEYS = 256  # numbers of positions are rounded up to a multiple of this
TEXT = "text"  # name of the region that holds the cache of a search


class StaticMemory:
    """Named regions of memory, as large as the largest search so far needed.

    Args:
        replaced: Called before a region is replaced or freed. From then on, its addresses are
            invalid, so captured steps that use them must be dropped.
    """

    def __init__(self, replaced: Callable[[], None]) -> None:
        self._replaced = replaced
        self._regions: dict[str, Tensor] = {}  # (layers, 2, streams, heads, room, head size)
        self._cache: weakref.ref[KeyValueCache] | None = None  # the cache in the region TEXT

    @property
    def in_use(self) -> bool:
        """Whether the cache of a search lies in the memory."""
        return self._cache is not None and self._cache() is not None

    def cache(self, shape: Sequence[int], like: Tensor) -> KeyValueCache:
        """Return a cache for one search in the region TEXT; see ``region``.

        The next cache may be created as soon as this one is deleted; see ``in_use``.
        """
        cache = KeyValueCache(self.region(TEXT, shape, like))
        self._cache = weakref.ref(cache)
        return cache

    def region(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return the memory of a region, for one search.

        Example:
            Positions are rounded up to multiples of 256. Two searches ask for 4 streams with 300
            positions, then for 2 streams with 100 positions. The first one allocates 4 streams with
            512 positions and gets all of them. The second one gets the first 2 streams of the same
            memory, with 512 positions. If a third one asks for 8 streams with 100 positions, the
            memory is replaced by 8 streams with 512 positions: neither size ever shrinks.

        Args:
            name: Name of the region.
            shape: Layers, 2, streams, heads, positions and head size.
            like: Tensor with the dtype and device of the memory.

        Returns:
            Memory of this shape, with at least as many positions. The contents are undefined.
        """
        layers, pair, streams, heads, positions, size = shape
        held = self._regions.get(name)
        fits = (
            held is not None
            and (held.dtype, held.device) == (like.dtype, like.device)
            and held.shape[2] >= streams
            and held.shape[4] >= positions
        )
        if held is None or not fits:
            most = (0, 0) if held is None else (held.shape[2], held.shape[4])
            room = max(rounded_up(positions), most[1])
            held = zeros((layers, pair, max(streams, most[0]), heads, room, size), like)
            self._replace(name, held)
        return held[:, :, :streams]

    def holds(self, cache: KeyValueCache) -> bool:
        """Whether a cache lies in the memory. A plain step that enlarges a cache moves it out."""
        if self._cache is None or self._cache() is not cache:
            return False
        return cache.data.data_ptr() == self._regions[TEXT].data_ptr()

    def reserve(self, cache: KeyValueCache, new: int) -> None:
        """Move the cache to a larger region if it has no room for ``new`` more positions."""
        text = self._regions[TEXT]
        if cache.length + new <= text.shape[4]:
            return
        shape = list(text.shape)
        shape[4] = rounded_up(2 * shape[4])
        larger = zeros(shape, text)
        larger[..., : text.shape[4], :] = text
        self._replace(TEXT, larger)
        cache.data = larger[:, :, : cache.data.shape[2]]

    def clear(self) -> None:
        """Free the memory, except that of a running search."""
        self._replaced()
        self._regions.clear()
        self._cache = None

    def _replace(self, name: str, region: Tensor) -> None:
        self._replaced()
        self._regions[name] = region


class PlacedCache(KeyValueCache):
    """A cache of fixed length whose new positions are given, instead of being the last ones.

    Attributes:
        positions: (new,) cache positions that are written.
    """

    def __init__(self, data: Tensor, positions: Tensor) -> None:
        super().__init__(data, data.shape[4])
        self.positions = positions

    def update(
        self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Write keys and values (streams, heads, new, head size) of new positions.

        Returns:
            Keys and values of the layer at all positions.
        """
        keys, values = self.data[layer]
        keys.index_copy_(2, self.positions, key)
        values.index_copy_(2, self.positions, value)
        return keys, values

    def layers(self, new: int) -> list[LayerCache]:
        """Return the views of all layers; ``positions`` are their new positions."""
        return [LayerCache(both, both[0], both[1], self.positions) for both in self.data]


def zeros(shape: Sequence[int], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return zeros on the device of another tensor and, without ``dtype``, of its dtype.

    A later search may run outside inference mode, where tensors of that mode cannot be written.
    """
    with torch.inference_mode(False):
        return like.new_zeros(tuple(shape), dtype=dtype or like.dtype)


def rounded_up(positions: int) -> int:
    """Return a number of positions, rounded up to a multiple of ``KEYS``."""
    return -(-positions // KEYS) * KEYS
