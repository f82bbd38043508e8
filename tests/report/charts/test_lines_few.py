"""Lines through few measurements, which are drawn with their points."""

import pytest

from headway.report.charts.lines import Axis, line_bands


@pytest.mark.parametrize(("n_points", "marked"), [(2, True), (5, True), (6, False)])
def test_a_line_through_few_points_shows_them(n_points, marked):
    rows = [{"x": at, "y": at, "low": at, "high": at} for at in range(n_points)]
    layers = line_bands(rows, Axis("x"), Axis("y"), "black")
    marks = [layer.to_dict()["mark"]["type"] for layer in layers]
    assert marks == ["area", "line", *(["point"] if marked else [])]
