"""The notebooks: their cells run in their order, with fewer steps, and they are committed with their outputs."""

import base64
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from support.tolerance import nearly

DOCS = Path(__file__).parents[2] / "docs"
MADE = runpy.run_path(str(DOCS / "notebook.py"))
NOTEBOOKS = MADE["NOTEBOOKS"]


def shorter(source: str) -> str:
    """A cell that trains for a few steps alone."""
    source = re.sub(r"steps: \d+", "steps: 40", source)
    return source.replace("training.steps=20001", "training.steps=41").replace("seeds: 3", "seeds: 2")


def execute(notebook: Path) -> tuple[dict, list]:
    names, outputs = {}, []
    for cell in MADE["code_cells"](notebook):
        outputs.append(MADE["execute"](shorter("".join(cell["source"])), names))
    return names, outputs


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_committed_with_its_outputs_and_without_an_error(notebook):
    cells = MADE["code_cells"](notebook)
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data"}
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert {base64.b64decode(picture)[1:4] for picture in pictures} <= {b"PNG"}
    text = "".join(line for output in outputs for line in output.get("text", []))
    assert text
    assert "/tmp" not in text


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_cells_run_in_their_order(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, outputs = execute(notebook)
    assert len(outputs) == len(MADE["code_cells"](notebook))
    if "pattern" in names:
        assert names["pattern"].sum(1).tolist() == nearly([1.0] * len(names["tokens"]), dtype=np.float32)
        assert names["pattern"].triu(1).abs().max() == 0
        assert "image/png" in outputs[-1][0]["data"]
        assert (tmp_path / "results" / "two-layers" / "report.html").is_file()
