"""Streaming: the state of a live stream, its text, simulation, timing and playback."""
