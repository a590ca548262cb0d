"""python train.py experiment=NAME [key=value]: train a system, look at it while it learns, export it."""

from omegaconf import DictConfig

from zoo.config import entry_point
from zoo.training.job import train


def main(cfg: DictConfig) -> None:
    """One training; see conf/train.yaml for what can be chosen."""
    train(cfg)


if __name__ == "__main__":
    entry_point("train", main)
