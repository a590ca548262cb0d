"""The version of the built-in corpus and of its synthetic speech, part of their cache folders."""

import importlib.metadata

# Increase it whenever a generator changes texts, word times or audio, then run corpus.py --freeze.
VERSION = 1
# Libraries that determine the audio; espeakng-loader contains espeak-ng.
LIBRARIES = ("espeakng-loader", "soxr")


def version_name() -> str:
    """Return the version of the generators and of both libraries as part of a folder name."""
    libraries = (f"{name}{importlib.metadata.version(name)}" for name in LIBRARIES)
    return "-".join((str(VERSION), *libraries))
