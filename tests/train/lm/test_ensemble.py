"""Runs that are trained together are the runs that they would be alone."""

import numpy as np
import pytest
import torch
from support.tolerance import ADAM, TERMS, assert_same

from headway.config.kinds import parse_run
from headway.errors import Diverged
from headway.train.lm.ensemble import open_together
from headway.train.lm.study import open_study
from headway.train.loop import train

MODEL = {
    "family": "gpt-2", "d_model": 16, "n_layers": 1, "n_heads": 3, "d_head": 8, "attention_scale": "none",
    "positions": "joint", "n_positions": 4, "norm": "none", "mlp": "none", "residual": False, "biases": [],
    "tied": False, "readout": 2, "init_std": 0.2, "embedding_init_std": 0.5,
}  # fmt: skip
TRAINING = {
    "optimizer": "adamw",
    "learning_rate": 0.01,
    "batch_size": 8,
    "steps": 40,
    "lr_schedule": "cosine",
    "clip": 0.5,
}
DEEPER = {
    "family": "gpt-2", "d_model": 12, "n_layers": 2, "n_heads": "2-3", "n_positions": 4, "n_kv_heads": "1-3",
    "smeared_keys": True, "windows": [None, 2],
}  # fmt: skip
ROTARY = {"family": "llama", "d_model": 12, "n_layers": 2, "n_heads": 2, "n_positions": 4, "ranks": {"q": 2}}
ATTENDS = {**DEEPER, "mask": "future", "windows": [None], "positions": "sinusoidal", "d_embed": 8}


def run_of(seed=0, model=MODEL, **training):
    content = {"samples": None, "task": {"kind": "parity", "n_bits": 3}, "model": model, "seed": seed}
    return parse_run({**content, "training": {**TRAINING, **training}, "evaluation": {"every": 20}})


def events_of(study, steps=40):
    return list(train(study, steps=steps, log_every=10))


def together(runs):
    """The events of runs that are advanced in turn."""
    studies = open_together(runs, device="cpu")
    events = [[] for _ in runs]
    trains = [train(study, steps=40, log_every=10) for study in studies]
    done = 0
    while done < len(trains):
        done = 0
        for kept, each in zip(events, trains, strict=True):
            event = next(each, None)
            done += event is None
            kept += [] if event is None else [event]
    return studies, events


def curve(events, name="train_loss_nats"):
    return [e.metrics[name] for e in events if name in getattr(e, "metrics", {})]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "batch_size"),
    [(MODEL, 8), (DEEPER, 8), (ROTARY, 5), (ATTENDS, 8)],
    ids=["joint-8", "smeared-8", "rotary-5", "future-8"],
)
def test_each_is_the_run_that_it_would_be_alone(model, batch_size):
    """With equal inputs (all 8 once), and with inputs of their own; up to rounding."""
    runs = [
        run_of(0, model, batch_size=batch_size),
        run_of(1, model, batch_size=batch_size),
        run_of(1, model, batch_size=batch_size, learning_rate=0.003, warmup_steps=7, lr_schedule="linear"),
        run_of(2, model, batch_size=batch_size, weight_decay=0.3, clip=None, betas=[0.8, 0.99], eps=1e-6),
    ]
    studies, found = together(runs)
    for run, study, events in zip(runs, studies, found, strict=True):
        alone = open_study(run, compile=False, device="cpu")
        expected = events_of(alone)
        assert_same(curve(events), curve(expected), dtype=np.float32)
        assert_same(curve(events, "eval_loss_nats"), curve(expected, "eval_loss_nats"), dtype=np.float32)
        assert [e.step for e in events if hasattr(e, "metrics")] == [0, 10, 20, 30, 40]
        weights, others = study.trainer.weights(), alone.trainer.weights()
        assert list(weights) == list(others)
        assert_same(weights, others, terms=40 * ADAM * TERMS, scale=run.training.learning_rate)
        assert study.execution["together"] == 4
        assert study.conclude().metrics["n_parameters"] == alone.conclude().metrics["n_parameters"]


