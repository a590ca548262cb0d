"""python train.py experiment=NAME [key=value]: train, evaluate and export a system."""

from zoo.commands import train

if __name__ == "__main__":
    train()
