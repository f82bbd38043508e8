"""A file of any length takes no room on a disk: whichever of a directory is one, no verb reads it into memory."""

import os
import resource
import shutil
from pathlib import Path

import pytest
from support.fabricate import fabricate, small
from typer.testing import CliRunner

from headway.base.files import largest_size, write_json
from headway.base.identity import signed
from headway.cli.options import app
from headway.errors import HeadwayError

WRITTEN_ANEW = ("results.json", "report.html", ".checked.json")
"""What `compare` and `report` derive again: they replace the file."""
GROWTH = 600e6
"""Bytes by which the process may grow; the files below are far larger."""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "results"
    experiment = small("icl-heads").select(arms=["h1", "h2"], seeds=3)
    fabricate(path, experiment)
    (path / "timings").mkdir()
    write_json(path / "timings/h1.json", signed({"schema": 1, "arm": "h1"}))
    assert CliRunner().invoke(app, ["report", str(path), "--no-figures"]).exit_code == 0
    return path


FILES = (
    "experiment.yaml",
    "results.json",
    "report.html",
    ".checked.json",
    "looks/seen-3.json",
    "timings/h1.json",
    "runs/h1/seed-0/run.json",
    "runs/h1/seed-0/seal.json",
    "runs/h1/seed-0/metrics.jsonl",
    "runs/h1/seed-0/heads/000000001.safetensors",
    "runs/h1/seed-0/checkpoint/000002000.safetensors",
)


def largest_memory():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_sparse_file_is_named_and_fills_no_memory(original, tmp_path, name):
    path = shutil.copytree(original, tmp_path / "results")
    assert (path / name).exists() or name == ".checked.json"  # it is not written for files of this second
    (path / name).touch()
    os.truncate(path / name, largest_size(Path("weights.safetensors")) + 1)
    before, told = largest_memory(), ""
    for verb in (["status"], ["verify"], ["report", "--no-figures"]):
        ended = CliRunner().invoke(app, [verb[0], str(path), *verb[1:]])
        assert ended.exception is None or isinstance(ended.exception, HeadwayError), (verb, ended.exception)
        told += f"{ended.output} {ended.exception or ''}"
    assert largest_memory() - before < GROWTH
    folder = name.partition("/seed-0/")[0] if name.startswith("runs/") else name
    assert folder in told or name in WRITTEN_ANEW
