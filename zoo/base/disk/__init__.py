"""Files that are complete or absent after a crash, names of files, archives, JSON and YAML."""
