"""Maps of the pairs of heads of each layer, from scores whose answers are known."""

import numpy as np
import pytest
from support.fabricate_scores import score

from headway.report.charts.maps import CELLS
from headway.report.models.xray import pair_maps

RAGGED = (24, 12, 6, 1)


def test_maps_of_pairs_hold_every_pair_of_different_heads():
    found = score("output_dissimilarity", RAGGED)
    figure = pair_maps(found)
    assert [panel["title"]["text"] for panel in figure.spec["hconcat"]] == ["L0", "L1", "L2"]
    sizes = sorted((len(rows) for rows in figure.spec["datasets"].values()), reverse=True)
    assert sizes == [n * (n - 1) for n in (24, 12, 6)]
    cell = next(row for rows in figure.spec["datasets"].values() if len(rows) == 30 for row in rows if row["one"] == 2)
    assert cell["value"] == pytest.approx(found.values["layers.2.attention"][2, cell["other"]], rel=1e-4)
    assert "Layers with one head have no pairs." in figure.caption
    assert "Thinned" not in figure.caption


@pytest.mark.slow
def test_maps_of_768_heads_are_thinned_and_said_so():
    figure = pair_maps(score("query_cka", (768, 12)))
    assert "Thinned: at most 64 heads of a layer are drawn, evenly spaced." in figure.caption
    kept = sorted({row["one"] for row in max(figure.spec["datasets"].values(), key=len)})
    assert (kept[0], kept[-1], len(kept)) == (0, 767, 64)
    assert np.ptp(np.diff(kept)) <= 1
    many = pair_maps(score("query_cka", (64,) * 24))
    assert sum(map(len, many.spec["datasets"].values())) <= CELLS
    assert "at most 28 heads of a layer are drawn" in many.caption


def test_no_map_without_a_pair():
    assert pair_maps(score("query_cka", (1, 1))) is None
