"""LST, the offline form of InfiniSST's network: instruction, all kept speech, then all text."""

from zoo.backbones.lst.backbone import LST
from zoo.backbones.lst.search import SearchConfig

__all__ = ["LST", "SearchConfig"]
