"""The atlas of heads, from scores whose answers are known."""

import json
import re

import numpy as np
import pytest
from support.fabricate_scores import score, scores

from headway.config.head_metrics import HEAD_METRICS
from headway.config.metrics import metric_name
from headway.heads.scores import HeadScores
from headway.report.charts.atlas import MARK, atlas
from headway.report.charts.maps import colours
from headway.report.charts.page import svg_of

RAGGED = (24, 12, 6, 1)


def panels(figure):
    return [panel for line in figure.spec["vconcat"] for panel in line["hconcat"]]


def tables(figure):
    return sorted(figure.spec["datasets"].values(), key=len)


@pytest.mark.slow
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
    assert "gives the null value of each layer" in figure.caption
    assert "null" not in atlas({"sink_score": score("sink_score", RAGGED)}).caption


def test_there_is_no_atlas_of_nothing():
    assert atlas({}) is None
    assert atlas(scores((1, 1), ["query_cka"])) is None
    assert atlas(scores((2, 2), ["disagreement_output"])) is None


@pytest.mark.slow
@pytest.mark.parametrize("heads", [(64,) * 24, (768, 12), (1,)])
def test_every_size_of_a_model_is_drawn_within_the_page(heads):
    chosen = ["output_dissimilarity", "attention_excess", "sink_score", "qk_effective_rank"]
    svg = svg_of(atlas(scores(heads, chosen)).spec)
    width = float(re.search(r'width="([\d.]+)"', svg)[1])
    assert width < 1080


def test_scores_that_are_all_the_same_or_partly_missing_are_drawn():
    same = HeadScores(metric="sink_score", values={"layers.0.attention": np.full(3, 0.25)}, n_rows=9)
    gaps = HeadScores(metric="copying_score", values={"layers.0.attention": np.array([np.nan, 0.5, 0.0])}, n_rows=9)
    assert svg_of(atlas({"sink_score": same, "copying_score": gaps}).spec)


def test_values_that_are_nearly_the_same_are_not_made_to_differ_and_others_fill_the_scale():
    scale, _ = colours("nats", [np.array([2.549, 2.55, 2.551])])
    low, high = scale["domain"]
    assert low < 2.5 < 2.6 < high
    scale, _ = colours("nats", [np.array([2.0, 2.5, 3.0])])
    assert scale["domain"] == [2.0, 3.0]


def test_values_on_a_log_scale_have_numbers_in_their_cells():
    wide = HeadScores(metric="attention_excess", values={"layers.0.attention": np.array([0.1, 3.0, 12.4])}, n_rows=9)
    assert {"12.4", "3.0", "0.1"} <= set(
        re.findall(r">([\d.]+)</text>", svg_of(atlas({"attention_excess": wide}).spec))
    )


def test_heads_that_are_named_have_a_frame():
    figure = atlas(scores(RAGGED), metrics=["sink_score"], marked=["L1H2", "L0H5"])
    assert MARK in json.dumps(figure.spec)
    assert '"oneOf": ["L1H2", "L0H5"]' in json.dumps(figure.spec)
    assert MARK in svg_of(figure.spec)
    assert MARK not in json.dumps(atlas(scores(RAGGED), metrics=["sink_score"]).spec)
