"""Patching a model from the outside: by tokens, in words and JSON, and what is refused."""

import json

import planted
import pytest
import torch

import headway
from headway.errors import UserError


def pair(seed=0):
    model, heads = planted.planted(seed)
    clean, targets, other = planted.texts(seed)
    corrupted = clean.clone()
    corrupted[:, : planted.PERIOD] = other[:, : planted.PERIOD]
    right = targets[:, -1]
    return model, heads, clean.numpy(), corrupted.numpy(), lambda logits: logits[torch.arange(len(right)), -1, right]


def test_the_planted_head_restores_most_and_is_named():
    model, (_, second), clean, corrupted, metric = pair()
    found = headway.patch(model, clean, corrupted, metric=metric, sites=("z", "k"), paths=True)
    assert found.heads[int(found.restored("z").argmax())] == second
    name = f"L{second[0]}H{second[1]}"
    assert found.sentences[1].startswith(f"z as on the clean text restores of that difference: {name} ")
    assert set(found.effects) == {"z", "k"}
    written = json.loads(json.dumps(found.to_json()))
    assert written["heads"][0] == "L0H0"
    assert len(written["paths"]["through"]["k"]) == len(found.heads)


def test_where_the_texts_do_not_differ_no_head_restores_anything():
    model, _, clean, corrupted, _ = pair()
    sign = torch.tensor([1.0, -1.0]).repeat(len(clean))[: len(clean)]
    found = headway.patch(model, clean, corrupted, metric=lambda x: sign.to(x) * 1e-3 + 0 * x[:, -1, 0], sites=("z",))
    assert found.sentences[1:] == (
        "that difference is not told from none over the examples, so there is nothing to be restored",
    )


def test_by_position_there_is_a_number_for_each():
    model, _, clean, corrupted, metric = pair()
    found = headway.patch(model, clean[:2], corrupted[:2], metric=lambda x: x[:, -1, 0], sites="z", by_position=True)
    assert found.effects["z"].shape == (len(found.heads), clean.shape[1], 2) == found.estimates["z"].shape
    assert found.paths is None
    assert metric is not None


def test_what_is_refused_is_said():
    model, _, clean, corrupted, metric = pair()
    with pytest.raises(UserError, match="sites: 'x' is nothing of a head that can be patched; choose from: "):
        headway.patch(model, clean, corrupted, metric=metric, sites=("x",))
    with pytest.raises(UserError, match="clean: a text was given, and the model has no tokenizer; give tokens, or a"):
        headway.patch(model, "once", "upon", metric=metric)


def test_a_circuit_is_told_beside_random_ones():
    model, heads = planted.planted(1)
    inputs, targets, other = planted.texts(1)
    names = [f"L{layer}H{head}" for layer, head in heads]
    found = headway.circuit(
        model, names, text=inputs.numpy(), targets=targets.numpy(), reference=other[:, :-1].numpy(), draws=9
    )
    assert found.share > 0.9
    assert len(found.random_shares) == 9
    assert found.to_json()["heads"] == names
    with pytest.raises(UserError, match="heads: 'one' is no head; write L0H3, layer and head from 0"):
        headway.circuit(model, ["one"], text=inputs.numpy())
    with pytest.raises(UserError, match="kind 'gone' is no way to take heads away"):
        headway.circuit(model, names, text=inputs.numpy(), kind="gone")  # type: ignore[arg-type]
