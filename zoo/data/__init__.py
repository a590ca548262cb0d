"""Talks and segments: the manifest, the corpora that give it, and the trajectories made from it.

Knows no network.
"""
