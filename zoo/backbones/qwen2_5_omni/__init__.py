"""The thinker of Qwen2.5-Omni behind the backbone contract."""

from zoo.backbones.qwen2_5_omni.backbone import CHATML, Qwen25Omni

__all__ = ["CHATML", "Qwen25Omni"]
