"""Speech LLMs that transcribe, then translate (StreamUni)."""
