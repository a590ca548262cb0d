"""What playback of target speech does when it falls behind: shortens new speech, or nothing."""
