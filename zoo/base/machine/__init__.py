"""The machine: its CPU cores, and its devices and what they compute fast."""
