"""Extras."""
