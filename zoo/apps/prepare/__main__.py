"""python -m zoo prepare data=NAME prepare.folder=OUT [key=value]: make training data."""

from zoo.apps.prepare import main

if __name__ == "__main__":
    main()
