"""SeamlessM4T of the first version, which writes and speaks."""

from zoo.backbones.seamless_speech.backbone import SeamlessM4TSpeech

__all__ = ["SeamlessM4TSpeech"]
