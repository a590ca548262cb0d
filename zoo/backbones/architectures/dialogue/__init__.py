"""Speech LLMs in a dialogue: a user turn per chunk of speech, then words or ``<wait>``."""
