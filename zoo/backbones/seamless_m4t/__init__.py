"""SeamlessM4T: speech to text, speech to speech, and text to speech."""
