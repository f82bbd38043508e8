"""The fits of the head-progression study, from its published points (science.md, section 1)."""

import numpy as np
import pytest

from headway.stats.lm.scaling import FREE_FORM, PUBLISHED_FORM, Point, fit_curve, fits

POINTS = {
    "ascending": {45: 1.86, 90: 1.74, 180: 1.65},
    "constant": {48: 1.73, 96: 1.62, 192: 1.59},
    "descending": {45: 1.72, 90: 1.62, 180: 1.58},
}


def points():
    return [
        Point(arm=f"{scheme}-{total}", scheme=scheme, total=total, losses={0: loss})
        for scheme, found in POINTS.items()
        for total, loss in found.items()
    ]


@pytest.mark.parametrize(
    ("scheme", "b", "c"),
    [("ascending", 0.0352, 1.6671), ("constant", 0.0414, 1.5945), ("descending", 0.0446, 1.5892)],
)
def test_the_published_curves(scheme, b, c):
    curve, _ = fit_curve(PUBLISHED_FORM, np.array([*POINTS[scheme]]), np.array([*POINTS[scheme].values()]))
    assert (round(curve.b, 4), round(curve.c, 4), curve.a) == (b, c, 1.0)


def test_only_ascending_has_another_minimum_that_fits_better():
    others = {
        scheme: fit_curve(PUBLISHED_FORM, np.array([*p]), np.array([*p.values()]))[1] for scheme, p in POINTS.items()
    }
    assert others["constant"] is others["descending"] is None
    assert (round(others["ascending"].b, 4), round(others["ascending"].c, 3)) == (0.0019, 0.923)


def test_the_published_sentence():
    entries = {(entry.form, entry.scheme): entry for entry in fits(points())}
    assert {entry.at for entry in entries.values()} == {180}
    descending = entries[PUBLISHED_FORM, "descending"]
    assert round(100 * descending.against.relative, 2) == -0.35
    assert round(100 * entries[PUBLISHED_FORM, "ascending"].against.relative, 2) == 4.63
    said = "at 180 heads, descending and constant cannot be compared: one seed (1.589 and 1.595 nats)"
    assert descending.sentence == said


def test_the_free_form_goes_through_three_points_and_has_no_band():
    for entry in fits(points()):
        if entry.form == FREE_FORM:
            assert entry.sse < 1e-12
            assert entry.band is None
            assert "as many parameters as points (3)" in entry.note
