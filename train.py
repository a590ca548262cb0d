"""python train.py experiment=NAME [key=value]: train, evaluate and export a system."""

from zoo.config import entry_point

if __name__ == "__main__":
    entry_point("train", "zoo.training.job:train")
