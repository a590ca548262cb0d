"""Keys and values at fixed addresses, in memory that the searches of a backbone share.

A captured step reads and writes the same addresses at every replay. The cache of one search at a
time therefore lies in memory that stays for the next search, with room for more positions.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.backbones.common.branches import KeyValueCache, LayerCache

KEYS = 256  # numbers of positions are rounded up to a multiple
TEXT = "text"  # name of the part that the caches of searches lie in


class StaticMemory:
    """Parts of memory, by name; the longest and largest search so far decides their size.

    Args:
        replaced: Called before a part is replaced or freed, whose addresses nothing may use then.
    """

    def __init__(self, replaced: Callable[[], None]) -> None:
        self._replaced = replaced
        self._parts: dict[str, Tensor] = {}  # (layers, 2, streams, heads, room, head size)
        self._cache: weakref.ref[KeyValueCache] | None = None  # that lies in the part of texts

    @property
    def in_use(self) -> bool:
        """Whether the cache of a search lies in the memory."""
        return self._cache is not None and self._cache() is not None

    def cache(self, shape: Sequence[int], like: Tensor) -> KeyValueCache:
        """Return a cache for one search; see ``part``. Until it is deleted, there is no other."""
        cache = KeyValueCache(self.part(TEXT, shape, like))
        self._cache = weakref.ref(cache)
        return cache

    def part(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return memory for the search whose cache lies in the part of texts.

        Args:
            name: Name of the part.
            shape: Layers, 2, streams, heads, positions and head size.
            like: Tensor with the dtype and device of the memory.

        Returns:
            Memory of this shape with as many or more positions. The contents are undefined.
        """
        layers, pair, streams, heads, positions, size = shape
        held = self._parts.get(name)
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
        """Whether a cache lies in the memory; a plain step may have moved it elsewhere."""
        if self._cache is None or self._cache() is not cache:
            return False
        return cache.data.data_ptr() == self._parts[TEXT].data_ptr()

    def reserve(self, cache: KeyValueCache, new: int) -> None:
        """Move to larger memory if the cache has no room for new positions."""
        text = self._parts[TEXT]
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
        self._parts.clear()
        self._cache = None

    def _replace(self, name: str, part: Tensor) -> None:
        self._replaced()
        self._parts[name] = part


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

    def layers(self, new: int) -> list[LayerCache]:
        """Return the views of all layers, whose new positions are those of ``places``."""
        return [LayerCache(both, both[0], both[1], self.places) for both in self.data]


def zeros(shape: Sequence[int], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return zeros on the device of another tensor and, without ``dtype``, of its dtype.

    A later search may run outside inference mode, where tensors of that mode cannot be written.
    """
    with torch.inference_mode(False):
        return like.new_zeros(tuple(shape), dtype=dtype or like.dtype)


def rounded_up(positions: int) -> int:
    """Return a number of positions, rounded up to a multiple of ``KEYS``."""
    return -(-positions // KEYS) * KEYS
