"""Translators of texts by name, for the preparation of training data."""
