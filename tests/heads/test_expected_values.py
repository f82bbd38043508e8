"""Nulls: Gaussian heads score them within their error; published values of even and of Gaussian attention."""

import math

import numpy as np
import pytest
import torch
from support.head_definitions import attention, causal, of
from support.measuring import measure

from headway.config.head_metrics import HEAD_METRICS
from headway.heads.expected_values import (
    gaussian_attention,
    gaussian_cka,
    gaussian_excess,
    normal_excess,
    spectral_cka,
)
from headway.models.trace import AttentionTrace

NAME = "layers.0.attention"


def gaussian(heads=6, d_head=8, length=160, batch=2, spread=1.0, seed=0, colour=None, **given):
    """Independent heads; `colour` multiplies the coordinates, which gives them a spectrum."""
    random = torch.Generator().manual_seed(seed)
    q, k, v, z = (torch.randn(batch, heads, length, d_head, generator=random) for _ in range(4))
    colour = torch.ones(d_head) if colour is None else colour
    W_O = torch.randn(heads, d_head, heads * d_head, generator=random)
    return AttentionTrace(
        name=NAME, layer=0, kind="self", q=q * colour, k=k, v=v, z=z * colour, kv_of=tuple(range(heads)), W_O=W_O,
        b_O=None, scale=spread / math.sqrt(d_head), mask=causal(length, length), **given,
    )  # fmt: skip


def between(score):
    pairs = np.triu_indices(len(score.values[NAME]), 1)
    return score.values[NAME][pairs], np.broadcast_to(score.null[NAME], score.values[NAME].shape)[pairs]


@pytest.mark.parametrize("d_head", [2, 8, 32])
def test_gaussian_heads_have_the_cka_of_their_null(d_head):
    scores = measure(of(gaussian(d_head=d_head)))
    for name in ("query_cka", "context_cka", "query_cka_centred", "context_cka_centred"):
        values, null = between(scores[name])
        error = 4 * values.std() / math.sqrt(len(values))
        assert abs(values.mean() - null.mean()) < max(error, 0.03 * null.mean()), name


def test_heads_with_a_spectrum_have_the_cka_of_theirs():
    """A few strong directions make independent heads look more alike than Gaussian ones."""
    scores = measure(of(gaussian(d_head=16, heads=10, colour=torch.logspace(0, 1, 16))))
    values, null = between(scores["query_cka_centred"])
    assert values.mean() == pytest.approx(null.mean(), rel=0.1)
    assert values.mean() < 0.8 * between(scores["query_cka"])[1].mean()


