"""The examples are run whole: a trainer of its own, from its experiment to an x-ray of what it stored."""

import os
import shutil
import sys
from pathlib import Path

import pytest

import headway
from headway.config.load import load

EXAMPLE = Path(__file__).parents[2] / "examples" / "nanogpt-heads"


@pytest.mark.slow
def test_the_trainer_of_ones_own_is_run_and_its_model_x_rayed(tmp_path, monkeypatch):
    # Whoever types `python` has an environment active, and a test may not.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder)
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "every", "dog", "ran", "to", "one", "door"]
    text = " ".join(words[at * at % len(words)] for at in range(4_000))
    (folder / "input.txt").write_text(text)
    settings = ["values.steps=20", "task.timeout=300"]
    experiment = load(folder / "heads.yaml", settings=settings).select(arms=["h1", "h4"], seeds=1)
    directory = headway.run(experiment, tmp_path / "out", figures=False, progress=False)
    assert {one.status for one in directory.runs()} == {"done"}
    for one in directory.runs():
        losses = one.curves()["records"]["val_loss"]
        assert losses["steps"] == [0, 20]
        assert losses["values"][1] < losses["values"][0]
    model = directory.run("h4", 0).path / "command" / "model"
    found = headway.xray(model, text=folder / "input.txt", draws=4)
    assert found.model["heads"] == "4-4"
    ablated = headway.ablate(model, text=folder / "input.txt", sequences=2)
    assert ablated.model["heads"] == "4-4"
