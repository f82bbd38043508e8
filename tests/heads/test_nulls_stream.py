"""What the queries of untrained heads share, by the formula, against measured ones of six architectures."""

import numpy as np
import pytest
import torch
import transformers
from support.tolerance import nearly

import headway
from headway.config.lm.model import Gpt2, GptNeo, Llama
from headway.heads.measure import measure
from headway.heads.nulls import stream_null
from headway.hf import redraw
from headway.models.redraw import read
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights

VOCAB, LENGTH = 211, 96
OWN = {
    "gpt-2": Gpt2(family="gpt-2", d_model=96, n_layers=3, n_heads=6, n_positions=LENGTH),
    "gpt-neo": GptNeo(family="gpt-neo", d_model=64, n_layers=3, n_heads="2-8-16", n_positions=LENGTH),
    "llama": Llama(family="llama", d_model=64, n_layers=3, n_heads="8:2-4-2", n_positions=2 * LENGTH),
}
_wide = {
    "vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128,
    "max_position_embeddings": 2 * LENGTH,
}  # fmt: skip
THEIRS = {
    "gpt-neox": transformers.GPTNeoXConfig(**_wide),
    "qwen-2": transformers.Qwen2Config(**_wide, num_key_value_heads=2),
    "bert": transformers.BertConfig(**_wide),
}


def reading(name, seed):
    tokens = torch.randint(VOCAB, (6, LENGTH), generator=torch.Generator().manual_seed(seed))
    if name in OWN:
        module = Transformer(OWN[name], VOCAB, initial_weights(OWN[name], VOCAB, seed)).eval()
        return read(module, tokens)
    torch.manual_seed(seed)
    kind = transformers.AutoModelForMaskedLM if name == "bert" else transformers.AutoModelForCausalLM
    return redraw.read(kind.from_config(THEIRS[name]).eval(), tokens)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OWN, *THEIRS])
def test_untrained_heads_have_the_cka_of_the_formula(name):
    """Within .02 in every layer, in the mean of a few models."""
    differences = {}
    for seed in range(3):
        with torch.no_grad():
            found = reading(name, seed)
            scores = measure(found.trace, ["query_cka", "query_cka_centred"])
        for attention, x, turn in zip(found.trace.attentions, found.inputs, found.turns, strict=True):
            assert turn is not None
            expected = stream_null(x, torch.ones(x.shape[:2], dtype=torch.bool), turn)
            for metric, null in (("query_cka", expected.uncentred), ("query_cka_centred", expected.centred)):
                measured = scores[metric].per_layer()[attention.name]
                differences.setdefault((attention.name, metric), []).append(measured - null)
    for where, found in differences.items():
        spread = np.std(found) / len(found) ** 0.5
        assert abs(np.mean(found)) < 0.02 + 2 * spread, where
    assert abs(np.mean([value for found in differences.values() for value in found])) < 0.02


def test_without_turns_it_is_the_ratio_of_the_stream_and_the_head():
    x = torch.randn(2, 50, 20, generator=torch.Generator().manual_seed(0)) * torch.logspace(0, -1, 20)
    rows = x.flatten(0, 1).double()
    p = 6
    found = stream_null(x, torch.ones(2, 50, dtype=torch.bool), torch.full((50,), float(p)))
    for value, about in ((found.uncentred, rows), (found.centred, rows - rows.mean(0))):
        C = about.T @ about
        R = float(C.trace() ** 2 / C.square().sum())
        assert value == nearly(p / (p + R + 1))


def test_rows_that_do_not_count_are_in_no_null():
    x = torch.randn(1, 30, 8, generator=torch.Generator().manual_seed(0))
    counted = torch.arange(30)[None] < 20
    turn = torch.full((30,), 4.0)
    spoilt = x.clone()
    spoilt[:, 20:] = 1e3
    assert stream_null(spoilt, counted, turn) == stream_null(x[:, :20], counted[:, :20], turn)


def test_fewer_rows_stand_for_more():
    x = torch.randn(1, 900, 12, generator=torch.Generator().manual_seed(0))
    turn = torch.full((900,), 4.0)
    every = stream_null(x, torch.ones(1, 900, dtype=torch.bool), turn)
    some = stream_null(x[:, :300], torch.ones(1, 300, dtype=torch.bool), turn, n_rows=900)
    assert some.uncentred == pytest.approx(every.uncentred, abs=0.01)


def test_a_stream_of_zeros_has_no_null():
    """It has no directions that heads could share."""
    found = stream_null(torch.zeros(2, 5, 8), torch.ones(2, 5, dtype=torch.bool), torch.full((5,), 4.0))
    assert np.isnan([found.uncentred, found.centred]).all()


def test_normed_queries_have_no_formula():
    config = transformers.Qwen3Config(**_wide, num_key_value_heads=2, head_dim=16)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        found = headway.hf.read(model, torch.zeros((1, 5), dtype=torch.long))
    assert found.turns == (None, None, None)
