"""python -m zoo.translate FILE [FILE or folder ...] [key=value]: translate speech as it arrives."""

from zoo.commands import translate

if __name__ == "__main__":
    translate()
