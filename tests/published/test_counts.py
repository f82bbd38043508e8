"""Published numbers of parameters, to the unit, from declarations alone."""

from typing import get_args

import pytest

from headway.config.lm.budget import parameters_by_part
from headway.config.lm.model import Gpt2, GptNeo, Llama, TransformerModel
from headway.config.load import load

DATA_LANE = {
    "plain-eighth": (5_467_680, "NoDL-96-96-5.5M"),
    "plain-half": (27_179_136, "NoDL-384-384-27M"),
    "plain-full": (68_514_048, "NoDL-768-768-69M"),
    "lane-half": (49_215_360, "DL-768-384-49M"),
    "lane-quarter": (39_566_016, "DL-768-192-40M"),
    "lane-eighth": (34_741_344, "DL-768-96-35M"),
    "switched-quarter": (39_566_016, "SwDL-768-192-40M"),
    "lane-half+positions-outside-lane": (48_428_928, None),
    "lane-quarter+positions-outside-lane": (38_386_368, None),
    "lane-eighth+positions-outside-lane": (33_365_088, None),
}
LOW_RANK = {
    "full": 27_179_136,
    "sa-mlp-large": 27_176_064,
    "sa-small": 25_053_312,
    "mlp-small": 22_936_704,
    "both-small": 20_810_880,
    "both-small-deep": 21_535_872,
    "inc-sa": 25_357_440,
    "dec-sa": 25_357_440,
    "inc-mlp": 23_497_344,
    "dec-mlp": 23_497_344,
}
HEADS = {
    "ascending-low": (3, 6, 12, 24),
    "constant-low": (12,) * 4,
    "descending-low": (24, 12, 6, 3),
    "ascending-medium": (6, 12, 24, 48),
    "constant-medium": (24,) * 4,
    "descending-medium": (48, 24, 12, 6),
    "ascending-high": (12, 24, 48, 96),
    "constant-high": (48,) * 4,
    "descending-high": (96, 48, 24, 12),
    "constant-tenth": (16,) * 4,
}


def counted(name, arm):
    return load(name, scale="paper").arm(arm).spec(0).budget.n_parameters


@pytest.mark.parametrize("arm", DATA_LANE)
def test_data_lanes(arm):
    count, label = DATA_LANE[arm]
    assert counted("data-lane", arm) == count
    assert label in (None, load("data-lane", scale="paper").arm(arm).label)


@pytest.mark.parametrize("arm", LOW_RANK)
def test_low_ranks(arm):
    assert counted("low-rank", arm) == LOW_RANK[arm]


@pytest.mark.parametrize("arm", HEADS)
def test_head_progressions(arm):
    declared = load("head-progression", scale="paper").arm(arm)
    assert declared.resolved_spec.model.layout.n_heads == HEADS[arm]
    assert declared.label == "-".join(map(str, HEADS[arm]))
    assert declared.resolved_spec.budget.n_parameters == 68_514_048


def test_the_formula_of_plain_gpt_neo():
    for arm in ("plain-quarter", "plain-three-quarters"):
        d = load("data-lane", scale="paper").arm(arm).resolved_spec.model.d_model
        assert counted("data-lane", arm) == 50_257 * d + 2048 * d + 4 * (12 * d * d + 10 * d) + 2 * d


OPENELM = {"n_heads": "openelm(0.5, 1.0)", "d_head": 64, "d_mlp": "openelm(0.5, 4.0)", "tied": True}
OPT = {"n_positions": 2050, "mlp": "relu", "biases": ("qkv", "output", "mlp")}  # its positions begin at 2
PUBLISHED = {
    "gpt2": (Gpt2, 50257, 768, 12, 12, {}, 124_439_808),
    "gpt-neo-125m": (GptNeo, 50257, 768, 12, 12, {}, 125_198_592),
    "gpt2-medium": (Gpt2, 50257, 1024, 24, 16, {}, 354_823_168),
    "gpt2-large": (Gpt2, 50257, 1280, 36, 20, {}, 774_030_080),
    "gpt2-xl": (Gpt2, 50257, 1600, 48, 25, {}, 1_557_611_200),
    "opt-1.3b": (TransformerModel, 50272, 2048, 24, 32, OPT, 1_315_758_080),
    "opt-6.7b": (TransformerModel, 50272, 4096, 32, 32, OPT, 6_658_473_984),
    "llama-7b": (Llama, 32000, 4096, 32, 32, {"d_mlp": 11008}, 6_738_415_616),
    # 271,527,168 with its norms of queries and keys, two of 64 numbers in each of 16 layers.
    "openelm-270m": (Llama, 32000, 1280, 16, 0, OPENELM, 271_527_168 - 16 * 2 * 64),
}
"""Family, vocabulary, d_model, layers, heads, other choices, and the parameters that the authors tell.

Papers: Radford et al. 2019 (GPT-2); Black et al. 2021 (GPT-Neo); Zhang et al. 2022 (OPT, arXiv 2205.01068); Touvron et
al. 2023 (Llama, arXiv 2302.13971); Mehta et al. 2024 (OpenELM, arXiv 2404.14619).
"""


def parts(name):
    family, vocab_size, d_model, n_layers, n_heads, more, _ = PUBLISHED[name]
    named = {"family": get_args(family.model_fields["family"].annotation)[0]} if "family" in family.model_fields else {}
    sizes = {"d_model": d_model, "n_layers": n_layers, "n_heads": n_heads}
    return parameters_by_part(family(**sizes | named | more), vocab_size)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_shapes(name):
    assert sum(parts(name).values()) == PUBLISHED[name][-1]


def test_the_share_of_the_token_embedding_of_gpt2():
    assert parts("gpt2")["embedding"] / PUBLISHED["gpt2"][-1] == pytest.approx(0.31, abs=0.005)
