"""Maps of direct effects between heads: every later pair has a cell, and one layer has no map."""

import numpy as np
from support.figures import rows_of

from headway.causal.patch_result import THROUGH, HeadPaths
from headway.report.charts.page import svg_of
from headway.report.models.patching import head_path_maps

HEADS = ((0, 0), (0, 1), (1, 0))


def paths(later: bool) -> HeadPaths:
    through = np.full((3, 3), np.nan)
    if later:
        through[:2, 2] = (0.5, -0.25)
    return HeadPaths(heads=HEADS, through=dict.fromkeys(THROUGH, through), to_output=np.zeros(3))


def test_a_cell_for_each_pair_and_input():
    figure = head_path_maps(paths(later=True))
    assert figure is not None
    cells = {(row["writer"], row["reader"]): row["value"] for row in rows_of(figure)}
    assert cells == {("L0H0", "L1H0"): 0.5, ("L0H1", "L1H0"): -0.25}
    assert svg_of(figure.spec).startswith("<svg")


def test_heads_of_one_layer_have_no_paths():
    assert head_path_maps(paths(later=False)) is None


def test_of_many_heads_some_rows_have_a_label_and_every_pair_has_a_hint():
    many = tuple((layer, head) for layer in range(5) for head in range(8))
    later = np.array([[1.0 if one[0] < other[0] else np.nan for other in many] for one in many])
    figure = head_path_maps(HeadPaths(heads=many, through=dict.fromkeys(THROUGH, later), to_output=np.zeros(40)))
    assert figure is not None
    assert svg_of(figure.spec).count(">L0H0</text>") == len(THROUGH)
    assert {row["pair"] for row in rows_of(figure) if row["value"]} >= {"L0H0 → L1H0", "L3H7 → L4H7"}
