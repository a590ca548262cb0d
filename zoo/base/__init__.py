"""The ground: value types, talks, languages, errors, files, audio and the machine."""
