"""Shape of a Hibiki, read from the config.json of its published layout."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.base.disk.parsing import MALFORMED, bounded_whole, read_json
from zoo.base.errors import ZooError, shorten

# Settings that all published models share, and that names and shapes of the weights do not show:
# the value of a missing key, and the accepted ones.
SHARED: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "gating": ("none", ("silu",)),
    "norm": ("layer_norm", ("rms_norm_f32",)),
    "causal": (True, (True,)),
    "depformer_gating": ("silu", ("silu",)),
    "depformer_norm": (None, (None, "layer_norm")),
    "depformer_pos_emb": ("sin", ("none",)),
}
LARGEST = 2**24  # of a size or a count; no model has a tenth
ROTATIONS = {"rope": False, "rope_concat": True}  # whether pairs are halves of a head


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Shape of a stack of Transformer layers.

    Attributes:
        width: Size of the hidden states.
        layers: Number of layers.
        heads: Number of query heads.
        groups: Number of heads of keys and values.
        hidden: Size of the gated feed-forward block.
        weights: Index of the weights that each step uses; one entry: those of all steps.
        context: Number of positions, its own included, to which a position attends.
        period: Longest period of the rotary positions; None: no positions.
        halves: Whether a rotated pair is (i, i + size / 2) of a head instead of (2 i, 2 i + 1).
    """

    width: int
    layers: int
    heads: int
    groups: int
    hidden: int
    weights: tuple[int, ...]
    context: int
    period: float | None = None
    halves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HibikiConfig:
    """Shape of a Hibiki.

    Attributes:
        temporal: Transformer with one position per frame of 80 ms.
        depth: Transformer over the target codebooks of a frame.
        text: Size of the text vocabulary; this id begins the text.
        codes: Size of a codebook; this id begins a stream and marks the end of the source.
        targets: Number of target codebooks.
        delays: Delay in frames of the text, the target codebooks and the source codebooks.
        padding: Text id of a frame without a new token.
        low_rank: Size of the embeddings of the depth Transformer before their projection.
        depth_norm: Whether a layer norm precedes each output layer of the depth Transformer.
        description: Number of descriptions of the quality of training data, the size of their
            embeddings, and the index of the best one; None: the model has none.
        ignores_early_end: Whether an end of text counts as padding in the next frame.
        sampling: Temperatures and numbers of candidates that the authors' code uses.
        weights: Name of the file of weights.
        tokenizer: Name of the file of the tokenizer.
    """

    temporal: Stack
    depth: Stack
    text: int
    codes: int
    targets: int
    delays: tuple[int, ...]
    padding: int
    low_rank: int | None
    depth_norm: bool
    description: tuple[int, int, int] | None
    ignores_early_end: bool
    sampling: Mapping[str, Any]
    weights: str
    tokenizer: str

    @property
    def sources(self) -> int:
        """Number of source codebooks."""
        return len(self.delays) - 1 - self.targets


def read_config(folder: Path) -> HibikiConfig:
    """Read ``config.json`` of a folder.

    Raises:
        ZooError: The file is missing or damaged, lacks a key, or has a value that no Hibiki has.
    """
    path = folder / "config.json"
    try:
        values = read_json(path)
    except (OSError, ValueError) as error:
        raise ZooError(f"{path} is missing or no JSON; it must describe a Hibiki.") from error
    if not isinstance(values, dict):
        raise ZooError(f"{path} is no description of a Hibiki: it must have keys.")
    for key, (missing, accepted) in SHARED.items():
        value = values.get(key, missing)
        if value not in accepted:
            raise ZooError(f"{path} has {key}={value!r}, which no published Hibiki has.")
    try:
        return _parse(values)
    except MALFORMED as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else f"does not fit: {error}"
        raise ZooError(f"{path} is no description of a Hibiki: it {reason}.") from error


def _parse(values: Mapping[str, Any]) -> HibikiConfig:
    """Return the shape that settings describe. May raise the errors of wrong types."""
    targets, streams = _count(values, "dep_q"), 1 + _count(values, "n_q")
    delays = tuple(bounded_whole(delay, most=LARGEST) for delay in values["delays"])
    if len(delays) != streams or not 0 < targets < streams - 1 or delays[0]:
        raise ValueError(f"{targets} of {streams} streams are spoken, with delays {[*delays]}")
    depth_width = _count(values, "depformer_dim")
    scale = float(values["hidden_scale"])
    schedule = values.get("depformer_weights_per_step_schedule") or range(targets)
    repeat = bounded_whole(values.get("kv_repeat", 1), least=1, most=LARGEST)
    temporal = Stack(
        width=_count(values, "dim"),
        layers=_count(values, "num_layers"),
        heads=_count(values, "num_heads"),
        groups=_count(values, "num_heads") // repeat,
        hidden=_gated(_count(values, "dim"), scale * values["dim"]),
        weights=(0,),
        context=_count(values, "context"),
        period=float(values.get("max_period", 10_000)),
        halves=ROTATIONS[values["positional_embedding"]],
    )
    depth = Stack(
        width=depth_width,
        layers=_count(values, "depformer_num_layers"),
        heads=_count(values, "depformer_num_heads"),
        groups=_count(values, "depformer_num_heads")
        // bounded_whole(values.get("depformer_kv_repeat", repeat), least=1, most=LARGEST),
        hidden=_gated(depth_width, values.get("depformer_dim_feedforward") or scale * depth_width),
        weights=tuple(bounded_whole(index, most=targets - 1) for index in schedule),
        context=targets,
    )
    if len(depth.weights) != targets:
        raise ValueError(f"depformer_weights_per_step_schedule has {len(depth.weights)} steps")
    return HibikiConfig(
        temporal=temporal,
        depth=depth,
        text=_count(values, "text_card"),
        codes=_count(values, "card"),
        targets=targets,
        delays=delays,
        padding=bounded_whole(values.get("existing_text_padding_id", 3), most=LARGEST),
        low_rank=values.get("depformer_low_rank_embeddings"),
        depth_norm=values.get("depformer_norm") is not None,
        description=_description(values.get("conditioners") or {}),
        ignores_early_end=values.get("model_type") == "hibiki",
        sampling=dict(values.get("lm_gen_config") or {}),
        weights=str(values.get("moshi_name", "model.safetensors")),
        tokenizer=str(values.get("tokenizer_name", "tokenizer_spm_32k_3.model")),
    )


def _count(values: Mapping[str, Any], key: str) -> int:
    """Return a positive whole number that is no larger than any size. May raise ``MALFORMED``."""
    value = values[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
        raise ValueError(f"{key}={shorten(repr(value))} is no positive number of at most {LARGEST}")
    return value


def _gated(width: int, feedforward: float) -> int:
    """Return the size of a gated block, which has the parameters of a plain one."""
    return 21 * width // 8 if int(feedforward) == 4 * width else 2 * int(feedforward) // 3


def _description(conditioners: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Return the sizes of the only condition of a published Hibiki. May raise KeyError."""
    if not conditioners:
        return None
    table = conditioners["description"]["lut"]
    best = table["possible_values"].index("very_good")
    return _count(table, "n_bins"), _count(table, "dim"), best
