"""Talks and segments: the manifest, the corpora that give it, and the trajectories made from it.

No module of this package imports a backbone.
"""
