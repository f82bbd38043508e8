"""The page on one's own: its files pass the check and run together as they stand, as a user would do it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import your_own

import headway.own
from headway.config.plugins import CHANGES_NOTHING

ROOT = Path(__file__).parents[2]
FAKES = """
import json, os, sys, types

def kept(*what):
    with open(os.environ["FAKED"], "a") as file:
        print(json.dumps(what), file=file)

class SummaryWriter:
    def __init__(self, folder): self.folder = folder
    def add_scalar(self, name, value, step): kept("tensorboard", self.folder, name, value, step)
    def flush(self): pass

class Opened:
    def log(self, line, step): kept("wandb", line, step)

def init(project, id, name, config, resume, reinit):
    kept("init", name, id, config["seed"])
    return Opened()

for name, members in (("torch.utils.tensorboard", {"SummaryWriter": SummaryWriter}), ("wandb", {"init": init})):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(members)
"""
"""Stand for TensorBoard and Weights & Biases: what they are given is written down."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("own")
    your_own.write(made)
    (made / "fakes").mkdir()
    (made / "fakes" / "sitecustomize.py").write_text(FAKES)
    return made


def command(folder, *arguments):
    environment = {
        **os.environ,
        "HEADWAY_CACHE": str(folder / "cache"),
        "FAKED": str(folder / "faked.jsonl"),
        "PYTHONPATH": os.pathsep.join([str(folder / "fakes"), str(ROOT / "src")]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "headway", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout + done.stderr


def test_there_is_an_example_of_everything_that_can_be_registered():
    page = your_own.PAGE.read_text()
    source = (ROOT / "src" / "headway" / "own.py").read_text()
    kinds = re.findall(r'register\(\s*"([a-z ]+)"', source)
    assert len(kinds) == 9
    assert set(CHANGES_NOTHING) < set(kinds)
    public = [name for name in vars(headway.own) if re.search(rf"^def {name}\(", source, re.MULTILINE)]
    for name in public:
        if not name.startswith("_"):
            assert f"@own.{name}" in page or f"own.{name}(" in page, name


@pytest.mark.slow
def test_the_task_of_the_page_runs_with_everything_else(folder):
    others = [f"--plugin={name}" for name in ("heads.py", "runs.py", "term.py", "models.py", "board.py", "weights.py")]
    small = ["training.steps=20", "evaluation.sequences=64", "evaluation.every=10", "logging.every=10"]
    settings = [
        *small,
        "probes.metrics=[own_weight]",
        "training.regularizers=[{metric: alike_values, weight: 0.1}]",
        "model.attention=top_two",
        "arms.h1.model.n_heads=8",
    ]
    said = command(
        folder, "run", "sort.yaml", "--seeds", "1", "--arms", "h2,h4", "--no-timing", *others,
        *(part for setting in settings for part in ("--set", setting)),
    )  # fmt: skip
    assert re.search(r"^plugin sort.py \([0-9a-f]{16}\): task sort$", said, re.MULTILINE)
    out = folder / "results" / "heads-for-sorting"
    results = json.loads((out / "results.json").read_text())
    assert all(0 < run["metrics"]["right_probability"] < 1 for run in results["runs"])
    assert (out / "figures" / "heads-own-weight.svg").exists()
    records = (out / "runs" / "h2" / "seed-0" / "metrics.jsonl").read_text()
    assert '"alike_values"' in records
    faked = [json.loads(line) for line in (folder / "faked.jsonl").read_text().splitlines()]
    assert {(name, seed) for what, name, _, seed in (one for one in faked if one[0] == "init")} == {
        ("h2 seed 0", 0),
        ("h4 seed 0", 0),
    }
    assert [step for what, _, step in (one for one in faked if one[0] == "wandb")].count(20) == 2
    assert any(one[0] == "tensorboard" and one[2] == "eval_loss_nats" and one[4] == 20 for one in faked)
    # A figure of results that are there; and all of it when the originals are gone.
    assert not (out / "figures" / "loss-of-every-seed.svg").exists()
    (folder / "sort.py").rename(folder / "gone.py")
    said = command(folder, "report", str(out), "--plugin", "figures.py")
    (folder / "gone.py").rename(folder / "sort.py")
    assert "figure loss-of-every-seed" in said
    assert "warning" not in said
    assert (out / "figures" / "loss-of-every-seed.svg").exists()
    assert "Loss of every seed" in (out / "report.html").read_text()
    assert "4 runs: 4 done" not in command(folder, "status", str(out))


@pytest.mark.slow
def test_the_corpus_of_the_page_runs_with_the_family(folder):
    settings = ["model={family: attention-only, d_model: 16, n_layers: 2}", "training.steps=4", "evaluation.every=4"]
    command(
        folder, "run", "text.yaml", "--no-timing", "--plugin", "models.py", "--arms", "h2",
        *(part for setting in settings for part in ("--set", setting)),
    )  # fmt: skip
    run = json.loads((folder / "results" / "counting" / "runs" / "h2" / "seed-0" / "run.json").read_text())
    assert run["status"] == "done"
    assert run["config"]["model"]["family"] == "gpt-2"
    assert run["config"]["model"]["mlp"] == "none"
