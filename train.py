"""python train.py experiment=NAME [key=value]: train a system, evaluate it on the way, export it."""

from zoo.commands import train

if __name__ == "__main__":
    train()
