"""python train.py experiment=NAME [key=value]: train a system, look at it while it learns, export it."""

from omegaconf import DictConfig

from zoo.config import entry_point


def main(cfg: DictConfig) -> None:
    """One training; see conf/train.yaml for what can be chosen."""
    from zoo.training.job import train  # slow to import: a mistyped key is told at once

    train(cfg)


if __name__ == "__main__":
    entry_point("train", main)
