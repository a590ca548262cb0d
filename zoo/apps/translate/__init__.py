"""Translation of audio files and of a microphone: text, subtitles, log, speech and report page."""
