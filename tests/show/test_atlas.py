"""The atlas of heads, maps of their pairs, and what stands out, from scores whose answers are known."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from fabricate_scores import names, score, scores

from headway.declare.head_metrics import HEAD_METRICS
from headway.heads.findings import findings
from headway.heads.names import metric_name, row_labels
from headway.heads.scores import HeadScores
from headway.show.shared.atlas import SORTED, atlas
from headway.show.shared.files import render
from headway.show.xray.composition_maps import composition_maps, strongest
from headway.show.xray.drawing import Attention, XRay
from headway.show.xray.pair_maps import CELLS, IN_PLACE, alike_order, pair_maps

RAGGED = (24, 12, 6, 1)


def panels(figure):
    return [panel for line in figure.spec["vconcat"] for panel in line["hconcat"]]


def tables(figure):
    return sorted(figure.spec["datasets"].values(), key=len)


def test_an_atlas_has_a_panel_for_each_metric_of_heads_and_a_cell_for_each_head():
    figure = atlas(scores(RAGGED))
    shown = [metric for metric, m in HEAD_METRICS.items() if m.of != "layer" and not re.search("raw|published", metric)]
    assert [panel["title"]["text"] for panel in panels(figure)] == [metric_name(metric) for metric in shown]
    assert all(panel["title"]["subtitle"].startswith("high: ") for panel in panels(figure))
    table = tables(figure)[-1]
    assert [row["name"] for row in table] == [f"L{layer}H{h}" for layer, n in enumerate(RAGGED) for h in range(n)]
    drawn = scores(RAGGED)["sink_score"].values["layers.1.attention"]
    field = f"m{shown.index('sink_score')}"
    np.testing.assert_allclose([row[field] for row in table if row["row"] == "L1"], drawn, rtol=1e-4)


def test_metrics_are_drawn_in_the_order_asked_for_raw_ones_among_them():
    asked = ("induction_score", "context_nonorthogonality_raw", "sink_score")
    figure = atlas(scores((4, 4)), metrics=asked, name="mine", title="Mine", caption="Of step 3.")
    assert [panel["title"]["text"] for panel in panels(figure)] == [metric_name(metric) for metric in asked]
    assert (figure.name, figure.title, figure.caption[:10]) == ("mine", "Mine", "Of step 3.")


def test_the_null_stands_in_a_column_of_its_own_for_every_layer_that_has_a_value():
    figure = atlas({"query_cka": score("query_cka", RAGGED, null=0.125)})
    strip = next(rows for rows in figure.spec["datasets"].values() if "null" in rows[0])
    assert [(row["row"], row["null"]) for row in strip] == [("L0", 0.125), ("L1", 0.125), ("L2", 0.125)]
    assert all(row["slot"] > max(RAGGED) for row in strip)
    assert "the null: what each layer would show" in figure.caption
    assert "null" not in atlas({"sink_score": score("sink_score", RAGGED)}).caption


def test_a_layer_with_one_head_needs_two_for_a_metric_of_pairs_and_says_so():
    said = "L3 has one head, and a metric of pairs needs two heads."
    assert said in atlas(scores(RAGGED)).caption
    assert said not in atlas(scores(RAGGED, ["sink_score"])).caption
    assert "L0 and L2 have one head" in atlas(scores((1, 3, 1), ["query_cka", "sink_score"])).caption


def test_there_is_no_atlas_of_nothing():
    assert atlas({}) is None
    assert atlas(scores((1, 1), ["query_cka"])) is None
    assert atlas(scores((2, 2), ["disagreement_output"])) is None


def test_the_switch_sorts_the_heads_of_each_layer():
    value = np.array([0.1, 0.9, 0.5])
    figure = atlas({"sink_score": HeadScores(metric="sink_score", values={"layers.0.attention": value}, n_rows=9)})
    switch = figure.spec["params"][-1]
    assert switch["bind"]["input"] == "radio"
    assert switch["value"] == IN_PLACE
    places = {}
    for order in (IN_PLACE, SORTED):
        # Where each number stands in the picture.
        spec = json.loads(json.dumps(figure.spec))
        spec["params"] = [{**one, "value": order} if one.get("name") == "order" else one for one in spec["params"]]
        found = re.findall(r'translate\(([\d.]+),[\d.]+\)"[^>]*>(\.\d\d)<', render(spec))
        places[order] = [text for _, text in sorted((float(x), text) for x, text in found)]
    assert places == {IN_PLACE: [".10", ".90", ".50"], SORTED: [".90", ".50", ".10"]}


@pytest.mark.parametrize("heads", [(12,) * 4, (64,) * 24, (768, 12), (1,), (2,)])
def test_every_size_of_a_model_is_drawn_within_the_page(heads):
    chosen = ["output_dissimilarity", "attention_excess", "sink_score", "qk_effective_rank"]
    svg = render(atlas(scores(heads, chosen)).spec)
    width = float(re.search(r'width="([\d.]+)"', svg)[1])
    assert width < 1080


def test_scores_that_are_all_the_same_or_partly_missing_are_drawn():
    same = HeadScores(metric="sink_score", values={"layers.0.attention": np.full(3, 0.25)}, n_rows=9)
    gaps = HeadScores(metric="copying_score", values={"layers.0.attention": np.array([np.nan, 0.5, 0.0])}, n_rows=9)
    assert render(atlas({"sink_score": same, "copying_score": gaps}).spec)


def test_attentions_of_an_encoder_and_decoder_are_shown_by_kind():
    kinds = {"encoder.0.a": "encoder", "encoder.1.a": "encoder"}
    kinds |= {f"decoder.{layer}.{of}": kind for layer in (0, 1) for of, kind in (("s", "self"), ("x", "cross"))}
    labels = row_labels(kinds, kinds)
    assert list(labels.values()) == [f"{kind} L{layer}" for kind in ("encoder", "decoder", "cross") for layer in (0, 1)]
    values = {name: np.array([0.2, 0.4]) for name in kinds}
    figure = atlas({"sink_score": HeadScores(metric="sink_score", values=values, n_rows=9)}, labels=labels)
    rows = [row["row"] for row in tables(figure)[-1]]
    assert list(dict.fromkeys(rows)) == list(labels.values())


def test_maps_of_pairs_hold_every_pair_of_different_heads():
    found = score("output_dissimilarity", RAGGED)
    figure = pair_maps(found)
    assert [panel["title"]["text"] for panel in figure.spec["concat"]] == ["L0", "L1", "L2"]
    sizes = sorted((len(rows) for rows in figure.spec["datasets"].values()), reverse=True)
    assert sizes == [n * (n - 1) for n in (24, 12, 6)]
    cell = next(row for rows in figure.spec["datasets"].values() if len(rows) == 30 for row in rows if row["one"] == 2)
    assert cell["value"] == pytest.approx(found.values["layers.2.attention"][2, cell["other"]], rel=1e-4)
    assert "L3 has one head: a pair needs two heads." in figure.caption
    assert "Thinned" not in figure.caption


def test_maps_of_768_heads_are_thinned_and_said_so():
    figure = pair_maps(score("query_cka", (768, 12)))
    assert "Thinned: 64 of L0's 768 heads are drawn, evenly spaced" in figure.caption
    kept = sorted({row["one"] for row in max(figure.spec["datasets"].values(), key=len)})
    assert (kept[0], kept[-1], len(kept)) == (0, 767, 64)
    assert np.ptp(np.diff(kept)) <= 1
    many = pair_maps(score("query_cka", (64,) * 24))
    assert sum(map(len, many.spec["datasets"].values())) <= CELLS
    assert "Thinned: in 24 layers, 28 of 64 heads are drawn" in many.caption


def test_no_map_without_a_pair():
    assert pair_maps(score("query_cka", (1, 1))) is None


@pytest.mark.parametrize("high_is_alike", [True, False])
def test_alike_heads_come_together(high_is_alike):
    group = np.arange(12) % 3
    alike = np.where(group[:, None] == group[None], 0.9, 0.1)
    order = alike_order(alike if high_is_alike else -alike, high_is_alike=high_is_alike)
    assert sorted(order) == list(range(12))
    assert len(re.sub(r"(.)\1*", r"\1", "".join(str(group[head]) for head in order))) == 3


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
    alike, idle = said(found, shares={"layers.0.a": np.array([0.6, 0.395, 0.005])})
    assert alike.startswith("most alike outputs: L0H0 and H2 (cosine .83), L0H0 and H1 (cosine .10)")
    assert alike.endswith("the mean of 3 pairs is .31")
    assert idle.startswith("most idle, by what they add to the stream: L0H2 (0.5 % of its layer, even 33.3 %)")


def test_a_layer_that_adds_nothing_is_named():
    found = scores((2, 2), ["sink_score"])
    shares = {"layers.0.attention": np.full(2, np.nan), "layers.1.attention": np.array([0.6, 0.4])}
    *_, idle = said(found, shares=shares)
    assert idle.startswith(
        "the heads of L0 add nothing to the stream at all; most idle, by what they add to the stream: L1"
    )
    assert said(found, shares={"layers.0.attention": np.full(2, np.nan)})[-1].endswith(
        "add nothing to the stream at all"
    )


def test_heads_that_share_keys_are_told_from_others():
    value = -np.array([[1, 0.8, 0.1, 0.1], [0.8, 1, 0.1, 0.1], [0.1, 0.1, 1, 0.6], [0.1, 0.1, 0.6, 1]])
    found = {"output_dissimilarity": HeadScores(metric="output_dissimilarity", values={"layers.0.a": value}, n_rows=9)}
    sentence = "heads that share their keys and values write at a cosine of .70 in the mean, those that do not at .10"
    assert said(found, kv_of={"layers.0.a": (0, 0, 1, 1)})[1:] == [sentence]
    assert said(found, kv_of={"layers.0.a": (0, 1, 2, 3)})[1:] == []


def test_a_single_head_has_no_pair_and_is_not_idle():
    found = scores((1,), ["output_dissimilarity"])
    assert said(found, shares={"layers.0.attention": np.ones(1)}) == []


def composition(n_heads=(2, 3), strong=(1, 2)):
    heads = tuple((f"layers.{layer}.attention", head) for layer, n in enumerate(n_heads) for head in range(n))
    table = np.full((len(heads),) * 2, np.nan)
    table[: n_heads[0], n_heads[0] :] = 0.1
    keys = table.copy()
    keys[strong] = 0.6
    return SimpleNamespace(heads=heads, q=table, k=keys, v=table, null=0.1)


def test_compositions_are_drawn_and_the_strongest_named():
    found = composition()
    labels = row_labels(name for name, _ in found.heads)
    assert [finding.sentence for finding in strongest(found, labels)] == [
        "strongest K-composition (into keys): L0H1 → L1H0 .60 (at random .10)"
    ]
    figure = composition_maps(found, labels)
    assert [len(rows) for rows in figure.spec["datasets"].values()] == [6] * len(figure.spec["datasets"])
    assert render(figure.spec)
    assert composition_maps(composition(n_heads=(5, 0)), labels) is None


def test_many_compositions_are_thinned_and_said_so():
    found = composition(n_heads=(100, 100), strong=(0, 150))
    figure = composition_maps(found, row_labels(name for name, _ in found.heads))
    assert "Thinned: 60 of 200 heads are drawn, evenly spaced." in figure.caption


def test_json_of_many_heads_says_what_it_leaves_out():
    found = XRay(
        name="wide",
        model={},
        text="a.txt",
        n_tokens=64,
        n_sequences=1,
        length=64,
        attentions=tuple(
            Attention(name=name, kind="self", kv_of=tuple(range(n)), d_head=2)
            for name, n in zip(names((300, 300)), (300, 2), strict=True)
        ),
        scores=scores((300, 2), ["query_cka", "sink_score"]),
        composition=composition(n_heads=(300, 300), strong=(0, 400)),
    )
    content = found.to_json()
    assert content["metrics"]["query_cka"]["values"]["layers.0.attention"] is None
    assert np.shape(content["metrics"]["query_cka"]["values"]["layers.1.attention"]) == (2, 2)
    assert len(content["metrics"]["query_cka"]["per_head"]["layers.0.attention"]) == 300
    assert content["composition"] is None
    assert content["notes"] == [
        "metrics of pairs of layers.0.attention stand in heads.safetensors alone: it has many heads",
        "composition of 600 heads is not in the JSON: that is many pairs",
    ]
