"""InfiniSST: simultaneous translation of unbounded speech with a large language model."""

from zoo.backbones.infinisst.backbone import InfiniSST
from zoo.backbones.infinisst.encoder import EncoderConfig
from zoo.backbones.infinisst.prompt import LEAN, Template
from zoo.backbones.infinisst.search import SearchConfig
from zoo.backbones.infinisst.window import WindowConfig

__all__ = ["LEAN", "EncoderConfig", "InfiniSST", "SearchConfig", "Template", "WindowConfig"]
