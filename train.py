"""python train.py experiment=NAME [key=value]: train, evaluate and export a system."""

from zoo.apps.train import main as train

if __name__ == "__main__":
    train()
