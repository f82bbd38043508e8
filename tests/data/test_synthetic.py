"""Tasks whose answer is known: their draws are pure, and their answers those of a slow definition."""

import itertools

import numpy as np
import pytest
from support.tolerance import assert_same

from headway.config.lm.model import Gpt2
from headway.config.lm.run import TASKS
from headway.config.lm.synthetic import EndpointTask, edges_to_remove
from headway.config.spec import parse
from headway.data.batch import MASKED, open_examples
from headway.data.synthetic import directions, guessed, hop
from headway.errors import DeclarationError

DRAWN = {
    "retrieval": {"targets": 3, "length": 5},
    "hops": {"length": 20, "hops": 3},
    "recall": {"pairs": 3, "length": 16, "vocabulary": 20},
    "induction": {"letters": 5, "length": 20},
}
LISTED = {"parity": {"n_bits": 4}, "endpoint": {"vertices": 4}}
EVERY = {**DRAWN, **LISTED}


def task_of(kind, **fields):
    return parse(TASKS[kind], {"kind": kind, **(fields or EVERY[kind])})


@pytest.mark.parametrize("kind", LISTED)
def test_a_batch_of_all_inputs_is_all_of_them_once(kind):
    task = task_of(kind)
    examples = open_examples(task)
    batch = examples.training_batch(0, 0, task.n_inputs)
    assert len({tuple(row) for row in batch.inputs.tolist()}) == task.n_inputs
    assert np.array_equal(batch.inputs, examples.training_batch(1, 9, task.n_inputs).inputs)
    judged = list(examples.evaluation_batches(None, 5))
    assert sum(int(b.asked.sum()) for b in judged) == task.n_inputs
    assert all(len(b.inputs) == 5 for b in judged)


@pytest.mark.parametrize("kind", DRAWN)
def test_what_is_judged_on_depends_on_the_task_alone(kind):
    """However many there are, and however large the batches that arms train on."""
    examples = open_examples(task_of(kind))

    def judged(n, batch_size):
        batches = list(examples.evaluation_batches(n, batch_size))
        assert all(len(batch.inputs) == batch_size for batch in batches)
        asked = [batch.asked.any(1) for batch in batches]
        return np.concatenate([batch.inputs for batch in batches])[:n], np.concatenate(asked)

    whole, _ = judged(70, 35)
    for n, batch_size in [(70, 4), (70, 64), (33, 32), (6, 4), (6, 100)]:
        inputs, asked = judged(n, batch_size)
        assert np.array_equal(inputs, whole[:n])
        assert not asked[n:].any()
    assert len(np.unique(whole.reshape(70, -1), axis=0)) > 60


def test_parity_by_counting():
    batch = open_examples(task_of("parity")).training_batch(0, 0, 16)
    assert (batch.inputs[:, -1] == 2).all()
    assert batch.targets[:, -1].tolist() == [int(sum(row[:-1]) % 2) for row in batch.inputs.tolist()]


@pytest.mark.parametrize("graph", ["complete", "tournament", "cycle"])
def test_the_end_that_is_asked_for(graph):
    task = task_of("endpoint", vertices=4, graph=graph)
    batch = open_examples(task).training_batch(0, 0, task.n_inputs)
    assert [row[row[2] - 4] for row in batch.inputs.tolist()] == batch.targets[:, -1].tolist()
    assert len(task.pairs) == {"complete": 12, "tournament": 6, "cycle": 4}[graph]


@pytest.mark.parametrize("seed", range(4))
def test_the_edges_to_remove_are_the_fewest(seed):
    """Over all orders of the vertices: those that point back."""
    task = task_of("endpoint", vertices=5, graph="random", edges=11, graph_seed=seed)
    slow = min(sum(order.index(u) > order.index(v) for u, v in task.pairs) for order in
               itertools.permutations(range(5)))  # fmt: skip
    assert edges_to_remove(5, task.pairs) == slow


def test_of_large_graphs_the_bound_still_holds():
    large = EndpointTask(kind="endpoint", vertices=15)
    assert edges_to_remove(15, large.pairs) == 15 * 14 // 2


@pytest.mark.parametrize("seed", range(12))
def test_of_large_graphs_no_more_are_counted_than_have_to_go(seed, monkeypatch):
    """And one at least where there is a cycle: all edges in order are fewer than the graph has."""
    task = task_of("endpoint", vertices=8, graph="random", edges=6 + 3 * seed, graph_seed=seed)
    exact = edges_to_remove.__wrapped__(8, task.pairs)
    monkeypatch.setattr("headway.config.lm.synthetic.EXACT", 7)
    bound = edges_to_remove.__wrapped__(8, task.pairs)
    assert min(1, exact) <= bound <= exact
    assert edges_to_remove.__wrapped__(8, tuple((u, (u + 1) % 8) for u in range(8))) == 1


