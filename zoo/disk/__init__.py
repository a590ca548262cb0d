"""Files that are complete or absent after a crash, archives, and JSON and YAML of any origin."""
