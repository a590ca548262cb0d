"""The bars of the compute by stage."""

import re
from dataclasses import replace

from zoo.report.render import render
from zoo.report.stages import stage_bars
from zoo.runs.rows.row import KnobValue, Row
from zoo.runs.rows.settings import Compute, RowSettings

COMPUTE = Compute(chunk_seconds=2.0, cpu_share=0.4, load_average=1.0, cores=2)


def row(system: str, knob: float, /, **stages: float) -> Row:
    setting = KnobValue("m", knob)
    return Row(system, setting, "d", "tst", "en", "de", {}, {}, "i", stages=stages)


def test_each_row_has_a_bar_with_its_stages() -> None:
    fast = row("fast", 1, decode=0.1, encoder=0.1)
    slow = row("<slow>", 2, encoder=0.3, other=0.1)
    slow = replace(slow, settings=RowSettings(compute=COMPUTE))
    bars = stage_bars([fast, row("unmeasured", 3), slow])
    page = render("stages.html", stages=bars, stage_names=["encoder"])
    assert re.findall(r'class="stage (\w+)" style="width:([\d.]+)%"', page) == [
        ("encoder", "25.000"),
        ("decode", "25.000"),
        ("encoder", "75.000"),
        ("other", "25.000"),
    ]
    assert re.findall(r'data-row="(\d)"', page) == ["0", "2"]
    assert "&lt;slow&gt; m=2" in page
    assert "encoder 0.3000 (600.0 ms per chunk)" in page
    assert page.count("the machine was loaded") == 1


def test_rows_without_stages_have_no_section() -> None:
    assert stage_bars([row("unmeasured", 3)]) == {}
    assert stage_bars([]) == {}
