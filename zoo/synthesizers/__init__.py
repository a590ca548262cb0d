"""Target speech for what is being written."""
