"""COMET: neural quality metrics that read source, hypothesis and reference.

unbabel-comet cannot be installed beside the zoo. ``score.py`` runs in an environment of its own
(``make comet``), and the other files start it and exchange JSON lines with it.
"""
