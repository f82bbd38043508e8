"""Maps of how heads compose, from compositions whose answers are known."""

from support.fabricate_scores import composition

from headway.heads.scores import row_labels
from headway.report.charts.page import svg_of
from headway.report.models.xray import composition_maps


def test_compositions_are_drawn_of_layers_that_have_heads():
    found = composition()
    labels = row_labels(name for name, _ in found.heads)
    figure = composition_maps(found, labels)
    assert [len(rows) for rows in figure.spec["datasets"].values()] == [6] * len(figure.spec["datasets"])
    assert svg_of(figure.spec)
    assert composition_maps(composition(n_heads=(5, 0)), labels) is None


def test_many_compositions_are_thinned_and_said_so():
    found = composition(n_heads=(100, 100), strong=(0, 150))
    figure = composition_maps(found, row_labels(name for name, _ in found.heads))
    assert "Thinned: 60 of 200 heads are drawn, evenly spaced." in figure.caption
