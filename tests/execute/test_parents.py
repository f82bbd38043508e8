"""Runs that start from others, in folders: what they begin with, gone on with, kept for them, and missing."""

import json
import shutil

import numpy as np
import pytest
import torch
from support import small_text
from support.tolerance import assert_same

from headway.causal.pruning import pruned
from headway.config.lm.run import TokensRun
from headway.errors import ResultsError
from headway.execute import work as work_module
from headway.execute import worker
from headway.execute.parents import init_from_of, parent_of, why_never
from headway.execute.places import WorkerOptions
from headway.execute.work import DONE, FAILED, work
from headway.models.weights import initial_weights
from headway.store.directory import Store
from headway.store.run import Run

TAYLOR = {"by": "taylor", "keep": 0.5, "sequences": 8}
ARMS = {
    "dense": {},
    "small": {"init_from": {"arm": "dense", "prune": TAYLOR}, "training": {"steps": 0}},
    "early": {"init_from": {"arm": "dense", "step": 20, "prune": TAYLOR}, "training": {"steps": 0}},
    "on": {"init_from": {"arm": "dense", "prune": {**TAYLOR, "by": "random"}}, "training": {"steps": 20}},
    "rewound": {"init_from": {"arm": "dense", "prune": TAYLOR, "weights": "rewound"}, "training": {"steps": 0}},
    "again": {
        "init_from": {"arm": "dense", "prune": TAYLOR, "weights": "rewound", "rewind_to": 10},
        "training": {"steps": 0},
    },
    "fresh": {"init_from": {"arm": "dense", "prune": TAYLOR, "weights": "fresh"}, "training": {"steps": 0}},
    "regrown": {"init_from": {"arm": "on", "regrow": True}, "training": {"steps": 0}},
}


def opened(path):
    return lambda spec, stored: worker._open_study(path, spec, stored, WorkerOptions(device="cpu"), threads=1)


def train(run: Run) -> int:
    return work(run.path, opened(run.path))


def experiment():
    return small_text.experiment(arms=ARMS, baseline="dense", samples=None)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """All arms of a seed, trained one after the other."""
    of = experiment()
    store = Store.create(tmp_path_factory.mktemp("starts") / "results", of)
    runs = {name: store.add(of.arm(name), 0) for name in ARMS}
    assert [train(run) for run in runs.values()] == [DONE] * len(ARMS)
    return {name: Run.open(run.path) for name, run in runs.items()}


def model_of(run):
    assert isinstance(run.trained, TokensRun)
    return run.trained.model


def test_heads_are_fewer_and_the_model_says_so(done):
    assert {name: run.metrics["total_heads"] for name, run in done.items()} == {
        "dense": 6, "small": 3, "early": 3, "on": 3, "rewound": 3, "again": 3, "fresh": 3, "regrown": 6,
    }  # fmt: skip
    assert all(done[name].model().model.layout.total == 3 for name in ("small", "on", "fresh"))
    assert model_of(done["dense"]).layout.n_heads == (4, 2)
    for run in done.values():
        run.check()  # sealed, and readable


def test_a_pruned_run_is_its_parent_with_gates_of_0(done):
    kept = json.loads((done["small"].path / "start.json").read_text())["heads"]
    gates = [torch.tensor([float([layer, head] in kept) for head in range(n)]) for layer, n in enumerate((4, 2))]
    tokens = torch.arange(20)[None]
    with torch.no_grad():
        masked = done["dense"].model().eval()(tokens, gates=gates)[0]
        assert_same(done["small"].model().eval()(tokens)[0], masked, dtype=np.float32)


def kept_of(run, weights):
    """Those of its weights that it shares with the whole model."""
    from headway.models.transformer import Transformer

    heads = json.loads((run.path / "start.json").read_text())["heads"]
    keep = [[[layer, head] in heads for head in range(n)] for layer, n in enumerate((4, 2))]
    declared = experiment().arm("dense").resolved_spec
    assert isinstance(declared, TokensRun)
    return pruned(Transformer(declared.model, len(weights["embedding.weight"]), weights), keep).weights()


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_weights_are_kept_rewound_or_fresh(done):
    vocab = len(done["dense"].weights()["embedding.weight"])
    first = initial_weights(model_of(done["dense"]), vocab, 0)
    assert same(done["small"].weights(), kept_of(done["small"], done["dense"].weights()))
    assert same(done["early"].weights(), kept_of(done["early"], done["dense"].weights(20)))
    assert same(done["rewound"].weights(), kept_of(done["rewound"], first))
    assert same(done["again"].weights(), kept_of(done["again"], done["dense"].weights(10)))
    assert same(done["fresh"].weights(), initial_weights(model_of(done["small"]), vocab, 0))


