"""The notebook: its cells run in their order, with fewer steps, and it is committed with what came out."""

import base64
import runpy
from pathlib import Path

import numpy as np
import pytest
from support.tolerance import nearly

DOCS = Path(__file__).parents[2] / "docs"
MADE = runpy.run_path(str(DOCS / "notebook.py"))
CELLS = MADE["code_cells"]()
SHORTER = {"steps: 600": "steps: 40", "seeds: 3": "seeds: 2"}


def test_it_is_committed_with_its_outputs_and_without_an_error():
    outputs = [output for cell in CELLS for output in cell["outputs"]]
    assert [cell["execution_count"] for cell in CELLS] == list(range(1, len(CELLS) + 1))
    assert {output["output_type"] for output in outputs} == {"stream", "display_data"}
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert [base64.b64decode(picture)[1:4] for picture in pictures] == [b"PNG"]
    text = "".join(line for output in outputs for line in output.get("text", []))
    assert text.count("nats per token") == 7
    assert "/tmp" not in text


@pytest.mark.slow
def test_its_cells_run_in_their_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, outputs = {}, []
    for cell in CELLS:
        source = "".join(cell["source"])
        for long, short in SHORTER.items():
            assert any(long in "".join(each["source"]) for each in CELLS)
            source = source.replace(long, short)
        outputs.append(MADE["execute"](source, names))
    assert [[o["output_type"] for o in out] for out in outputs] == [
        [o["output_type"] for o in cell["outputs"]] for cell in CELLS
    ]
    assert {run.status for run in names["results"].runs()} == {"done"}
    assert names["pattern"].sum(1).tolist() == nearly([1.0] * len(names["tokens"]), dtype=np.float32)
    assert names["pattern"].triu(1).abs().max() == 0
    assert "image/png" in outputs[-1][0]["data"]
    assert (tmp_path / "results" / "two-layers" / "report.html").is_file()
