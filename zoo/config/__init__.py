"""From a command line to objects, through Hydra; a mistake becomes one sentence and exit code 2."""

from omegaconf import DictConfig as Config

from zoo.base.errors import BAD_INPUT
from zoo.config.compose import choices, choices_of, compose, row_name
from zoo.config.current import (
    choice_overrides,
    is_multirun,
    machine,
    overrides,
    run_folder,
    search_arguments,
)
from zoo.config.job import entry_point, run_composed
from zoo.config.parts import arguments_of, build, check_values, take_value, target_of
from zoo.config.sources import CONF, plain

__all__ = [
    "BAD_INPUT",
    "CONF",
    "Config",
    "arguments_of",
    "build",
    "check_values",
    "choice_overrides",
    "choices",
    "choices_of",
    "compose",
    "entry_point",
    "is_multirun",
    "machine",
    "overrides",
    "plain",
    "row_name",
    "run_composed",
    "run_folder",
    "search_arguments",
    "take_value",
    "target_of",
]
