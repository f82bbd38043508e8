"""What stands out among heads, from scores whose answers are known."""

import numpy as np
from fabricate_scores import composition, names, scores

from headway.heads.findings import findings, strongest
from headway.heads.names import row_labels
from headway.heads.scores import HeadScores


def planted(metric, values, null=0.1):
    arrays = {name: np.array(value) for name, value in zip(names(values), values, strict=True)}
    return {metric: HeadScores(metric=metric, values=arrays, null=dict.fromkeys(arrays, np.array(null)), n_rows=9)}


def said(found, **options):
    labels = row_labels(next(iter(found.values())).values)
    return [finding.sentence for finding in findings(found, labels, **options)]


def test_special_heads_are_named_with_what_is_even():
    one = planted("induction_score", [[0.01, 0.02], [0.893, 0.1]])
    assert said(one) == ["1 induction head (from .40 on): L1H0 .89 (even .10)"]
    many = planted("previous_token_score", [[0.5, 0.9, 0.6], [0.7, 0.8, 0.95, 0.2]], null=0.02)
    assert said(many) == [
        "6 previous-token heads (from .40 on): L1H2 .95, L0H1 .90, L1H1 .80, L1H0 .70, L0H2 .60 and 1 more (even .02)"
    ]
    assert said(planted("sink_score", [[0.6, 0.7]])) == [
        "2 heads that rest on the first token (from .50 on): L0H1 .70, L0H0 .60 (even .10)"
    ]


def test_a_head_near_its_null_is_not_special():
    assert said(planted("previous_token_score", [[0.5, 0.45]], null=0.4)) == [
        "no previous-token head (from .40 on): L0H0 is highest, .50 (even .40)"
    ]
    assert said(planted("positional_score", [[0.85, 0.2]])) == [
        "no positional head (from .90 on): L0H0 is highest, .85 (even .10)"
    ]


def test_alike_and_idle_heads_are_named():
    value = -np.array([[1, 0.1, 0.83], [0.1, 1, 0], [0.83, 0, 1]])
    found = {"output_dissimilarity": HeadScores(metric="output_dissimilarity", values={"layers.0.a": value}, n_rows=9)}
    shares = HeadScores(metric="output_share", values={"layers.0.a": np.array([0.6, 0.395, 0.005])}, n_rows=9)
    alike, idle = said({**found, "output_share": shares})
    assert alike.startswith("most alike outputs: L0H0 and H2 (cosine .83), L0H0 and H1 (cosine .10)")
    assert alike.endswith("the mean of 3 pairs is .31")
    assert idle.startswith("most idle, by what they add to the stream: L0H2 (0.5 % of its layer, even 33.3 %)")


def test_a_layer_that_adds_nothing_is_named():
    found = scores((2, 2), ["sink_score"])
    *_, idle = said(found | planted("output_share", [[0, 0], [0.6, 0.4]]))
    assert idle.startswith(
        "the heads of L0 add nothing to the stream at all; most idle, by what they add to the stream: L1"
    )
    none = planted("output_share", [[0, 0]])
    assert said(none) == ["the heads of L0 add nothing to the stream at all"]


def test_heads_that_share_keys_are_told_from_others():
    value = -np.array([[1, 0.8, 0.1, 0.1], [0.8, 1, 0.1, 0.1], [0.1, 0.1, 1, 0.6], [0.1, 0.1, 0.6, 1]])
    found = {"output_dissimilarity": HeadScores(metric="output_dissimilarity", values={"layers.0.a": value}, n_rows=9)}
    sentence = "heads that share their keys and values write at a cosine of .70 in the mean, those that do not at .10"
    assert said(found, kv_of={"layers.0.a": (0, 0, 1, 1)})[1:] == [sentence]
    assert said(found, kv_of={"layers.0.a": (0, 1, 2, 3)})[1:] == []


def test_a_single_head_has_no_pair_and_is_not_idle():
    found = scores((1,), ["output_dissimilarity"])
    assert said(found | planted("output_share", [[1.0]])) == []


def test_the_strongest_compositions_are_named_where_they_stand_out():
    found = composition()
    labels = row_labels(name for name, _ in found.heads)
    sentence = "strongest K-composition (into keys): L0H1 → L1H0 .60 (at random .10)"
    assert [finding.sentence for finding in strongest(found, labels)] == [sentence]
    (last,) = findings({}, labels, composition=found)
    assert (last.about, last.sentence) == ("k_composition", sentence)
