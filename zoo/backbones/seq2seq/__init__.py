"""Offline encoder-decoders: hear all kept audio at every look, force what was written, tell alignments."""

from zoo.backbones.listener import StreamState
from zoo.backbones.seq2seq.alignment import AlignmentConfig
from zoo.backbones.seq2seq.backbone import Seq2Seq

__all__ = ["AlignmentConfig", "Seq2Seq", "StreamState"]
