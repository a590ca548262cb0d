"""Phi-4-Multimodal behind the backbone contract."""

from zoo.backbones.phi4_multimodal.backbone import Phi4Multimodal

__all__ = ["Phi4Multimodal"]
