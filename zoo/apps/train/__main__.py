"""python -m zoo train experiment=NAME [key=value]: train, evaluate and export a system."""

from zoo.apps.train import main

if __name__ == "__main__":
    main()