@pytest.mark.slow
def test_a_member_that_diverges_leaves_the_others_alone():
    runs = [run_of(0), run_of(1, learning_rate=1e30, clip=None), run_of(2)]
    studies = open_together(runs, device="cpu")
    trains = [train(study, steps=40, log_every=10) for study in studies]
    losses, diverged = {0: [], 2: []}, None
    for _ in range(30):
        for number, each in enumerate(trains):
            try:
                event = next(each, None)
            except Diverged as error:
                diverged = (number, str(error))
                continue
            if number in losses and hasattr(event, "metrics"):
                losses[number] += curve([event])
    assert diverged[0] == 1
    assert "training diverged" in diverged[1]
    for number in losses:
        alone = events_of(open_study(runs[number], compile=False, device="cpu"))
        assert_same(losses[number], curve(alone), dtype=np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("model", [MODEL, DEEPER], ids=["joint", "smeared"])
def test_bits_depend_on_nothing_of_the_others(model):
    """Neither on who they are, nor on their numbers: so a failed member may be any, and stays a row."""

    def state_of(row, *runs):
        studies = open_together(runs, device="cpu")
        studies[row].trainer.advance(20)
        return {name: array.tobytes() for name, array in studies[row].trainer.state().items()}

    mine, other = run_of(0, model, batch_size=5), run_of(1, model, batch_size=5)
    wild = run_of(2, model, batch_size=5, learning_rate=1e30, clip=None, weight_decay=0.3, betas=[0.8, 0.9])
    # Each row is compared with itself: where a row stands in memory may change how its products are rounded.
    assert state_of(0, mine, wild, other) == state_of(0, mine, other, other)
    assert state_of(1, wild, mine, wild) == state_of(1, other, mine, other)
    assert state_of(2, other, wild, mine) == state_of(2, other, other, mine)


def test_a_row_is_put_in_where_the_others_have_come():
    """No step goes beyond where one is stored, and its bits are those of one that was there all the time."""
    runs = [run_of(0), run_of(3)]
    whole = open_together(runs, device="cpu")
    for study in whole:
        study.trainer.advance(15)
    stored = whole[1].trainer.state()
    late = open_together(runs, device="cpu", joins=[15])
    assert len(late[0].trainer.advance(25)) == 15
    late[1].trainer.restore(15, stored)
    for some in (late, whole):
        for study in some:
            study.trainer.advance(10)
    for one, same in zip(late, whole, strict=True):
        assert one.trainer.step == same.trainer.step == 25
        state, expected = one.trainer.state(), same.trainer.state()
        assert all(np.array_equal(state[name], expected[name]) for name in expected)


@pytest.mark.slow
def test_alone_or_together_a_run_goes_on_from_either():
    runs = [run_of(0), run_of(3)]
    studies = open_together(runs, device="cpu")
    for study in studies:
        study.trainer.advance(15)
    alone = open_study(runs[1], compile=False, device="cpu")
    alone.trainer.restore(15, studies[1].trainer.state())
    again = open_together(runs, device="cpu")
    for study, former in zip(again, studies, strict=True):
        study.trainer.restore(15, former.trainer.state())
    found = [again[i].trainer.advance(10) for i in (0, 1)]
    expected = [studies[i].trainer.advance(10) for i in (0, 1)]
    np.testing.assert_array_equal(found, expected)
    assert_same(alone.trainer.advance(10), expected[1], dtype=np.float32)
    state, reference = studies[1].trainer.state(), alone.trainer.state()
    assert {k: (v.shape, v.dtype) for k, v in state.items()} == {k: (v.shape, v.dtype) for k, v in reference.items()}


def test_an_interrupted_step_is_gone_on_with_by_nobody(monkeypatch):
    studies = open_together([run_of(0), run_of(1)], device="cpu")
    for study in studies:
        study.trainer.advance(3)
    monkeypatch.setattr(torch, "stack", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    for study in studies:
        with pytest.raises(KeyboardInterrupt):
            study.trainer.advance(1)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"seed": 4}, True),
        ({"learning_rate": 0.5}, True),
        ({"weight_decay": 0.5}, True),
        ({"steps": 41}, False),
        ({"batch_size": 4}, False),
        ({"model": {**MODEL, "init_std": 0.7}}, True),
        ({"model": {**MODEL, "n_heads": 2}}, False),
    ],
)
def test_runs_of_one_shape_differ_in_numbers_alone(change, same):
    assert (run_of(**change).batching.key == run_of().batching.key) == same


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": "muon", "adamw_learning_rate": 0.1},
        {"grad_accumulation": 2},
        {"precision": "bf16"},
        {"drophead": {}},
        {"model": {**MODEL, "dropout": 0.1}},
    ],
)
def test_what_is_trained_alone_has_no_shape(change):
    assert run_of(**change).batching.key is None


def test_members_are_views_of_one_stack():
    studies = open_together([run_of(0), run_of(1)], device="cpu")
    before = [study.trainer.weights()["readout.weight"] for study in studies]
    for study in studies:
        study.trainer.advance(1)
    after = [study.trainer.weights()["readout.weight"] for study in studies]
    assert all(not np.array_equal(a, b) for a, b in zip(after, before, strict=True))
    assert isinstance(studies[0].conclude().metrics["accuracy"], float)
