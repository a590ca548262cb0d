"""Adds conf/ to the package as zoo.conf; all other settings are in pyproject.toml."""

from setuptools import find_namespace_packages, setup

groups = [f"zoo.conf.{name}" for name in find_namespace_packages("conf")]
setup(
    packages=[*find_namespace_packages(include=["zoo", "zoo.*"]), "zoo.conf", *groups],
    package_dir={"zoo.conf": "conf"},
)
