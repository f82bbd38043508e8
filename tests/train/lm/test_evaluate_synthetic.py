"""How tasks whose answer is known are judged: right answers by kind and length, and nothing better than possible."""

import numpy as np
import pytest

from headway.config.kinds import parse_run
from headway.config.lm.model import OWN_ATTENTIONS, Gpt2
from headway.config.lm.run import TASKS as TASKS_BY_KIND
from headway.config.spec import parse
from headway.data.batch import Batch
from headway.errors import BeyondPossible
from headway.stats.lm.summary import known_baselines
from headway.train.lm.evaluate import SyntheticJudge
from headway.train.lm.study import open_study

ATTENTION = {"family": "gpt-2", "d_model": 8, "n_layers": 1, "n_heads": 1, "d_head": 8, "norm": "none", "mlp": "none",
             "n_positions": 24, "tied": False, "biases": []}  # fmt: skip
NUMBERS = {**ATTENTION, "encoder": 8, "class_token": True, "readout": 1, "positions": "none", "residual": False}
TASKS = {
    "parity": ({"kind": "parity", "n_bits": 3}, {**ATTENTION, "readout": 2}, {"accuracy": 0.875, "solved": 0.0}),
    "endpoint": ({"kind": "endpoint", "vertices": 4}, {**ATTENTION, "readout": 4}, {"accuracy": 0.75, "solved": 0.0}),
    "retrieval": ({"kind": "retrieval", "targets": 2, "length": 6}, NUMBERS, {"nmse": 0.0}),
    "hops": ({"kind": "hops", "letters": 3, "length": 12, "hops": 2}, ATTENTION, {"accuracy": 1.0}),
    "recall": ({"kind": "recall", "pairs": 2, "length": 8, "vocabulary": 16}, ATTENTION, {"accuracy": 1.0}),
    "induction": ({"kind": "induction", "letters": 5, "length": 12}, ATTENTION, {"accuracy": 1.0}),
}


def judge_of(kind):
    task, model, _ = TASKS[kind]
    training = {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 4, "steps": 5}
    run = parse_run({"seed": 0, "samples": None, "task": task, "model": model, "training": training})
    judge = open_study(run, compile=False, device="cpu").conclude.__self__
    assert isinstance(judge, SyntheticJudge)
    return judge


def batches_of(judge):
    return list(judge.examples.evaluation_batches(64, 8))


def told(judge, monkeypatch, right=lambda asked: asked):
    """Judge a model that says what is right where `right` has it, and something else elsewhere."""
    batches = batches_of(judge)
    answers = {id(batch.inputs): batch for batch in batches}

    def say(_self, batch):
        here = answers[id(batch.inputs)]
        if judge.run.task.loss == "mse":
            return np.where(right(here.asked)[..., None], here.targets, 0.0)
        said = np.zeros((*here.targets.shape, judge.run.task.n_answers))
        shown = np.where(right(here.asked), here.targets, (here.targets + 1) % judge.run.task.n_answers)
        np.put_along_axis(said, shown.clip(0)[..., None], 1.0, axis=2)
        return said

    monkeypatch.setattr(SyntheticJudge, "_answers", say)
    return judge.judged(batches)


@pytest.mark.parametrize("kind", TASKS)
def test_every_task_says_what_is_possible_at_all(kind):
    judge = judge_of(kind)
    assert dict(judge.run.task.best_possible(judge.run.model)) == TASKS[kind][2]


def test_a_bound_that_fewer_heads_reach_makes_solving_possible():
    """Two heads have 7 of 8 inputs of 3-bit parity right, which a declared bound below that calls solved."""
    task, model, _ = TASKS["parity"]
    for above, solved in ((0.8, 1.0), (0.9, 0.0)):
        declared = parse(TASKS_BY_KIND["parity"], {**task, "solved_above": above})
        assert dict(declared.best_possible(parse(Gpt2, model))) == {"accuracy": 0.875, "solved": solved}


@pytest.mark.parametrize("kind", ["parity", "endpoint"])
def test_theorems_on_softmax_say_nothing_of_an_attention_of_ones_own(kind, monkeypatch):
    monkeypatch.setitem(OWN_ATTENTIONS, "other", lambda scores: scores)
    judge = judge_of(kind)
    model = judge.run.model.model_copy(update={"attention": "other"})
    assert dict(judge.run.task.best_possible(model)) == {"accuracy": 1.0}


@pytest.mark.parametrize("kind", ["parity", "endpoint"])
def test_all_right_where_theory_rules_it_out_fails_the_run(kind, monkeypatch):
    with pytest.raises(BeyondPossible, match=r"accuracy is 1, but at .* no model of this shape can do better than 0\."):
        told(judge_of(kind), monkeypatch)


@pytest.mark.parametrize("kind", ["hops", "recall", "induction"])
def test_more_than_all_right_fails_the_run(kind, monkeypatch):
    """Such as by counting answers that were not asked for."""
    judge = judge_of(kind)
    assert told(judge, monkeypatch)["accuracy"] == 1.0
    with pytest.raises(BeyondPossible, match=r"accuracy is 1\.01, but at .* no model .* can do better than 1;"):
        judge._check_possible({"accuracy": 1.01})


def test_less_than_no_error_fails_the_run(monkeypatch):
    judge = judge_of("retrieval")
    assert told(judge, monkeypatch)["nmse"] == 0.0
    with pytest.raises(BeyondPossible, match=r"nmse is -0\.01, but at retrieval .* can do better than 0;"):
        judge._check_possible({"nmse": -0.01})


@pytest.mark.parametrize("kind", ["hops", "recall", "induction"])
def test_answers_are_told_by_how_much_was_read(kind, monkeypatch):
    """Right up to the 4th token, and wrong after it."""

    def early(asked):
        return asked & (np.arange(asked.shape[1]) < 4)

    judge = judge_of(kind)
    found = told(judge, monkeypatch, early)["accuracy_by_length"]
    asked = np.concatenate([batch.asked for batch in batches_of(judge)])
    for octave, share in enumerate(found):
        places = slice(0 if octave == 0 else 2 ** (octave - 1), 2**octave)
        here = asked[:, places].any()
        assert share == (None if not here else 1.0 if octave <= 2 else 0.0)
    assert len(found) == 1 + int(np.ceil(np.log2(1 + np.flatnonzero(asked.any(0)).max())))


def test_where_all_is_asked_at_one_place_there_is_no_length(monkeypatch):
    judge = judge_of("parity")
    assert "accuracy_by_length" not in told(judge, monkeypatch, lambda asked: np.zeros_like(asked))


def test_chance_at_recall_is_the_value_that_was_given_most_often():
    """Against counting in drawn examples."""
    judge = judge_of("recall")
    hits = total = 0
    for batch in judge.examples.evaluation_batches(2_000, 100):
        assert isinstance(batch, Batch)
        values = batch.inputs[:, 1:4:2]
        for row, given in zip(batch.targets, values, strict=True):
            most = np.bincount(given).argmax()
            hits += int((row[row >= 0] == most).sum())
            total += int((row >= 0).sum())
    assert judge.run.task.by_chance() == pytest.approx(hits / total, abs=0.02)


@pytest.mark.parametrize("kind", TASKS)
def test_the_best_of_the_arms_and_chance_are_drawn(kind):
    class Fake:
        spec = judge_of(kind).run

    found = known_baselines([Fake(), Fake()])
    assert found["possible"] == TASKS[kind][2]
    assert ("chance" in found) == (kind == "recall")
