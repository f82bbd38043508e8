"""Circuits against their slow definitions: whole d_model x d_model matrices, one pair of heads at a time, numpy."""

import numpy as np
import pytest
import torch
from support.tolerance import assert_same, nearly

from headway.config.lm.model import Gpt2, GptNeo, Llama, Ranks
from headway.errors import UserError
from headway.heads.circuits import circuit_scores, circuits, gaussian_effective_rank
from headway.heads.token_circuits import compositions
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

SMALL = {"d_model": 24, "n_layers": 3, "n_positions": 32, "init_std": 0.2}
VOCAB = 37
MODELS = {
    "uniform": GptNeo(family="gpt-neo", **SMALL, n_heads=4),
    "ragged": GptNeo(family="gpt-neo", **SMALL, n_heads="3-12-24"),
    "grouped": Gpt2(family="gpt-2", **SMALL, n_heads="8:2-4:1-6:6"),
    "unequal groups, other widths": Gpt2(family="gpt-2", **SMALL, n_heads="4+3x4-1+2+1-2x9"),
    "heads wider than the stream": Gpt2(family="gpt-2", **SMALL, n_heads="2x30-1x24-2"),
    "layers without heads": GptNeo(family="gpt-neo", **SMALL, n_heads="6-0-3"),
    "lane": GptNeo(family="gpt-neo", **SMALL, n_heads=4, d_embed=10),
    "switched lane, untied": GptNeo(
        family="gpt-neo", **SMALL, n_heads=4, d_embed=10, lane="switched", tied=False, positions_in_lane=False
    ),
    "low rank": Gpt2(family="gpt-2", **SMALL, n_heads="2-4-8", ranks=Ranks(q=3, k="1-2-24", v=5, o=7)),
    "RMSNorm, untied": Llama(family="llama", **SMALL, n_heads="6:3-2-4"),
    "norms after": Gpt2(family="gpt-2", **SMALL, n_heads="2-4-2", norm_place="after"),
    "no norms": Gpt2(family="gpt-2", **SMALL, n_heads="2-4-2", norm="none", mlp="none", positions="none"),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def whole_of(factored):
    """Return the matrices themselves, heads x d_model x d_model."""
    return factored.left @ factored.right


def built(model, seed=0):
    """Biases and norms are no longer what they start as."""
    random = np.random.default_rng(seed)
    weights = initial_weights(model, VOCAB, seed)
    spread = {name: array + random.normal(0, 0.1, array.shape).astype(np.float32) for name, array in weights.items()}
    return Transformer(model, VOCAB, spread).eval()


def whole(module):
    """(layer, QK, OV, W_E, W_U) with whole matrices; the norms' weights and centring are folded in as matrices."""
    model, weights = module.model, {name: array.astype(np.float64) for name, array in module.weights().items()}
    d = model.d_model

    def matrix(name):
        if f"{name}.weight" in weights:
            return weights[f"{name}.weight"].T
        return (weights[f"{name}.second.weight"] @ weights[f"{name}.first.weight"]).T

    def fold(name):
        if model.norm_place == "after" or model.norm == "none":
            return np.eye(d)
        centre = np.eye(d) - (1 / d if model.norm == "layer" else 0)
        return centre @ np.diag(weights[f"{name}.weight"])

    folded = model.norm_place == "before" and model.norm == "layer"
    unseen = np.eye(d) - (1 / d if folded else 0)
    heads = []
    for layer, here in enumerate(model.layout.layers):
        kv_of = [kv for kv, count in enumerate(here.queries) for _ in range(count)]
        for head, kv in enumerate(kv_of):
            at, own, shared = (
                f"layers.{layer}",
                slice(head * here.d_head, (head + 1) * here.d_head),
                slice(kv * here.d_head, (kv + 1) * here.d_head),
            )
            into = fold(f"{at}.attention_norm")
            W_Q, W_K, W_V = (
                into @ matrix(f"{at}.attention.{x}")[:, columns]
                for x, columns in zip("qkv", (own, shared, shared), strict=True)
            )
            W_O = matrix(f"{at}.attention.o")[own] @ unseen
            heads.append((layer, W_Q @ W_K.T, W_V @ W_O))
    embed = model.embedding_width
    W_E, read = np.zeros((VOCAB, d)), np.zeros((d, VOCAB))
    W_E[:, :embed] = weights["embedding.weight"]
    spoken = weights["embedding.weight" if model.tied else "readout.weight"].T
    read[d - embed if model.lane == "switched" else 0 :][:embed] = spoken
    return heads, W_E, fold("norm") @ read


def singular(matrix):
    return np.linalg.svd(matrix, compute_uv=False)


def flat(score):
    return np.concatenate(list(score.values.values()))


@every_model
def test_circuits_are_the_whole_matrices(model):
    module = built(model)
    expected = whole(module)[0]
    found = [
        (here.layer, qk.numpy(), ov.numpy())
        for here in circuits(module)
        for qk, ov in zip(whole_of(here.qk), whole_of(here.ov), strict=True)
    ]
    assert [layer for layer, *_ in found] == [layer for layer, *_ in expected]
    for (_, qk, ov), (_, QK, OV) in zip(found, expected, strict=True):
        assert_same(qk, QK)
        assert_same(ov, OV)


@every_model
def test_singular_values_and_effective_rank(model):
    module = built(model)
    scores, heads = circuit_scores(module), whole(module)[0]
    for kind, at in (("qk", 1), ("ov", 2)):
        values = [singular(head[at]) for head in heads]
        ranks = []
        for value in values:
            share = value / value.sum()
            share = share[share > 1e-14]
            ranks.append(np.exp(-(share * np.log(share)).sum()))
        assert_same(flat(scores[f"{kind}_effective_rank"]), ranks)
        found = [row.numpy() for here in circuits(module) for row in getattr(here, kind).singular_values()]
        for few, all_ in zip(found, values, strict=True):
            assert_same(few, all_[: len(few)])
            assert_same(all_[len(few) :], 0, scale=few)


@every_model
def test_copying_score_is_that_of_the_token_to_token_matrix(model):
    module = built(model)
    heads, W_E, W_U = whole(module)
    eigenvalues = [np.linalg.eigvals(W_E @ OV @ W_U) for _, _, OV in heads]
    expected = [values.sum().real / np.abs(values).sum() for values in eigenvalues]
    assert_same(flat(circuit_scores(module)["copying_score"]), expected, dtype=np.float32)


@every_model
def test_compositions_are_frobenius_ratios_of_whole_matrices(model):
    module = built(model)
    found, heads = compositions(module), whole(module)[0]
    norm = np.linalg.norm
    assert len(found.heads) == len(heads)
    for i, (earlier, _, OV1) in enumerate(heads):
        for j, (later, QK2, OV2) in enumerate(heads):
            for table, read in ((found.q, QK2), (found.k, QK2.T), (found.v, OV2)):
                if earlier < later:
                    ratio = norm(OV1 @ read) / (norm(OV1) * norm(read))
                    assert_same(table[i, j], ratio)
                else:
                    assert np.isnan(table[i, j])


@pytest.mark.parametrize("name", ["uniform", "grouped", "RMSNorm, untied", "norms after", "no norms", "low rank"])
def test_circuits_are_what_the_model_does_to_its_stream(name):
    """Logits are x QK y^T and contributions sum p y OV, x and y the stream over its spread, its mean not taken out."""
    model = MODELS[name].model_copy(update={"biases": (), "positions": "none"})
    module = built(type(model).model_validate(model.model_dump()))
    for normed in [module.norm, *(layer.attention_norm for layer in module.layers)]:
        if getattr(normed, "bias", None) is not None and model.norm_place == "before":
            torch.nn.init.zeros_(normed.bias)
    module = module.double()
    tokens = torch.randint(0, VOCAB, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        trace = module.trace(tokens)
    for attention, circuit in zip(trace.attentions, circuits(module), strict=True):
        x = trace.streams[attention.layer]
        if model.norm_place == "before" and model.norm != "none":
            centred = x - x.mean(2, keepdim=True) if model.norm == "layer" else x
            x = x / (centred.square().mean(2, keepdim=True) + model.norm_eps).sqrt()
        logits = torch.einsum("bqm,hmn,bkn->bhqk", x, whole_of(circuit.qk), x) * attention.scale
        seen = attention.mask.expand_as(logits)
        assert_same(attention.logits()[seen], logits[seen])
        written = torch.einsum("bhqk,bkm,hmn->bhqn", attention.patterns(), x, whole_of(circuit.ov))
        expected = attention.contributions()
        if model.norm_place == "before" and model.norm == "layer":
            expected = expected - expected.mean(3, keepdim=True)
        assert_same(written, expected)


def test_even_singular_values_have_full_rank_and_one_direction_rank_one():
    model = Gpt2(family="gpt-2", d_model=16, n_layers=1, n_heads=4, norm="none", mlp="none")
    weights = initial_weights(model, VOCAB, 0)
    weights["layers.0.attention.q.weight"] = weights["layers.0.attention.k.weight"] = np.eye(16, dtype=np.float32)
    weights["layers.0.attention.v.weight"][:, 1:] = 0
    weights["layers.0.attention.o.weight"][:, :4] = 0
    scores = circuit_scores(Transformer(model, VOCAB, weights))
    assert_same(flat(scores["qk_effective_rank"]), 4)
    assert_same(flat(scores["ov_effective_rank"]), [np.nan, 1, 1, 1])
    assert np.isnan(flat(scores["copying_score"])[0])


@pytest.mark.parametrize(("sign", "score"), [(1, 1), (-1, -1)])
def test_a_head_that_copies_scores_one(sign, score):
    model = Gpt2(family="gpt-2", d_model=16, n_layers=1, n_heads=2, norm="none", mlp="none")
    weights = initial_weights(model, VOCAB, 0)
    weights["layers.0.attention.o.weight"] = sign * weights["layers.0.attention.v.weight"].T
    assert_same(flat(circuit_scores(Transformer(model, VOCAB, weights))["copying_score"]), score)


NULLS = {
    "plain": Gpt2(family="gpt-2", d_model=64, n_layers=2, n_heads="4-16"),
    "grouped, low rank": Gpt2(family="gpt-2", d_model=64, n_layers=2, n_heads="8:2-4", ranks=Ranks(q=5, v=9, o=3)),
    "RMSNorm": Llama(family="llama", d_model=64, n_layers=2, n_heads="8-4"),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", NULLS.values(), ids=NULLS)
def test_gaussian_heads_score_their_null(model):
    """Means over 40 models, by their own standard error; that of the simulated null is below a hundredth of it."""
    ratios, scores = [], []
    for seed in range(40):
        module = Transformer(model, VOCAB, initial_weights(model, VOCAB, seed))
        found = compositions(module)
        ratios.append([np.nanmean(table**2) for table in (found.q, found.k, found.v)])
        scores.append(circuit_scores(module))
    mean, error = np.mean(ratios, 0), np.std(ratios, 0, ddof=1) / np.sqrt(len(ratios))
    assert found.null**-2 == nearly(64 if model.norm == "rms" else 63)
    np.testing.assert_array_less(np.abs(mean - found.null**2), 4 * error)
    for metric in scores[0]:
        for name, null in scores[0][metric].null.items():
            means = [score[metric].values[name].mean() for score in scores]
            error = np.std(means, ddof=1) / np.sqrt(len(means))
            assert abs(np.mean(means) - null) < 4 * error + 0.005 * abs(null), (metric, name)


def test_the_null_of_compositions_holds_whatever_the_spectra():
    """Circuits with one large direction, turned at random: the mean square is 1 / d all the same."""
    random, d, squares = np.random.default_rng(0), 32, []
    for _ in range(2000):
        one, two = (np.linalg.qr(random.normal(size=(d, 6)))[0] * 0.5 ** np.arange(6) for _ in range(2))
        squares.append((np.linalg.norm(one.T @ two) / np.linalg.norm(one) / np.linalg.norm(two)) ** 2)
    error = np.std(squares) / np.sqrt(len(squares))
    assert abs(np.mean(squares) - 1 / d) < 4 * error


def test_null_of_effective_rank_is_that_of_whole_gaussian_products():
    random, expected = np.random.default_rng(0), []
    for _ in range(200):
        values = singular(random.normal(size=(48, 12)) @ random.normal(size=(12, 48)))[:12]
        share = values / values.sum()
        expected.append(np.exp(-(share * np.log(share)).sum()))
    assert gaussian_effective_rank(48, 12) == pytest.approx(np.mean(expected), rel=0.01)


def test_another_metric_is_an_error_that_names_a_near_one():
    with pytest.raises(UserError, match=r"copying_scor is not a metric of weights; did you mean copying_score\?"):
        circuit_scores(built(MODELS["uniform"]), ["copying_scor"])


def test_weights_that_hold_nan_are_named_by_layer():
    module = built(MODELS["uniform"])
    with torch.no_grad():
        module.layers[1].attention.v.weight[0, 0] = torch.nan
    with pytest.raises(UserError, match=r"attention weights of layer 1 hold NaN or infinity.*earlier checkpoint"):
        compositions(module)
    module = built(MODELS["uniform"])
    with torch.no_grad():
        module.embedding.weight[3, 0] = torch.inf
    with pytest.raises(UserError, match="embedding, the final norm or the read-out holds NaN or infinity"):
        circuit_scores(module)
