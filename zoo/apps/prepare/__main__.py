"""python -m zoo prepare data=NAME prepare.folder=OUT [key=value]: make training data."""

from zoo.apps.prepare import main as prepare

if __name__ == "__main__":
    prepare()
