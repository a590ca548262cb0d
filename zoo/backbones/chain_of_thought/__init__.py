"""Speech chain of thought: transcript and translation by one speech LLM."""

from zoo.backbones.chain_of_thought.backbone import ChainOfThought
from zoo.backbones.chain_of_thought.prompt import Template

__all__ = ["ChainOfThought", "Template"]
