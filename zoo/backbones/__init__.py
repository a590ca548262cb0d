"""Backbones: speech translation networks behind one contract."""
