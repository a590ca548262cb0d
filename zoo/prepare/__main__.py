"""python -m zoo.prepare data=NAME prepare.folder=OUT [key=value]: make training data."""

from zoo.commands import prepare

if __name__ == "__main__":
    prepare()
