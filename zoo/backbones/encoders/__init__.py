"""Encoders that several families share, and what feeds them: features and kept audio."""
