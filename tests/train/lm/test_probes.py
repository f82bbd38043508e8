"""Probes: when heads are measured, on what, and that training is what it would have been without."""

import numpy as np
import pytest
import torch
from support.measuring import measure
from support.small_text import MUON, run_of, study_of
from support.tolerance import assert_same, nearly

from headway.config.head_metrics import HEAD_METRICS, REPEATED
from headway.data.token_store import open_corpus
from headway.heads.circuits import circuit_scores
from headway.heads.measure import HeadStream, drawn_repeats
from headway.heads.scores import from_arrays
from headway.models.transformer import Transformer
from headway.train.loop import Milestone, train

ALL = {"diversity": True, "patterns": True, "circuits": True, "published": True, "outputs": True}
NAMES = ("layers.0.attention", "layers.1.attention")


def probe_of(study):
    return study.measures[-1]


def milestones(study, log_every=10):
    return {e.step: e for e in train(study, steps=40, log_every=log_every) if isinstance(e, Milestone)}


def test_the_first_and_the_last_step_every_few_and_all_early_ones_are_probed():
    study = study_of(probes={"every": 15, "dense_until": 3, "metrics": ["query_cka"]})
    assert [step for step in range(41) if probe_of(study).due(step)] == [0, 1, 2, 3, 15, 30, 40]
    found = milestones(study)
    assert [step for step, e in found.items() if e.arrays] == [0, 1, 2, 3, 15, 30, 40]
    assert [step for step, e in found.items() if "probe_loss_nats" in e.metrics] == [0, 1, 2, 3, 15, 30, 40]


def test_nothing_is_measured_where_nothing_is_asked_for():
    assert len(study_of(probes={"every": 3, "dense_until": 30}).measures) == len(study_of().measures)


def test_all_that_is_asked_for_is_there_for_every_head():
    study = study_of(probes=ALL)
    measured = probe_of(study).take()
    scores = from_arrays(measured.arrays, NAMES)
    assert set(scores) == {name for name, metric in HEAD_METRICS.items() if metric.family not in ("text", "sinks")}
    for score in scores.values():
        assert set(score.values) == set(NAMES)
        if score.declared.of == "head":
            assert [len(score.values[name]) for name in NAMES] == [4, 2]
        if score.declared.of == "pair":
            assert [score.values[name].shape for name in NAMES] == [(4, 4), (2, 2)]
    assert scores["query_cka"].n_rows == 8 * 24
    single = from_arrays(probe_of(study_of(probes={"metrics": ["sink_score"]})).take().arrays, NAMES)
    assert set(single) == {"sink_score"}
    np.testing.assert_array_equal(single["sink_score"].values[NAMES[0]], scores["sink_score"].values[NAMES[0]])


def test_a_run_without_outputs_keeps_what_it_kept_before_there_were_any():
    """So a stored run that goes on records at its later steps what it recorded at its first."""
    study = study_of(probes={name: True for name in ALL if name != "outputs"})
    kept = {name.split("/")[0] for name in probe_of(study).take().arrays}
    assert kept == {name for name, metric in HEAD_METRICS.items() if metric.family not in ("outputs", "text", "sinks")}
    only = probe_of(study_of(probes={"outputs": True})).take().arrays
    assert_same([only[f"output_share/{name}"].sum() for name in NAMES], 1, dtype=np.float32)


def test_what_is_stored_is_what_is_measured_by_hand():
    run = run_of(probes=ALL, model={"dropout": 0.3}, training={"drophead": {"start": 0.5}})
    study = study_of(probes=ALL, model={"dropout": 0.3}, training={"drophead": {"start": 0.5}})
    study.trainer.advance(3)
    measured = probe_of(study).take()
    tokens = open_corpus(run.task)
    module = Transformer(run.model, tokens.tokenizer.vocab_size, study.trainer.weights()).eval()
    chosen = np.sort(np.random.Generator(np.random.Philox(key("evaluation"))).permutation(n_windows(tokens))[:8])
    windows = np.stack([np.asarray(tokens.held_out[24 * i : 24 * i + 25], np.int64) for i in chosen])
    inputs, targets = torch.tensor(windows[:, :-1]), torch.tensor(windows[:, 1:])
    with torch.no_grad():
        expected = measure(module.trace(inputs))
        again = drawn_repeats(tokens.tokenizer.vocab_size, 12, 8, 0)
        stream = HeadStream(REPEATED, repeats=True)
        stream.add(module.trace(torch.tensor(again.tokens)), torch.tensor(again.periods), torch.tensor(again.begins))
        expected |= stream.scores()
        loss = module.loss(inputs, targets).item()
    expected |= circuit_scores(module)
    assert measured.metrics["probe_loss_nats"] == nearly(loss, dtype=np.float32)
    found = from_arrays(measured.arrays, NAMES)
    assert set(found) == set(expected)
    constant = expected["output_constant_share"].values
    for name, score in expected.items():
        for at in NAMES:
            # What is left of outputs less their means has the roundings of the outputs.
            scale = 1 / (1 - constant[at].max()) if name == "output_correlation" else None
            assert_same(found[name].values[at], score.values[at], what=f"{name} {at}", dtype=np.float32, scale=scale)
            if at in score.null:
                assert_same(found[name].null[at], score.null[at], what=name, dtype=np.float32)


