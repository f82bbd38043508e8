"""What stands out among heads, from scores whose answers are known, beside draws of heads that learnt nothing."""

from dataclasses import replace

import numpy as np
import pytest
from support.fabricate_scores import composition, names, scores
from support.tolerance import assert_same

from headway.base import words
from headway.heads.findings import SPECIAL, findings
from headway.heads.scores import HeadScores, row_labels

DRAWS = 16


def planted(metric, values, untrained=0.05, spread=0.02):
    """Scores of heads by layer, beside draws about a number; a dictionary of names gives another number for a layer."""
    random = np.random.default_rng(0)
    arrays = {name: np.array(value) for name, value in zip(names(values), values, strict=True)}
    draws = {name: random.normal(untrained, spread, (DRAWS, *value.shape)) for name, value in arrays.items()}
    draws = {name: np.abs(drawn - drawn.mean() + untrained) for name, drawn in draws.items()}
    return {metric: HeadScores(metric=metric, values=arrays, draws=draws, n_rows=9)}


def pairs(metric, value, untrained=0.0, spread=0.02, seed=0):
    random = np.random.default_rng(seed)
    drawn = random.normal(untrained, spread, (DRAWS, *value.shape))
    drawn = (drawn + drawn.swapaxes(1, 2)) / 2
    return {metric: HeadScores(metric=metric, values={"layers.0.a": value}, draws={"layers.0.a": drawn}, n_rows=9)}


COUNTS = {"differ", "none_differ"}


def kinds(finding):
    return {each.kind for each in finding.statements}


def looked_for(found, **options):
    labels = row_labels(next(iter(found.values())).values)
    return [each for each in findings(found, labels, **options) if kinds(each).isdisjoint(COUNTS)]


def counts(found):
    labels = row_labels(next(iter(found.values())).values)
    (only,) = [each for each in findings(found, labels) if not kinds(each).isdisjoint(COUNTS)]
    return only


def said(found, **options):
    return [finding.sentence for finding in looked_for(found, **options) if finding.found]


def test_special_heads_are_named_with_what_untrained_ones_show():
    one = planted("induction_score", [[0.01, 0.02], [0.893, 0.1]])
    assert said(one) == [
        "Induction heads on repeated random tokens (1): L1H0. The share of attention on the token after the "
        "first copy of the current token is 89 % (random heads 5 %)."
    ]
    (finding,) = looked_for(one)
    assert finding.p < 1e-3
    assert finding.heads == ("L1H0",)
    assert [head for _, head in finding.parts if head] == ["L1H0"]
    many = planted("previous_token_score", [[0.5, 0.9, 0.6], [0.7, 0.8, 0.95, 0.2]], untrained=0.02, spread=0.005)
    assert said(many) == [
        "Previous-token heads (6): L1H2, L0H1, L1H1, L1H0, L0H2 and 1 more. The share of attention on the previous "
        "token is 50 % to 95 % (random heads 2 %)."
    ]
    assert said(planted("sink_score", [[0.6, 0.7]]))[0].startswith(
        "First-token heads (2): L0H1 and L0H0. The share of attention on the first token is 60 % to 70 % (random"
    )


def test_heads_that_reach_it_and_may_be_chance_are_named_as_that():
    """Of a layer whose untrained heads reach 0.6 now and then, beside one where none does."""
    one = planted("previous_token_score", [[0.5, 0.1], [0.9, 0.1]], untrained=0.05, spread=0.02)
    (score,) = one.values()
    loose = np.abs(np.random.default_rng(1).normal(0.4, 0.1, (DRAWS, 2)))
    score.draws[next(iter(score.draws))] = loose
    (sentence,) = said(one)
    assert sentence.startswith(
        "Previous-token heads (1): L1H0. The share of attention on the previous token is 90 % (random heads 5 %). "
    )
    assert sentence.endswith(" Scores that may be due to chance (compared with 16 random copies): L0H0 50 %.")


def test_a_head_that_untrained_ones_can_be_is_not_special():
    (finding,) = looked_for(planted("previous_token_score", [[0.5, 0.45]], untrained=0.4, spread=0.1))
    assert not finding.found
    assert finding.sentence == (
        "Previous-token heads: no clear case. The highest score is 50.0 % (L0H0). Threshold: 40 %. Random "
        "heads score 40 % on average. Random heads could reach this score by chance."
    )
    (finding,) = looked_for(planted("positional_score", [[0.85, 0.2]]))
    assert not finding.found
    assert finding.sentence == (
        "Neighbour heads: none. The highest score is 85.0 % (L0H0), below the threshold of 90 %. Random heads "
        "score 5 % on average."
    )