def test_the_data_go_on_where_the_weights_left_off(done):
    records = {name: run.path / "start.json" for name, run in done.items() if name != "dense"}
    behind = {name: json.loads(record.read_text())["steps_before"] for name, record in records.items()}
    assert behind == {"small": 40, "early": 20, "on": 40, "rewound": 0, "again": 10, "fresh": 0, "regrown": 60}


def test_heads_that_are_added_back_leave_the_others_as_they_were(done):
    assert same(kept_of(done["on"], done["regrown"].weights()), done["on"].weights())


def test_the_parent_keeps_the_weights_of_the_steps_that_were_asked_for(done):
    assert done["dense"].weight_steps() == [10, 20]
    with pytest.raises(
        ResultsError, match=r"the run has no weights of step 15; apart from its last step, it has those of steps 10 and"
    ):
        done["dense"].weights(15)


@pytest.mark.slow
def test_a_run_that_is_stopped_and_gone_on_with_has_the_same_bits(done, tmp_path, monkeypatch):
    monkeypatch.setattr(work_module, "CHECKPOINT_EVERY_S", 0.0)
    of = experiment()
    directory = tmp_path / "results"
    shutil.copytree(done["dense"].path.parents[2], directory)
    for name in ("on", "regrown"):
        shutil.rmtree(directory / "runs" / name)
    run = Store.open(directory).add(of.arm("on"), 0)

    def failing(spec, stored):
        study = opened(run.path)(spec, stored)
        advance = study.trainer.advance

        def advance_or_fail(n):
            if study.trainer.step >= 10:
                raise RuntimeError("out of the blue")
            return advance(min(n, 5))

        study.trainer.advance = advance_or_fail
        return study

    assert work(run.path, failing) == FAILED
    assert not (run.path / "seal.json").exists()
    shutil.rmtree(directory / "runs" / "dense")  # it knows how it began, and needs its parent no more
    assert train(run) == DONE
    assert same(Run.open(run.path).weights(), done["on"].weights())
    assert Run.open(run.path).metrics["eval_loss_nats"] == done["on"].metrics["eval_loss_nats"]


def test_a_run_without_its_parent_says_what_is_missing(tmp_path):
    of = experiment()
    run = Store.create(tmp_path / "results", of).add(of.arm("small"), 3)
    with pytest.raises(ResultsError, match=r"it starts from run1-[0-9a-f]+ with seed 3, and .* has no such run"):
        parent_of(run)
    assert train(run) == FAILED
    assert "has no such run; type `headway run` with its file first" in Run.open(run.path).message


def test_a_parent_that_is_not_done_is_named(tmp_path):
    of = experiment()
    store = Store.create(tmp_path / "results", of)
    parent, child = store.add(of.arm("dense"), 0), store.add(of.arm("small"), 0)
    found = parent_of(child)
    assert found is not None
    assert (found.path, why_never(found)) == (parent.path, "it starts from dense seed 0, which is waiting")
    with pytest.raises(ResultsError, match=r"it starts from dense seed 0, which is waiting; run again when it is done"):
        init_from_of(child.path)


def test_a_step_that_was_not_stored_is_said_with_what_to_do(done, tmp_path):
    directory = tmp_path / "results"
    shutil.copytree(done["dense"].path.parents[2], directory)
    later = {**ARMS, "later": {"init_from": {"arm": "dense", "step": 30}, "training": {"steps": 0}}}
    of = small_text.experiment(arms=later, baseline="dense", samples=None)
    run = Store.create(directory, of).add(of.arm("later"), 0)
    assert train(run) == FAILED
    message = Run.open(run.path).message
    assert "an arm starts from step 30 of dense seed 0, which stored only steps 10, 20 and 40" in message
    assert f"type `headway drop {directory} dense --seeds 0`, then `headway run` trains it again" in message


def test_a_damaged_beginning_is_damage(done, tmp_path):
    folder = tmp_path / "small" / "seed-0"
    shutil.copytree(done["small"].path, folder)
    (folder / "start.json").write_text("{}")
    assert Run.examine(folder).status == "damaged"
    with pytest.raises(ResultsError, match="its record of the initial model is damaged"):
        _ = Run.open(folder).trained