def test_what_is_possible_at_endpoints():
    one = {"family": "gpt-2", "d_model": 8, "n_layers": 1, "mlp": "none", "norm": "none"}
    best = {g: task_of("endpoint", vertices=5, graph=g).best_possible(Gpt2(n_heads=1, **one))["accuracy"] for g in
            ("complete", "tournament", "cycle")}  # fmt: skip
    assert best == {"complete": 0.75, "tournament": 1.0, "cycle": 0.9}
    assert task_of("endpoint").best_possible(Gpt2(n_heads=2, **one)) == {"accuracy": 1.0, "solved": 1.0}
    assert task_of("endpoint").best_possible(Gpt2(n_heads=1, **{**one, "mlp": "gelu"})) == {"accuracy": 1.0}


def test_maxima_by_their_definition():
    task = task_of("retrieval")
    batch, a = open_examples(task).training_batch(0, 0, 7), directions(task)
    assert_same(a @ a.T, np.eye(3))
    expected = [sum(max(x @ ai for x in row) for ai in a) for row in batch.inputs]
    assert_same(batch.targets[:, -1, 0], expected)
    assert np.isnan(batch.targets[:, :-1]).all()


def slowly_hopped(row, at, k):
    for _ in range(k):
        before = [j for j in range(at) if row[j] == row[at]]
        if not before:
            return None
        at = before[-1] + 1
    return row[at]


def test_guesses_of_hops_are_what_a_table_gets_on_other_sequences():
    """A table of the most frequent answer by k and place, letters told from the letter there, counted anew."""
    task = task_of("hops")
    batch = open_examples(task).training_batch(5, 5, 40_000)
    letters, answers = batch.inputs[:, 1:], batch.targets[:, 1:]
    further = np.where(answers == task.letters, task.letters, (answers - letters) % task.letters)
    for k, share in enumerate(guessed(task)):
        some = further[batch.kinds == k]
        half = len(some) // 2
        most = [np.bincount(column).argmax() for column in some[:half].T]
        assert share == pytest.approx((some[half:] == most).mean(), abs=0.02)
    assert guessed(task)[0] == 1.0


def test_hops_by_their_definition():
    task = task_of("hops")
    batch = open_examples(task).training_batch(0, 0, 40)
    assert set(batch.kinds.tolist()) == {0, 1, 2, 3}
    for row, targets, k in zip(batch.inputs.tolist(), batch.targets.tolist(), batch.kinds.tolist(), strict=True):
        assert row[0] == 4 + k
        letters = row[1:]
        assert all(a != b for a, b in itertools.pairwise(letters))
        answers = [slowly_hopped(letters, at, k) for at in range(len(letters))]
        assert targets == [MASKED, *(4 if answer is None else answer for answer in answers)]


def test_induction_is_one_hop():
    batch = open_examples(task_of("induction")).training_batch(0, 0, 20)
    at = hop(batch.inputs)
    assert np.array_equal(batch.asked, at >= 0)
    for row, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        assert targets == [MASKED if (a := slowly_hopped(row, i, 1)) is None else a for i in range(20)]


def test_recall_asks_every_key_once():
    batch = open_examples(task_of("recall")).training_batch(0, 0, 30)
    for row, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        given = dict(zip(row[0:6:2], row[1:6:2], strict=True))
        assert len(given) == 3
        assert all(0 < key < 10 <= value < 20 for key, value in given.items())
        asked = {row[i]: targets[i] for i in range(6, 16) if targets[i] != MASKED}
        assert asked == given
        assert all(row[i] == 0 for i in range(6, 16) if targets[i] == MASKED)


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("endpoint", {"vertices": 4, "graph": "random"}, "graph random needs a number of edges"),
        ("endpoint", {"vertices": 4, "edges": 3}, "graph complete has its own edges; leave edges out"),
        ("endpoint", {"vertices": 4, "graph": "random", "edges": 13}, "4 vertices have at most 12"),
        ("recall", {"pairs": 9, "length": 20}, "length 20 has no room for 9 pairs and the repeated keys; give 27"),
        ("recall", {"pairs": 9, "vocabulary": 12}, "12 tokens have 5 keys; give a larger vocabulary"),
        ("parity", {"n_bits": 40}, "give a number of at most 16"),
    ],
)
def test_tasks_that_cannot_be_are_refused(kind, fields, said):
    with pytest.raises(DeclarationError, match=said):
        task_of(kind, **fields)
