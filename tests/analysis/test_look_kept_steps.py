"""A look at a run that kept weights on its way: at each of these steps it is what the model of that step does."""

import numpy as np
import pytest
import torch
from support import small_text

from headway.analysis.look import look
from headway.analysis.look_tokens import PageRoom, circuit_tokens
from headway.analysis.open import open_model
from headway.data.tokenizer import bytes_tokenizer
from headway.errors import ResultsError
from headway.execute.places import WorkerOptions
from headway.execute.work import DONE, work
from headway.execute.worker import _open_study
from headway.heads.results import STEPS
from headway.heads.token_circuits import compositions, token_circuits
from headway.hf.write import export
from headway.models.transformer import Transformer
from headway.store.directory import Store
from headway.store.run import Run

KEPT = (0, 3, 12)
OPTIONS = {"length": 16, "sequences": 2, "draws": 0}


def trained(folder, weights):
    """A run without probes that keeps weights of some steps."""
    asked = small_text.experiment(
        logging={"every": 5, "weights": weights}, training={**small_text.CONTENT["training"], "steps": 16},
        samples=None,
    ).select(arms=["falling"])  # fmt: skip
    made = Store.create(folder, asked).add(asked.arm("falling"), 0)
    options = WorkerOptions(device="cpu")
    assert work(made.path, lambda spec, stored: _open_study(made.path, spec, stored, options, threads=1)) == DONE
    return Run.open(made.path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("kept") / "runs", [12, 0, 3])


@pytest.fixture(scope="module")
def seen(run):
    return look(run.path, **OPTIONS)


def test_the_run_kept_them_and_ends_as_without(run, tmp_path):
    plain = trained(tmp_path / "plain", [])
    assert plain.weight_steps() == []
    assert plain.id == run.id
    assert all(np.array_equal(value, plain.weights()[name]) for name, value in run.weights().items())
    scores = [name for name in run.metrics if "loss" in name]
    assert {name: run.metrics[name] for name in scores} == {name: plain.metrics[name] for name in scores} != {}
    assert tuple(run.weight_steps()) == run.keeps_weights == KEPT
    assert {record["step"] for record in run.records()} >= {*KEPT, 16}
    first = run.model(0)
    assert isinstance(first, Transformer)
    assert not np.array_equal(first.weights()["embedding.weight"], run.model().weights()["embedding.weight"])
    with pytest.raises(ResultsError, match="step"):
        run.model(7)


def test_circuits_and_compositions_are_those_of_a_model_with_these_weights(run, seen):
    assert [kept.step for kept in seen.kept] == list(KEPT)
    opened = open_model(run.path)
    tokens = circuit_tokens(opened, np.array([sequence.tokens for sequence in seen.sequences]))
    for kept in seen.kept:
        model = Transformer(opened.own.model, opened.vocab_size)
        model.load_state_dict({name: torch.from_numpy(value) for name, value in run.weights(kept.step).items()})
        with torch.inference_mode():
            assert kept.circuits == token_circuits(model.eval(), tokens)
            np.testing.assert_array_equal(kept.composition.q, compositions(model).q)
    assert seen.kept[0].circuits.of != seen.circuits.of


def test_patterns_are_those_of_that_step_on_the_same_sequences(run, seen):
    for kept in seen.kept:
        model = run.model(kept.step).eval()
        assert kept.patterns.keys() == seen.patterns.keys()
        for number, sequence in enumerate(seen.sequences):
            with torch.inference_mode():
                trace = model.trace(torch.tensor(sequence.tokens)[None])
            for attention in trace.attentions:
                packed = kept.patterns[attention.name, number]
                assert np.abs(packed.steps() / STEPS - attention.patterns()[0].numpy()).max() < 0.51 / STEPS


def test_a_run_that_kept_nothing_has_nothing_on_its_way(run, tmp_path):
    export(run.model().model, 257, run.weights(), tmp_path / "exported", bytes_tokenizer())
    other = look(tmp_path / "exported", tokens=np.arange(64).reshape(4, 16), **OPTIONS)
    assert other.kept == ()


def test_what_does_not_fit_is_cut_and_said(run, seen, monkeypatch):
    one = sum(len(packed.data) for (_, number), packed in seen.patterns.items() if number == 0)
    every = sum(len(packed.data) for packed in seen.patterns.values())
    monkeypatch.setattr(PageRoom, "for_patterns", lambda self, n_steps: every + 4 * one)
    less = look(run.path, **OPTIONS)
    assert less.patterns.keys() == seen.patterns.keys()
    numbers = {tuple(sorted({number for _, number in kept.patterns})) for kept in less.kept}
    assert len(numbers) == 1
    assert len(numbers.pop()) in (1, 2)
    (said,) = (note for note in less.notes if note.startswith("during training, patterns of "))
    assert " of 4 sequences are kept, so that the page stays below 10 MB; " in said
    monkeypatch.setattr(PageRoom, "for_patterns", lambda self, n_steps: every)
    none = look(run.path, **OPTIONS)
    assert not any(kept.patterns for kept in none.kept)
    assert any(note.startswith("patterns during training were left out, so that") for note in none.notes)


def test_where_many_steps_were_kept_circuits_of_some_are_on_a_page():
    room = PageRoom(largest=10_000_000, n_heads=100)
    assert room.steps(range(10)) == list(range(10))
    few = room.steps(range(1000))
    assert len(few) == 19
    assert (few[0], few[-1]) == (0, 999)
    (said,) = room.left_out(range(1000))
    assert said == "circuits are shown for 19 of 1,000 steps with stored weights"
    assert room.steps([]) == []
