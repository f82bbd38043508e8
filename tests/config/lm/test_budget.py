"""FLOPs and memory of language models, counted by hand."""

import pytest

from headway.config.kinds import parse_run
from headway.config.lm.budget import forward_flops
from headway.config.lm.model import Gpt2, GptNeo


def run(model=None, training=None, n_ctx=128):
    return parse_run(
        {
            "task": {"kind": "text", "corpus": "stories", "n_ctx": n_ctx},
            "model": {"family": "gpt-neo", "d_model": 64, "n_layers": 2, "n_heads": 4, **(model or {})},
            "training": {"optimizer": "adamw", "batch_size": 8, "steps": 5, "learning_rate": 1e-3, **(training or {})},
            "seed": 0,
        }
    )


def test_flops_of_a_small_model_by_hand():
    model = GptNeo(family="gpt-neo", d_model=4, n_layers=2, n_heads="2:1-0", d_mlp=3, windows=(2,), d_embed=2)
    # Q and O 4 x 4, K and V 2 x 4, two MLPs of 4 x 3 and back, a read-out of 2 x 10; a product and a sum are two.
    matrices = 2 * 16 + 2 * 8 + 2 * 2 * 12 + 20
    # Over five positions a query sees one or two keys; a head of width 2 makes two products with each, twice.
    attention = 2 * (1 + 2 + 2 + 2 + 2) * 2 * 2
    assert forward_flops(model, 10, n_ctx=5) == 2 * 5 * matrices + 2 * attention


def test_factors_are_multiplied_one_after_the_other():
    whole, low = (Gpt2(family="gpt-2", d_model=8, n_layers=1, n_heads=1, ranks={"q": rank}) for rank in (None, 2))
    assert forward_flops(whole, 5, n_ctx=3) - forward_flops(low, 5, n_ctx=3) == 2 * 3 * (64 - 2 * 2 * 8)


def test_heads_of_one_width_cost_the_same_and_a_window_less():
    few, many = (run({"n_heads": n}) for n in (2, "32-8"))
    assert few.budget.flops_per_example == many.budget.flops_per_example
    assert run({"windows": [8]}).budget.flops_per_example < few.budget.flops_per_example
    assert few.budget.flops_per_token == few.budget.flops_per_example / 128


def test_memory_of_states_by_hand():
    # With batches of almost nothing, weights, gradients and moments are left.
    small = {"batch_size": 1}
    adamw, muon = (
        run(training={**small, **optimizer}, n_ctx=1).budget.training_bytes
        for optimizer in ({}, {"optimizer": "muon", "adamw_learning_rate": 1e-3})
    )
    matrices = 2 * 12 * 64 * 64
    assert adamw - muon == 4 * matrices
    parameters = run().budget.n_parameters
    assert 16 * parameters < adamw < 16.1 * parameters


def test_memory_of_a_batch():
    base = run().budget.training_bytes
    state = 2 * base - run(training={"batch_size": 16}).budget.training_bytes
    assert run(training={"grad_accumulation": 4}).budget.training_bytes - state == pytest.approx((base - state) / 4)
    assert (base - state) / 2 < run(training={"precision": "bf16"}).budget.training_bytes - state < 0.7 * (base - state)


@pytest.mark.parametrize("parts", [1, 2])
def test_the_batch_that_would_fit_fits_and_no_larger_one(parts):
    asked = run(training={"batch_size": 64, "grad_accumulation": parts})
    fitting = asked.budget.fitting_batch(asked.budget.training_bytes // 2)
    assert 0 < fitting < 64
    assert fitting % parts == 0

    def needs(batch_size):
        return run(training={"batch_size": batch_size, "grad_accumulation": parts}).budget.training_bytes

    assert needs(fitting) <= asked.budget.training_bytes // 2 < needs(fitting + parts)
    assert asked.budget.fitting_batch(asked.budget.training_bytes) == 64
    assert asked.budget.fitting_batch(1000) is None
