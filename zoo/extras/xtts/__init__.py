"""XTTS, text to speech in a process and an environment of its own."""
