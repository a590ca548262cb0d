"""Forget nothing: for sentence-level input and for backbones that keep a window of their own (InfiniSST)."""

from zoo.history.base import History


class KeepAll(History):
    """Keeps all audio and all text the backbone leaves in the session."""
