"""python -m zoo submit system=NAME folder=OUT [key=value]: make a submission to IWSLT."""

from zoo.apps.submit.job import main

if __name__ == "__main__":
    main()
