"""python -m zoo translate FILE [FILE or folder ...] [key=value]: translate speech."""

from zoo.apps.translate import main

if __name__ == "__main__":
    main()
