"""python -m zoo live [key=value]: a server that translates while people speak."""

from zoo.apps.live import main

if __name__ == "__main__":
    main()
