"""The steps of a preparation, a module each."""
