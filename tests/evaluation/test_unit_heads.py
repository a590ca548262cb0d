"""Which text-to-unit attention separates old speech from new speech."""

import pytest
import torch

from zoo.backbones.base import Units
from zoo.evaluation.alignment_heads import main
from zoo.evaluation.unit_heads import Halves, length_of_beginning
from zoo.synthesizers.simulu import SimulU


@pytest.mark.parametrize(
    ("whole", "part", "length"),
    [
        ([1, 2, 3, 4, 5, 6], [1, 2, 3], 3),
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 9], 3),  # a pause at the end of the part
        ([1, 2, 3, 4, 5, 6], [1, 7, 2, 3], 3),
        ([1, 2, 3, 4, 5, 6], [1, 3, 4], 4),
        ([1, 2, 3], [7, 8], 0),
        ([], [1], 0),
    ],
)
def test_a_part_ends_where_the_edit_distance_is_smallest(
    whole: list[int], part: list[int], length: int
) -> None:
    assert length_of_beginning(whole, part) == length


def test_a_cut_is_compared_by_head_and_by_mean_of_heads() -> None:
    """Four tokens after two opening positions, two of them old; six units, three of them old."""
    assigned = torch.tensor([[0, 0, 1, 2, 2, 3], [0, 1, 1, 1, 2, 3], [0, 2, 2, 2, 3, 3]])
    attention = torch.nn.functional.one_hot(assigned.T + 2, 6).float()  # (units, heads, positions)
    halves = Halves(Units(torch.arange(6), attention, 2), old=2, new=2, expected=3)
    assert [halves.cut_error(SimulU(), [head]) for head in range(3)] == [0, 1, -2]
    weights = torch.tensor([1.0, 0.1, 0.1])[:, None]
    loud = Halves(Units(torch.arange(6), attention * weights, 2), old=2, new=2, expected=3)
    assert loud.cut_error(SimulU(), [0, 1, 2]) == 0
    # the state that predicts a token is before it, so each unit belongs to the next token
    assert halves.cut_error(SimulU(offset=-1), [0]) == -1


def test_the_supervised_layer_of_the_small_model_cuts_best(
    capsys: pytest.CaptureFixture[str],
) -> None:
    limits = ["evaluation.split=dev", "evaluation.talks=1", "evaluation.batch_size=8"]
    main(["--units", "system=simulu", "backbone.unit_layer=0", *limits])
    lines = capsys.readouterr().out.splitlines()
    missed = {
        " ".join(cells[:-4]): float(cells[-4])
        for line in lines
        if len(cells := line.split()) > 4 and cells[-1].replace(".", "").isdigit()
    }
    layers = [missed[f"layer {layer}"] for layer in range(4)]
    assert layers[3] * 2 < min(layers[:3])
    assert missed["0.0 0.1 0.2 0.3"] == layers[0]  # the configured layer
    assert "Best layer: backbone.unit_layer=3; best of all:" in lines[-1]


@pytest.mark.parametrize("system", ["system=streamatt", "system=simulu synthesizer=espeak"])
def test_other_systems_are_refused(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--units", *system.split()])
    assert left.value.code == 2
    assert "choose system=simulu and a backbone with speech output" in capsys.readouterr().err
