"""Executes the commands that the pages give for published weights and real corpora.

The weights are tiny and random in the published layouts, the corpora are made of minitalks in the
published layouts with the irregularities of the real ones (``python -m tests.rehearsal --help``).
"""
