"""Broken files in a run folder: each is a stated recovery, and the run ends with the same bits."""

import pytest
import quadratic

from headway.lab import work as work_module
from headway.lab.run import Run
from headway.lab.work import DONE, work


def stopped_run(directory) -> Run:
    """A run that was stopped at step 40, with checkpoints of steps 35 and 40."""
    run = quadratic.fresh_run(directory)

    def opened(spec, stored):
        study = quadratic.study(spec, stored)
        trainer = study.trainer
        advance = trainer.advance

        def advance_until_42(n):
            if trainer.step >= 40:
                raise RuntimeError("enough")
            return advance(n)

        trainer.advance = advance_until_42
        return study

    work(run.path, opened)
    assert sorted(int(path.stem) for path in run.path.glob("checkpoint/*.json")) == [35, 40]
    return run


def truncate(path, end):
    path.write_bytes(path.read_bytes()[:end])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def cross_out_a_line(path):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:4], "#" * 20 + "\n", *lines[5:]]))


DAMAGES = {
    "the newest arrays truncated": (lambda p: truncate(p / "checkpoint/000000040.safetensors", -9), 35),
    "a byte of the newest arrays changed": (lambda p: flip(p / "checkpoint/000000040.safetensors"), 35),
    "the newest arrays missing": (lambda p: (p / "checkpoint/000000040.safetensors").unlink(), 35),
    "the newest commit truncated": (lambda p: truncate(p / "checkpoint/000000040.json", 30), 35),
    "all arrays truncated": (lambda p: [truncate(path, 50) for path in p.glob("checkpoint/*.safetensors")], 0),
    "the records missing": (lambda p: (p / "metrics.jsonl").unlink(), 0),
    "the records empty": (lambda p: truncate(p / "metrics.jsonl", 0), 0),
    "a record in the middle damaged": (lambda p: cross_out_a_line(p / "metrics.jsonl"), 0),
}


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch):
    monkeypatch.setattr(work_module, "CHECKPOINT_EVERY_S", 0.0)


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_said_and_the_run_ends_with_the_same_bits(tmp_path, name):
    damage, goes_on_from = DAMAGES[name]
    run = stopped_run(tmp_path / "results")
    damage(run.path)
    assert quadratic.train_here(run) == DONE
    done = Run.open(run.path)
    assert f"going on from step {goes_on_from}" in done.message
    assert done.message in (run.path / "log.txt").read_text().replace("\n", "; ")
    undisturbed = quadratic.fresh_run(tmp_path / "undisturbed")
    quadratic.train_here(undisturbed)
    assert quadratic.lasting(run) == quadratic.lasting(undisturbed)


@pytest.mark.parametrize("kept", [-1, -20])
def test_a_truncated_last_line_is_written_again(tmp_path, kept):
    run = stopped_run(tmp_path / "results")
    with open(run.path / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 45, "wall_s": 0.2, "train_mse": 0.1234}'[:kept])
    with pytest.warns(UserWarning, match="cut short"):
        assert quadratic.train_here(run) == DONE
    undisturbed = quadratic.fresh_run(tmp_path / "undisturbed")
    quadratic.train_here(undisturbed)
    assert quadratic.lasting(run) == quadratic.lasting(undisturbed)


def test_a_checkpoint_that_is_only_half_written_was_never_there(tmp_path):
    run = stopped_run(tmp_path / "results")
    (run.path / "checkpoint" / "000000042.safetensors").write_bytes(b"half")
    (run.path / "checkpoint" / ".000000042.json.0123.tmp").write_bytes(b"{")
    assert quadratic.train_here(run) == DONE
    assert Run.open(run.path).message == ""
    assert not list(run.path.rglob(".*"))