def test_the_null_of_the_spectrum_is_that_of_gaussian_heads_for_gaussian_heads():
    n, p = 400, 8
    x = torch.randn(n, 2 * p, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gram = (x.T @ x).view(2, p, 2, p)
    rows = torch.tensor(float(n)).double()
    there = spectral_cka(gram, x.sum(0).view(2, p), rows)
    assert float(there[0, 1]) == pytest.approx(float(gaussian_cka(torch.ones(2, p), rows)), rel=0.03)


def test_gaussian_heads_do_not_agree():
    """The cosines of contexts vary by 1 / sqrt(n d_head), and those of contributions somewhat more."""
    scores = measure(of(gaussian(heads=8, d_head=8)))
    for name in ("context_dissimilarity", "output_dissimilarity"):
        values, null = between(scores[name])
        assert (null == 0).all()
        assert values.std() == pytest.approx(1 / math.sqrt(320 * 8), rel=0.8)
        assert abs(values.mean()) < 0.01
    for name in ("disagreement_subspace", "disagreement_output"):
        assert float(scores[name].values[NAME]) == pytest.approx(float(scores[name].null[NAME]), abs=0.01)
        assert float(scores[name].null[NAME]) == pytest.approx(-1 / 8)


def test_sharing_values_lowers_the_null_of_their_disagreement():
    scores = measure(of(attention(heads=4, kv_of=(0, 0, 0, 1), mask=causal())), ["disagreement_subspace"])
    assert float(scores["disagreement_subspace"].null[NAME]) == pytest.approx(-(9 + 1) / 16)


@pytest.mark.parametrize(("length", "published"), [(64, 0.060), (256, 0.0235)])
def test_published_nulls_of_attention_diversity(length, published):
    reach = {(m, length): 1.0 for m in range(1, length + 1)}
    found = gaussian_attention(HEAD_METRICS["attention_diversity"].value, reach, torch.ones(1), 64)
    assert float(found[0]) == pytest.approx(published, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("d_head", [4, 8])
def test_the_null_is_that_of_drawn_queries_and_keys(d_head):
    """At a spread of the table and at two between; means of 160,000 queries have a standard error of 0.5 %."""
    random = torch.Generator().manual_seed(0)
    m = [2, 8, 32, 128, 256]
    drawn: dict[float, list] = {1.0: [], 1.09: [], 1.19: []}
    for _ in range(160):
        q, k = torch.randn(1000, d_head, 1, generator=random), torch.randn(1000, 256, d_head, generator=random)
        logits = (k @ q)[..., 0] / math.sqrt(d_head)
        for spread, means in drawn.items():
            patterns = [torch.softmax(spread * logits[:, :n], 1) for n in m]
            means.append([n * float(p.square().sum(1).mean()) - 1 for n, p in zip(m, patterns, strict=True)])
    for spread, means in drawn.items():
        expected = np.mean(means, axis=0)
        np.testing.assert_allclose(gaussian_excess(spread, d_head, np.array(m)), expected, rtol=0.02)


@pytest.mark.parametrize("s", [2.0**-6, 0.3, 1.0, 4.0, 100.0])
def test_the_excess_of_two_normal_logits(s):
    """They differ by D = N(0, 2 s^2), and 2 sum p^2 - 1 = tanh(D / 2)^2."""
    x = np.linspace(-9, 9, 200_001)
    density = np.exp(-np.square(x) / 2)
    expected = density @ np.square(np.tanh(math.sqrt(2) * s * x / 2)) / density.sum()
    assert float(normal_excess(s, np.array([2.0]))[0]) == pytest.approx(expected, rel=1e-6)


def test_a_null_between_the_spreads_of_its_table_is_the_integral():
    """The queries of a wide head are all of one length."""
    m = np.array([2, 5, 11, 100, 512, 30_000])
    for spread in (0.001, 0.02, 1.09, 1.19, 2.6, 5.0, 60.0):
        expected = normal_excess(spread, m.astype(float))
        np.testing.assert_allclose(gaussian_excess(spread, 10**8, m), expected, rtol=1e-3, err_msg=str(spread))


@pytest.mark.parametrize("d_head", [1, 2, 64, 1024])
def test_the_flattest_and_the_sharpest_logits_have_their_limits(d_head):
    m = np.arange(1, 301)
    np.testing.assert_allclose(gaussian_excess(1e-3, d_head, m), 1e-6 * (1 - 1 / m), rtol=1e-3)
    sharpest = gaussian_excess(1e3, d_head, m)
    assert (sharpest <= m - 1 + 1e-9).all()
    assert sharpest[-1] > 0.9 * 299
    assert (gaussian_excess(0.0, d_head, m) == 0).all()
    assert np.isnan(gaussian_excess(math.nan, d_head, m)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("window", "spread", "d_head"), [(None, 0.3, 64), (None, 3.0, 4), (20, 1.0, 4), (20, 3.0, 64)])
def test_gaussian_attention_scores_its_null(window, spread, d_head):
    trace = gaussian(heads=24, d_head=d_head, length=128, batch=4, spread=spread)
    if window is not None:
        trace = AttentionTrace(**{**trace.__dict__, "mask": causal(128, 128, window=window)})
    for name in ("attention_variance_raw", "attention_diversity", "attention_excess"):
        score = measure(of(trace), [name])[name]
        assert score.null[NAME].shape == (24,)
        assert score.values[NAME].mean() == pytest.approx(score.null[NAME].mean(), rel=0.05), name


def test_a_head_more_even_than_chance_is_below_its_null():
    """The null has the spread of the logits; a head whose logits are one far key is above it."""
    trace = gaussian(heads=2, length=64)
    sharp = trace.k.clone()
    sharp[:, :, 0] *= 12
    score = measure(of(AttentionTrace(**{**trace.__dict__, "k": sharp})), ["sink_score", "attention_diversity"])
    assert (score["sink_score"].values[NAME] > 3 * score["sink_score"].null[NAME]).all()


def test_published_variances_of_an_even_causal_head():
    """T = 255, as the article computes them and as its code does."""
    even = attention(heads=2, queries=255, keys=255, batch=1, mask=causal(255, 255))
    even = AttentionTrace(**{**even.__dict__, "q": torch.zeros_like(even.q)})
    scores = measure(of(even), ["attention_variance_raw", "attention_variance_published"])
    assert scores["attention_variance_raw"].values[NAME] == pytest.approx([7.8746e-5] * 2, rel=1e-4)
    assert scores["attention_variance_published"].values[NAME] == pytest.approx([6.3987e-5] * 2, rel=1e-4)
