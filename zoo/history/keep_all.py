"""A history that drops nothing."""

from zoo.history.base import History


class KeepAll(History):
    """Keep all audio and text.

    For sentence-level input and for backbones that maintain a window of their own (InfiniSST).
    """

    reads_unwritten = False
