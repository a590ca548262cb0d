"""Command line, arithmetic and printed results of the benchmarks' harness."""

import json
from types import ModuleType

import pytest
from torch import nn

SIZES = {"encoder_layers": (12, 2, "layers"), "hidden": (512, 32, "width")}


def test_small_selects_the_second_defaults(script: ModuleType) -> None:
    for given, expected in (
        ([], (12, 512)),
        (["--small"], (2, 32)),
        (["--small", "--encoder-layers", "3"], (3, 32)),
    ):
        options = script.parser_of("Title.", SIZES, given=given).parse_args(given)
        assert (options.encoder_layers, options.hidden) == expected


@pytest.mark.parametrize("value", ["0", "-1", "two"])
def test_a_size_below_the_least_is_refused(
    script: ModuleType, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [f"--hidden={value}"]
    with pytest.raises(SystemExit):
        script.parser_of("Title.", SIZES, given=given).parse_args(given)
    message = f"--hidden: must be a whole number of at least 1, not {value}"
    assert message in capsys.readouterr().err


def test_parameters_are_counted_in_millions(script: ModuleType) -> None:
    assert script.parameters_millions(nn.Linear(1000, 300, bias=False)) == 0.3


def test_the_last_line_is_one_json_object(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    script.print_table(("a", "b"), [("1", "2")])
    script.print_result("name", {"size": 3}, script.rounded({"ms": 1.23456789, "words": 7}))
    last = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(last) == {"benchmark": "name", "size": 3, "ms": 1.2346, "words": 7}
