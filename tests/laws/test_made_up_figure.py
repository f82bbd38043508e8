"""Law: a figure is one module, of rows, axes and words; a builder draws it, and a page shows it."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.house import ROOT
from support.own_code import write as write

from headway.config.plugins import load
from headway.report.experiment.data import gather
from headway.report.experiment.page import figures, page
from headway.stats import results
from headway.store.directory import Store

MODULES = {
    "line_bands": """
from headway import own
from headway.report.charts.figure import panel
from headway.report.charts.lines import Axis, line_bands

@own.figure(title="Made up", caption="As many as there are.")
def made_up(material):
    rows = [{"step": at, "n": at * at, "low": at, "high": 9} for at in range(4)]
    return panel(line_bands(rows, Axis("step", "so far"), Axis("n", "as many"), "teal"), 300, 200)
""",
    "head_map": """
from headway import own
from headway.report.charts.figure import panel
from headway.report.charts.lines import Axis
from headway.report.charts.maps import about_zero, head_map, valued

@own.figure(title="Made up", caption="As many as there are.")
def made_up(material):
    rows = [{"layer": layer, "head": head, "n": layer - head} for layer in range(2) for head in range(3)]
    x, y = Axis("head", "as many", order=range(3)), Axis("layer", "so far", order=range(2))
    return panel([head_map(rows, x, y, valued("n", about_zero(2.0), "n"))], 300, 200)
""",
}
"""A made-up figure by the builder that draws it."""


@pytest.mark.parametrize("builder", MODULES)
def test_a_figure_of_one_module_stands_in_the_page(builder: str, write, tmp_path: Path) -> None:
    directory = tmp_path / "results"
    shutil.copytree(ROOT / "tests/before/icl", directory)
    store = Store.open(directory)
    write(MODULES[builder], "made_up.py")
    material = gather(store, results.read(directory))
    material = replace(material, experiment=replace(material.experiment, plugins=(load("made_up.py"),)))
    made = next(figure for figure in figures(material) if figure.name == "made-up")
    assert {"as many", "so far"} <= set(re.findall(r'"title": "([^"]*)"', json.dumps(made.spec)))
    html = page(material, (made,))
    assert "Made up" in html
    assert "As many as there are." in html
    assert '"made-up":{' in html