def key(purpose):
    from headway.base.rng import key

    return key(0, purpose)


def n_windows(tokens):
    return -(-(len(tokens.held_out) - 1) // 24)


def test_the_batch_depends_on_the_task_alone():
    first, other = (study_of(seed=seed, probes=ALL, training=over) for seed, over in ((0, {}), (5, MUON)))
    other.trainer.restore(0, {f"weights/{name}": array for name, array in first.trainer.weights().items()})
    one, two = (probe_of(study).take() for study in (first, other))
    assert one.metrics == two.metrics
    assert all(np.array_equal(one.arrays[name], two.arrays[name], equal_nan=True) for name in one.arrays)


def test_more_sequences_than_fit_at_once_are_measured_together():
    """Parts of 4, 4 and 2, the last filled up with what counts nowhere."""
    probes = {"sequences": 10, "diversity": True, "patterns": True}
    at_once, in_parts = study_of(probes=probes, training={"batch_size": 10}), study_of(probes=probes)
    one, two = (probe_of(study).take() for study in (at_once, in_parts))
    assert one.metrics["probe_loss_nats"] == nearly(two.metrics["probe_loss_nats"], dtype=np.float32)
    for name, array in one.arrays.items():
        assert_same(two.arrays[name], array, what=name, dtype=np.float32)


def test_padding_counts_nowhere():
    study = study_of(task={"padding": "published", "n_ctx": 400}, probes={"metrics": ["query_cka"]})
    score = from_arrays(probe_of(study).take().arrays, NAMES)["query_cka"]
    assert 0 < score.n_rows < 8 * 399


@pytest.mark.slow
def test_weights_and_metrics_are_the_same_with_and_without():
    training = {"regularizers": [{"metric": "disagreement_output"}], "drophead": {"start": 0.4}}
    over = {"model": {"dropout": 0.1}, "training": training}
    probed, plain = study_of(probes={**ALL, "every": 10}, **over), study_of(**over)
    with_probes, without = milestones(probed), milestones(plain)
    assert list(with_probes) == list(without)
    for step, event in without.items():
        found = dict(with_probes[step].metrics)
        assert found.pop("probe_loss_nats") > 0
        assert found == event.metrics
        assert with_probes[step].samples == event.samples
    weights, expected = probed.trainer.state(), plain.trainer.state()
    assert all(np.array_equal(weights[name], expected[name]) for name in expected)
    assert probed.conclude().metrics == plain.conclude().metrics


def test_a_probe_taken_again_is_the_same_bits():
    study = study_of(probes=ALL)
    study.trainer.advance(2)
    before = torch.random.get_rng_state()
    one, two = probe_of(study).take(), probe_of(study).take()
    assert torch.equal(torch.random.get_rng_state(), before), "torch's generator is not touched"
    assert one.metrics == two.metrics
    assert list(one.arrays) == list(two.arrays)
    assert all(one.arrays[name].tobytes() == two.arrays[name].tobytes() for name in one.arrays)


def test_importance_is_that_of_the_gates_and_changes_nothing_in_training():
    plain, probed = study_of(), study_of(probes={"every": 20, "importance": True})
    weights = []
    for study in (plain, probed):
        found = milestones(study)
        weights.append(study.trainer.weights())
    assert [step for step, e in found.items() if e.arrays] == [0, 20, 40]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    scores = from_arrays(found[40].arrays, NAMES)
    assert set(scores) == {"michel_importance_nats", "zero_attribution_nats"}
    michel = [scores["michel_importance_nats"].values[name] for name in NAMES]
    signed = [scores["zero_attribution_nats"].values[name] for name in NAMES]
    assert [len(values) for values in michel] == [4, 2]
    assert all((m >= abs(s) - 1e-7).all() for m, s in zip(michel, signed, strict=True))
    assert max(values.max() for values in michel) > 0


def test_importance_is_measured_beside_other_metrics():
    measured = probe_of(study_of(probes={"importance": True, "metrics": ["sink_score"]})).take()
    assert set(from_arrays(measured.arrays, NAMES)) == {"michel_importance_nats", "zero_attribution_nats", "sink_score"}
    assert "probe_loss_nats" in measured.metrics
