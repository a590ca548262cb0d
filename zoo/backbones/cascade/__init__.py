"""Transcribe, then translate: a cascade of two networks."""

from zoo.backbones.cascade.backbone import Cascade
from zoo.backbones.cascade.prompt import Template

__all__ = ["Cascade", "Template"]
