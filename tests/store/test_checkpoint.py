"""Checkpoints: what was saved is loaded, and what is damaged is noticed."""

from dataclasses import replace

import numpy as np
import pytest
from support import stored

from headway.store.checkpoint import Checkpoint, Unrecorded, load, save

STATE = {"weights/W": np.arange(6, dtype=np.float32).reshape(2, 3), "optimizer/step": np.array(7, dtype=np.int64)}


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step=step, state={**STATE, "weights/b": np.full(3, step)}, counters={"wall_s": 1.5})


def test_what_was_saved_is_loaded(tmp_path):
    save(tmp_path / "checkpoint", checkpoint(5))
    found, damages = load(tmp_path / "checkpoint")
    assert damages == []
    assert (found.step, found.counters) == (5, {"wall_s": 1.5})
    assert found.state.keys() == checkpoint(5).state.keys()
    for name, value in checkpoint(5).state.items():
        np.testing.assert_array_equal(found.state[name], value)
        assert found.state[name].dtype == value.dtype
    assert found.weights().keys() == {"W", "b"}


def test_arrays_that_are_not_contiguous_survive(tmp_path):
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    save(tmp_path, Checkpoint(step=1, state={"weights/W": turned}))
    np.testing.assert_array_equal(load(tmp_path)[0].weights()["W"], turned)


def test_what_lies_between_the_last_record_and_the_step_is_kept_to_the_bit(tmp_path):
    losses = np.random.default_rng(0).normal(size=(4, 2)) * 1e-7
    save(tmp_path, replace(checkpoint(5), unrecorded=Unrecorded(since=1, losses=losses)))
    found, _ = load(tmp_path)
    assert (found.step, found.unrecorded.since) == (5, 1)
    assert found.unrecorded.losses.tobytes() == losses.tobytes()
    data = (tmp_path / "000000005.safetensors").read_bytes()
    save(tmp_path, checkpoint(5))  # recorded since: a kill between its two files leaves a pair that fits
    assert (tmp_path / "000000005.safetensors").read_bytes() == data
    assert load(tmp_path)[0].unrecorded is None


def test_the_one_before_is_kept_until_the_next_commit(tmp_path):
    for step in (5, 10, 1_000_000_000):
        save(tmp_path, checkpoint(step))
    kept = [f"{step}.{kind}" for step in ("000000010", "1000000000") for kind in ("json", "safetensors")]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept
    assert load(tmp_path)[0].step == 1_000_000_000


DATA, COMMIT = "000000010.safetensors", "000000010.json"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda p: stored.truncate(p / DATA, -1), "bytes instead of"),
        (lambda p: stored.flip(p / DATA), "does not have the content that was written"),
        (lambda p: (p / DATA).unlink(), "No such file"),
        (lambda p: ((p / DATA).unlink(), (p / DATA).mkdir()), f"{DATA} is a folder, not a file"),
        (lambda p: stored.truncate(p / COMMIT, 20), "damaged"),
        (lambda p: (p / COMMIT).write_text("{}"), "schema"),
        (lambda p: stored.replace(p / COMMIT, '"schema": 1', '"schema": 2'), "schema 2, and this Headway reads 1"),
    ],
)
def test_a_damaged_one_is_noticed_and_the_one_before_used(tmp_path, damage, said):
    save(tmp_path, checkpoint(5))
    save(tmp_path, checkpoint(10))
    damage(tmp_path)
    found, damages = load(tmp_path)
    assert found.step == 5
    assert len(damages) == 1
    assert "checkpoint of step 10" in damages[0]
    assert said in damages[0]


def test_when_all_are_damaged_each_is_named_and_none_used(tmp_path):
    save(tmp_path, checkpoint(5))
    save(tmp_path, checkpoint(10))
    for data in tmp_path.glob("*.safetensors"):
        data.write_bytes(b"")
    found, damages = load(tmp_path)
    assert found is None
    assert [text[:24] for text in damages] == ["the checkpoint of step 1", "the checkpoint of step 5"]


def test_a_commit_after_a_damaged_later_one_removes_that(tmp_path):
    save(tmp_path, checkpoint(5))
    save(tmp_path, checkpoint(10))
    stored.flip(tmp_path / DATA)
    save(tmp_path, checkpoint(8))
    assert load(tmp_path)[0].step == 8
    assert {path.stem for path in tmp_path.iterdir()} == {"000000005", "000000008"}
