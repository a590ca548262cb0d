"""python -m zoo.live [key=value]: a server that translates while people speak."""

from zoo.commands import live

if __name__ == "__main__":
    live()
