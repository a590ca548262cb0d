"""Xtts."""
