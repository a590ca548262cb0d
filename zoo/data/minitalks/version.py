"""The version of the built-in corpus and of its synthetic speech, which names the cache folders of both."""

import importlib.metadata

# Raise it whenever a generator gives other texts, word times or audio; then freeze again (see frozen).
VERSION = 1
LIBRARIES = ("espeakng-loader", "soxr")  # they produce the audio; the first brings libespeak-ng


def version_name() -> str:
    """Version of the generators and of both libraries, for the name of a cache folder."""
    libraries = (f"{name}{importlib.metadata.version(name)}" for name in LIBRARIES)
    return "-".join((str(VERSION), *libraries))
