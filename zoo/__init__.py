"""SimulZoo: simultaneous speech translation systems on one clock, with one report."""

__version__ = "0.2.0"