def test_without_draws_no_head_stands_out():
    score = HeadScores(metric="sink_score", values={"layers.0.a": np.array([0.99, 0.1])}, n_rows=9)
    (finding,) = looked_for({"sink_score": score})
    assert not finding.found
    assert finding.p == 1
    assert finding.statements[0].kind == "no_clear_special"


def with_ends(found, half, **changes):
    """The same scores with intervals of this half width."""
    return {
        metric: replace(
            score, interval={name: np.stack((v - half, v + half)) for name, v in score.values.items()}, **changes
        )
        for metric, score in found.items()
    }


def test_a_role_is_named_by_its_interval():
    """And no head is said to fall short of a number that its rounded score reaches."""
    below = planted("positional_score", [[0.8997, 0.2]])
    (finding,) = looked_for(below)
    assert finding.sentence.startswith("Neighbour heads: none. The highest score is 89.9 % (L0H0), below the ")
    (finding,) = looked_for(with_ends(below, 0.02))
    assert finding.sentence.startswith("Neighbour heads: no clear case. The highest score is 89.9 % (L0H0)")
    assert " The 95 % CI of the score is 88 % to 92 %. " in finding.sentence
    above = planted("positional_score", [[0.91, 0.93, 0.98]])
    (sentence,) = said(with_ends(above, 0.02))
    assert sentence.startswith("Neighbour heads (2): L0H2 and L0H1. The share of positions attending ")
    assert sentence.endswith(
        " The 95 % CIs of these scores lie above 91 %. Heads not clearly above the threshold of 90 %: L0H0 91 %."
    )
    (finding,) = looked_for(with_ends(planted("positional_score", [[0.91, 0.2]]), 0.02))
    assert not finding.found


def both(drawn, own, by_place=0.1):
    """Induction on repeated tokens and on repeats within the text."""
    of_text = planted("text_induction_score", own, untrained=0.1)
    placed = {name: np.full(len(value), by_place) for name, value in of_text["text_induction_score"].values.items()}
    return planted("induction_score", drawn) | with_ends(of_text, 0.02, by_place=placed)


def test_an_induction_head_is_looked_for_on_drawn_repeats_and_on_the_text():
    (finding,) = looked_for(both([[0.03, 0.02]], [[0.95, 0.1]]))
    assert finding.about == "text_induction_score"
    assert finding.sentence == (
        "Induction heads on repeats within the text (1): L0H0. The share of attention on tokens after earlier "
        "copies of the current token is 95 % (random heads 10 %). The 95 % CI of the score is 93 % to 97 %. "
        "A purely positional head would score 10 %. Induction heads on repeated random tokens: none. The highest "
        "score is 3.0 % (L0H0), below "
        "the threshold of 40 %. Random heads score 5 % on average."
    )
    (finding,) = looked_for(both([[0.03, 0.02]], [[0.15, 0.1]]))
    assert not finding.found
    assert [each.kind for each in finding.statements] == [
        "no_special", "untrained", "no_special", "interval", "untrained", "by_place",
    ]  # fmt: skip
    (finding,) = looked_for(planted("induction_score", [[0.03, 0.02]]))
    assert finding.sentence.startswith("Induction heads on repeated random tokens: none.")


def test_a_head_that_looks_where_any_text_repeats_is_no_induction_head():
    (finding,) = looked_for(both([[0.03, 0.02]], [[0.55, 0.1]], by_place=0.5))
    assert not finding.found
    assert "Induction heads on repeats within the text: no clear case. The highest score is 55.0 % (L0H0)" in (
        finding.sentence
    )
    assert finding.sentence.endswith(" A purely positional head would score 50 %.")


def test_what_no_head_can_see_is_not_looked_for():
    score = planted("induction_score", [[np.nan, np.nan]])
    assert looked_for(score) == []


def test_alike_heads_are_named():
    value = np.array([[1, 0.1, 0.83], [0.1, 1, 0], [0.83, 0, 1]])
    assert said(pairs("output_correlation", value)) == [
        "Similar outputs (centred cosine): L0H0 and L0H2 (0.83). The mean over all pairs of heads (3) is 0.31 (random "
        "heads 0.00)."
    ]
    assert said(pairs("output_correlation", value, spread=0.8)) == []
    assert said(pairs("query_cka_centred", value, untrained=0.3)) == [
        "Similar queries (CKA): L0H0 and L0H2 (0.83). The mean over all pairs of heads (3) is 0.31 (random heads 0.30)."
    ]


