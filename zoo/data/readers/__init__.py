"""Readers of speech translation corpora in their published layouts, one module per corpus.

A reader lists recordings and their segments with the file and line that names each of them
(``entries``), and checks them all in the same way (``building``).
"""
