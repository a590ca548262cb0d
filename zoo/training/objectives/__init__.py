"""Training objectives: the base class, and the objectives that several backbones share."""
