"""Realtime endpoints as systems: servers that receive audio as it is spoken (docs/live.md)."""
