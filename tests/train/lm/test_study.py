"""Training language models: what a step is, and that it is the same however a run is cut."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save
from support.small_text import MUON, run_of, study_of
from support.tolerance import ADAM, TERMS, assert_same

from headway.data.text import TextExamples
from headway.data.token_store import open_corpus
from headway.errors import Diverged, UserError
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from headway.train import device
from headway.train.lm import LABORATORY
from headway.train.lm.study import open_study

ALL = {"warmup_steps": 3, "grad_accumulation": 2, "lr_schedule": "cosine", "weight_decay": 0.1}
RUNS = {
    "adamw, everything": {"training": ALL, "model": {"dropout": 0.1}},
    "muon, everything": {"training": {**MUON, **ALL}, "model": {"dropout": 0.1, "ranks": {"q": 3, "up": 4}}},
}


def written_out(run, steps):
    """Training as anyone would write it down: whole batches, AdamW, linear decay, clipping by hand."""
    tokens = open_corpus(run.task)
    module = Transformer(
        run.model, tokens.tokenizer.vocab_size, initial_weights(run.model, tokens.tokenizer.vocab_size, run.seed)
    )
    optimizer = torch.optim.AdamW(module.parameters(), lr=0, betas=run.training.betas, weight_decay=0.0)
    losses = []
    for step in range(steps):
        batch = TextExamples(run.task, tokens).training_batch(run.seed, step, run.training.batch_size)
        inputs, targets = torch.tensor(batch.inputs), torch.tensor(batch.targets)
        logits = module(inputs)[0]
        kept = targets.flatten() >= 0
        loss = -logits.log_softmax(2).flatten(0, 1)[kept, targets.flatten()[kept]].mean()
        optimizer.zero_grad()
        loss.backward()
        norm = sum(p.grad.square().sum() for p in module.parameters()).sqrt()
        for p in module.parameters():
            p.grad *= min(1.0, run.training.clip / (norm.item() + 1e-6))
        optimizer.param_groups[0]["lr"] = run.training.learning_rate * (1 - step / run.training.steps)
        optimizer.step()
        losses.append(loss.item())
    return losses, module.weights()


@pytest.mark.slow
@pytest.mark.parametrize("over", [{}, {"task": {"padding": "published"}}], ids=["packed", "padded"])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_step_is_that_of_a_loop_written_out(over, parts):
    run = run_of(training={"clip": 0.5, "grad_accumulation": parts}, **over)
    losses, weights = written_out(run, 12)
    trainer = open_study(run, compile=False, device="cpu").trainer
    assert_same(trainer.advance(12), losses, dtype=np.float32)
    for name, array in weights.items():
        assert_same(
            trainer.weights()[name],
            array,
            terms=12 * ADAM * TERMS,
            scale=run.training.learning_rate,
            what=name,
            dtype=np.float32,
        )


@pytest.mark.slow
@pytest.mark.parametrize("over", RUNS.values(), ids=RUNS)
def test_restored_it_goes_on_with_the_same_bits(over):
    whole, first, second = (study_of(**over) for _ in range(3))
    losses = whole.trainer.advance(9)
    np.testing.assert_array_equal(np.concatenate([first.trainer.advance(1), first.trainer.advance(3)]), losses[:4])
    stored = load(save({name: np.ascontiguousarray(array) for name, array in first.trainer.state().items()}))
    torch.manual_seed(99)
    second.trainer.advance(2)
    second.trainer.restore(4, stored)
    np.testing.assert_array_equal(second.trainer.advance(5), losses[4:])
    for name, array in whole.trainer.state().items():
        np.testing.assert_array_equal(second.trainer.state()[name], array, err_msg=name)


def test_judging_changes_nothing_in_training():
    judged, left = study_of(model={"dropout": 0.1, "d_embed": 12}), study_of(model={"dropout": 0.1, "d_embed": 12})
    judged.trainer.advance(2)
    for measure in judged.measures:
        measure.take()
    judged.conclude()
    left.trainer.advance(2)
    np.testing.assert_array_equal(judged.trainer.advance(3), left.trainer.advance(3))


def test_muon_trains_the_matrices_of_the_blocks_and_adamw_the_rest():
    study = study_of(training=MUON, model={"ranks": {"q": 3, "down": 4}, "tied": False})
    study.trainer.advance(1)
    shapes = {name.removeprefix("weights/"): array.shape for name, array in study.trainer.state().items()}
    by_muon = {name.removeprefix("optimizer/momentum_buffer/") for name in shapes if "momentum_buffer" in name}
    by_adamw = {name.removeprefix("optimizer/exp_avg/") for name in shapes if "exp_avg/" in name}
    weights = set(study.trainer.weights())
    assert by_muon == {name for name in weights if name.startswith("layers.") and len(shapes[name]) == 2}
    assert {"layers.0.attention.q.first.weight", "layers.1.mlp.down.second.weight"} <= by_muon
    assert by_adamw == weights - by_muon
    assert {"embedding.weight", "positions.weight", "readout.weight", "norm.bias"} <= by_adamw


def test_only_matrices_decay():
    decayed = study_of(training={"weight_decay": 0.5, "learning_rate": 0.1, "clip": 1e-12, "eps": 1e3})
    before = decayed.trainer.weights()
    decayed.trainer.advance(1)  # gradients come to nothing beside eps
    for name, array in decayed.trainer.weights().items():
        expected = before[name] * (0.95 if array.ndim == 2 else 1)
        assert_same(array, expected, what=name, scale=1.0, dtype=np.float32)


def test_arms_are_paired_same_batches_and_same_initial_weights_where_shapes_agree():
    one, other = study_of(), study_of(model={"n_heads": "2-8", "mlp": "relu", "d_mlp": 20})
    assert one.execution["corpus"] == other.execution["corpus"]
    mine, theirs = one.trainer.weights(), other.trainer.weights()
    equal = {name for name in mine if mine[name].shape == theirs[name].shape}
    assert {"embedding.weight", "layers.0.attention.q.weight", "layers.1.attention.o.weight"} <= equal
    assert "layers.0.mlp.up.weight" not in equal
    for name in equal:
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    again = study_of(seed=1)
    assert not np.array_equal(again.trainer.weights()["embedding.weight"], mine["embedding.weight"])


def test_a_divergence_names_its_step():
    with pytest.raises(Diverged, match=r"the loss of step \d+ is (nan|inf): training diverged"):
        study_of(training={"learning_rate": 1e6, "clip": None}).trainer.advance(40)


def test_epochs_are_counted_in_the_steps_of_the_corpus():
    study = study_of(training={"steps": None, "epochs": 0.5})
    run = run_of()
    assert study.steps == int(0.5 * TextExamples(run.task, open_corpus(run.task)).steps_per_epoch(4))


def test_what_stands_in_a_record_beside_the_losses():
    study = study_of(training={"warmup_steps": 10})
    assert study.extra(0) == {"tokens": 0}
    assert study.extra(5) == {"tokens": 5 * 4 * 24, "learning_rate": pytest.approx(0.005)}
    padded = study_of(task={"padding": "published"})
    assert 0 < padded.extra(10)["tokens"] < 10 * 4 * 24


def test_a_precision_that_the_machine_lacks_is_an_error_before_training(monkeypatch):
    monkeypatch.setattr(device, "_has_bf16", lambda place: False)
    with pytest.raises(UserError, match=r"training.precision bf16: this processor has no bf16 arithmetic; take fp32"):
        study_of(training={"precision": "bf16"})


@pytest.mark.skipif(not device._has_bf16(torch.device("cpu")), reason="this processor has no bf16 arithmetic")
def test_bf16_is_near_fp32_and_keeps_its_weights_in_fp32():
    exact, rounded = study_of(), study_of(training={"precision": "bf16"})
    losses = exact.trainer.advance(10), rounded.trainer.advance(10)
    np.testing.assert_allclose(*losses, rtol=0.02)
    assert not np.array_equal(*losses)
    assert {array.dtype for array in rounded.trainer.weights().values()} == {np.dtype("float32")}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("tpu", "device tpu: there is no such device; choose from auto, cpu, cuda and cuda:N"),
        ("cuda", "device cuda: torch sees 0 GPUs here; take cpu"),
        ("cuda:7", "device cuda:7: torch sees 0 GPUs here"),
    ],
)
def test_a_device_that_is_not_there(asked, said, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError) as raised:
        open_study(run_of(), device=asked)
    assert str(raised.value).startswith(said)


def test_the_native_trainer_is_not_for_language_models():
    with pytest.raises(UserError, match="trainer fused: it trains in-context models of one layer only"):
        open_study(run_of(), trainer="fused")


def test_a_trained_model_is_opened_from_its_weights():
    study = study_of()
    study.trainer.advance(2)
    module = LABORATORY.trained_model(run_of(), study.trainer.weights())
    assert all(np.array_equal(array, module.weights()[name]) for name, array in study.trainer.weights().items())


def test_a_trial_needs_no_corpus():
    run = run_of(task={"corpus": "./nowhere.txt"}, training={"grad_accumulation": 2})
    assert all(0 < rate < 10_000 for rate in LABORATORY.trial_steps_per_s(run, seconds=0.05))
