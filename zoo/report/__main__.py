"""Joins finished runs into one table, plot and page: ``python -m zoo.report RUN [RUN ...]``."""

from zoo.commands.report import main

if __name__ == "__main__":
    main()
