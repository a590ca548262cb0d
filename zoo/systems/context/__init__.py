"""Context of talks: terms and texts that prompts contain besides the speech."""
