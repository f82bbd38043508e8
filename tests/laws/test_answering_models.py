"""Laws of models whose inputs or answers are no tokens: encoders, class tokens, read-outs of a width of their own."""

import numpy as np
import pytest
import torch
from support.drawn_transformers import GPT2, LLAMA
from support.tolerance import assert_same

from headway.config.lm.budget import parameters_by_part, parameters_of
from headway.config.lm.model import Gpt2, GptNeo, Llama
from headway.errors import UserError
from headway.hf.write import export
from headway.models.attention import KVCache, smeared
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights, vocab_size_of

N_INPUTS, LENGTH = 7, 20
ANSWERING = {
    "narrow read-out": Gpt2(**GPT2, n_heads="3-2-1", readout=2, tied=False),
    "wide read-out": Llama(**LLAMA, n_heads=4, readout=40),
    "class token": Gpt2(**GPT2, n_heads=4, class_token=True),
    "class token, joint": Gpt2(
        **GPT2, n_heads=4, class_token=True, positions="joint", tied=False, readout=3, residual=False, mlp="none"
    ),
    "encoder": Gpt2(**GPT2, n_heads=4, encoder=9, tied=False, readout=1),
    "all of them": Gpt2(
        **GPT2, n_heads="2-4-1", encoder=5, class_token=True, tied=False, readout=1, residual=False, norm="none",
        positions="none", mlp="gelu", d_mlp=32,
    ),
}  # fmt: skip
every_model = pytest.mark.parametrize("model", ANSWERING.values(), ids=ANSWERING)


def weights_of(model):
    random = np.random.default_rng(0)
    weights = initial_weights(model, N_INPUTS, 0)
    return {name: array + random.normal(0, 0.1, array.shape).astype(np.float32) for name, array in weights.items()}


def built(model, **changed):
    return Transformer(model, N_INPUTS, weights_of(model) | changed).eval()


def inputs_of(model):
    random = torch.Generator().manual_seed(1)
    if model.encoder is not None:
        return torch.randn(2, LENGTH, N_INPUTS, generator=random)
    return torch.randint(0, N_INPUTS, (2, LENGTH), generator=random)


@every_model
def test_the_answers_are_as_wide_as_the_read_out(model):
    logits, trace = built(model)(inputs_of(model), record=True)
    assert logits.shape == (2, LENGTH + model.class_token, model.readout or N_INPUTS)
    assert torch.equal(logits, built(model)(inputs_of(model))[0])
    assert [a.z.shape[2] for a in trace.attentions] == [LENGTH + model.class_token] * model.n_layers


@every_model
def test_counted_parameters_are_the_built_ones(model):
    module = built(model)
    assert sum(parameters_by_part(model, N_INPUTS).values()) == sum(p.numel() for p in module.parameters())
    assert {n: tuple(p.shape) for n, p in module.named_parameters()} == {
        p.name: p.shape for p in parameters_of(model, N_INPUTS)
    }
    assert vocab_size_of(model, module.weights()) == N_INPUTS


@every_model
def test_a_later_input_changes_no_earlier_answer_and_the_class_token_sees_all(model):
    module, inputs = built(model), inputs_of(model)
    changed = inputs.clone()
    changed[:, 11] = changed[:, 11] + 1 if model.encoder is not None else (changed[:, 11] + 1) % N_INPUTS
    before, after = (module(x)[0].detach() for x in (inputs, changed))
    assert torch.equal(before[:, :11], after[:, :11])
    assert not torch.allclose(before[:, -1], after[:, -1], atol=1e-6)


@every_model
def test_such_models_are_not_exported_and_do_not_write(model, tmp_path):
    with pytest.raises(UserError, match="neither transformers nor Headway's exported code has a model"):
        export(model, N_INPUTS, weights_of(model), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="does not read and write tokens"):
        built(model)(inputs_of(model), cache=KVCache(model, 64, batch=2))


def test_without_a_residual_stream_what_is_written_is_the_stream():
    model = Gpt2(**GPT2, n_heads=4, residual=False)
    module, tokens = built(model), inputs_of(model)
    trace = module.trace(tokens)
    stream = trace.streams[1]
    layer = module.layers[0]
    written = layer.attention(layer.attention_norm(trace.streams[0]))[0]
    assert_same(stream, layer.mlp(layer.mlp_norm(written)))


def test_joint_embeddings_are_a_row_for_each_token_at_each_position():
    model = Gpt2(**GPT2, n_heads=4, positions="joint", tied=False)
    module = built(model)
    tokens = inputs_of(model)
    rows = module.embedding.weight.view(model.n_positions, N_INPUTS, -1)
    expected = torch.stack([rows[at, tokens[:, at]] for at in range(LENGTH)], 1)
    assert torch.equal(module.entered(tokens), expected)


def test_smeared_keys_by_their_definition():
    k, smear = torch.randn(2, 3, 5, 4), torch.tensor([0.0, 20.0, -20.0])
    found = smeared(k, smear)
    assert_same(found[:, 0, 1:], (k[:, 0, 1:] + k[:, 0, :-1]) / 2)
    assert_same(found[:, 1], k[:, 1])
    assert_same(found[:, 2, 1:], k[:, 2, :-1])
    assert torch.equal(found[:, :, 0], k[:, :, 0])
    assert (
        initial_weights(Gpt2(**GPT2, n_heads=3, smeared_keys=True), 5, 0)["layers.0.attention.smear"].tolist()
        == [0] * 3
    )


def test_inputs_of_another_kind_are_refused():
    with pytest.raises(UserError, match=r"it reads a tensor of numbers, \(batch, pos, 7\)"):
        built(ANSWERING["encoder"])(torch.zeros(2, 5, dtype=torch.long))
    with pytest.raises(UserError, match="reads a tensor of whole numbers"):
        built(ANSWERING["narrow read-out"])(torch.zeros(2, 5, 7))


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"readout": 2}, "readout 2 was given, but tied makes the token embedding the read-out; set tied to false"),
        ({"encoder": 8}, "encoder 8 was given, but tied makes"),
        ({"positions": "joint"}, "has several vectors for a token, so it cannot be the read-out"),
        ({"positions": "joint", "tied": False, "encoder": 8}, "positions joint needs tokens"),
        ({"class_token": True, "mask": "future", "windows": [None]}, "with mask future it sees none of them"),
    ],
)
def test_choices_that_contradict_each_other_are_refused(choices, said):
    with pytest.raises(ValueError, match=said):
        GptNeo(family="gpt-neo", d_model=8, n_layers=1, n_heads=1, **choices)


def test_a_copying_score_needs_tokens_for_answers():
    from headway.heads.circuits import circuit_scores

    with pytest.raises(UserError, match="does not embed the tokens that it answers with"):
        circuit_scores(built(ANSWERING["narrow read-out"]), ["copying_score"])