def test_a_head_that_adds_a_constant_is_said_to_be_so_and_is_like_no_other():
    value = np.array([[1, 0.1, 0.83], [0.1, 1, 0], [0.83, 0, 1]])
    share = HeadScores(metric="output_constant_share", values={"layers.0.a": np.array([0.96, 0.2, 0.5])}, n_rows=9)
    (finding,) = looked_for(pairs("output_correlation", value) | {share.metric: share})
    assert not finding.found
    assert finding.sentence == ("Heads with nearly constant output (90 % of its squared norm or more): L0H0 96 %.")


def test_idle_heads_are_named():
    """Heads of a layer at random have about as much, so a fiftieth is far from chance."""
    shares = planted("output_share", [[0.6, 0.395, 0.005], [0.4, 0.3, 0.3]], untrained=1 / 3, spread=0.03)
    assert said(shares) == ["Idle heads (share of the layer's output): L0H2 0.5 % (equal share 33.3 %)."]
    assert said(planted("output_share", [[0.6, 0.395, 0.005]], untrained=0.33, spread=0.33)) == []


def test_a_layer_that_adds_nothing_is_named():
    found = planted("output_share", [[0, 0], [0.6, 0.4]], untrained=0.5)
    assert said(found) == ["The heads of L0 add nothing to the residual stream."]


def test_a_single_head_has_no_pair_and_is_not_idle():
    found = scores((1,), ["output_correlation"])
    assert said(found | planted("output_share", [[1.0]])) == []


def test_the_strongest_compositions_are_named_where_they_stand_out():
    found = composition()
    labels = row_labels(name for name, _ in found.heads)
    (finding,) = findings({}, labels, composition=found)
    assert finding.about == "k_composition"
    assert finding.sentence == (
        "Pairs of heads with above-chance K-composition (into keys): 1. Strongest: L0H1 → L1H0 0.60 (60 %). "
        "Numbers are composition scores of the weights. In parentheses: the share of the later head's attention score "
        "that comes from the earlier head. Randomly rotated circuits score 0.10."
    )
    assert [head for _, head in finding.parts if head] == ["L0H1", "L1H0"]
    assert finding.p < 1e-3


@pytest.mark.parametrize("metric", ["previous_token_score", "sink_score"])
def test_many_layers_are_searched_at_a_price(metric):
    """The same head among the same draws is less sure where more layers were searched."""
    few = planted(metric, [[0.55, 0.1]], untrained=0.1, spread=0.05)
    many = planted(metric, [[0.55, 0.1], *[[0.1, 0.1]] * 30], untrained=0.1, spread=0.05)
    (of_few,), (of_many,) = looked_for(few), looked_for(many)
    assert_same(of_many.p, min(1, 31 * of_few.p))


def test_metrics_without_a_role_are_counted_and_the_furthest_is_named():
    confident = planted("attention_confidence", [[0.05, 0.06], [0.92, 0.05]])
    even = planted("attention_diversity", [[0.05, 0.06], [0.05, 0.04]])
    assert counts(confident | even).found
    assert counts(confident | even).sentence == (
        "Values that clearly differ from random heads, corrected for all 8 comparisons: 1. A value is one metric of "
        "one head or pair. The largest difference is in attention confidence: L1H0 0.92, random copies 0.049."
    )
    alike = -np.array([[1, 0.1, 0.83], [0.1, 1, 0], [0.83, 0, 1]])
    assert "The largest difference is in output dissimilarity: L0H0 and L0H2 −0.83, random copies " in (
        counts(pairs("output_dissimilarity", alike)).sentence
    )
    nothing = counts(even)
    assert not nothing.found
    assert nothing.sentence.startswith(
        "None of 4 values (one metric of one head or pair) clearly differs from 16 random copies of the layer."
    )


def test_few_draws_count_nothing():
    few = planted("attention_confidence", [[0.9, 0.06]])["attention_confidence"]
    few = {"attention_confidence": replace(few, draws={name: drawn[:3] for name, drawn in few.draws.items()})}
    assert findings(few, row_labels(few["attention_confidence"].values)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("heads", "layers"), [(1, 8), (4, 6)])
def test_one_more_draw_differs_in_no_metric(heads, layers):
    """Heavy-tailed values of 200 models that are one more draw; of 100 pages at most 5 may count anything."""
    random, told = np.random.default_rng(0), 0
    for _ in range(200):
        drawn = np.exp(0.3 * random.standard_t(5, (DRAWS + 1, layers, heads)))
        values = dict(zip(names(drawn[0]), drawn[0], strict=True))
        draws = {name: drawn[1:, layer] for layer, name in enumerate(values)}
        score = HeadScores(metric="attention_excess", values=values, draws=draws, n_rows=9)
        told += counts({"attention_excess": score}).found
    assert told <= 0.05 * 200


def test_every_special_head_has_a_headline():
    assert {metric for metrics in SPECIAL for metric in metrics} == set(words.SPECIAL)
