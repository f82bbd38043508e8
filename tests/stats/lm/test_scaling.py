"""Curves of loss against heads: planted ones are found, with intervals that hold them as often as they say."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from headway.stats.lm.scaling import (
    FREE_FORM,
    PARAMETERS,
    PUBLISHED_FORM,
    Point,
    fit_curve,
    fits,
    limit,
    minima,
    refitted,
)
from headway.stats.lm.verdicts import scheme_sentence

TOTALS = np.array([16.0, 24.0, 32.0, 48.0, 64.0])


def falling(a, b, c, noise=0.0, seeds=3, scheme="constant", totals=TOTALS):
    random = np.random.default_rng(1)
    common = noise * random.standard_normal(seeds)
    return [
        Point(
            arm=f"{scheme}-{n:g}",
            scheme=scheme,
            total=int(n),
            losses={
                s: a * np.exp(-b * n) + c + common[s] + 0.2 * noise * random.standard_normal() for s in range(seeds)
            },
        )
        for n in totals
    ]


def by(entries):
    return {(entry.form, entry.scheme): entry for entry in entries}


@pytest.mark.parametrize(("form", "a"), [(PUBLISHED_FORM, 1.0), (FREE_FORM, 0.4), (FREE_FORM, -0.3)])
def test_a_planted_curve_is_found(form, a):
    curve, other = fit_curve(form, TOTALS, a * np.exp(-0.07 * TOTALS) + 2.5)
    assert (curve.a, curve.b, curve.c) == pytest.approx((a, 0.07, 2.5), rel=1e-4)
    assert other is None


def test_the_interval_holds_what_was_planted_and_bands_follow_the_seeds():
    entries = by(fits(falling(1.0, 0.07, 2.5, noise=0.02, seeds=8)))
    entry = entries[PUBLISHED_FORM, "constant"]
    low, high = entry.intervals["c"]
    assert low < 2.5 < high
    assert entry.band.low[0] < entry.band.high[0]
    assert entry.seeds == tuple(range(8))
    assert entry.note == ""


def test_seeds_are_resampled_for_all_arms_together():
    # What all arms of a seed share is no difference between schemes, so it must not widen their comparison.
    constant = falling(1.0, 0.07, 2.5, noise=0.0)
    lucky = [
        Point(arm=p.arm, scheme=p.scheme, total=p.total, losses={s: v + 0.1 * s for s, v in p.losses.items()})
        for p in [*constant, *falling(1.0, 0.07, 2.4, scheme="descending")]
    ]
    entry = by(fits(lucky))[PUBLISHED_FORM, "descending"]
    low, high = entry.against.interval
    assert high - low < 0.015
    assert entry.intervals["c"][1] - entry.intervals["c"][0] > 0.1
    assert entry.sentence.startswith("at 64 heads, descending is 3.8")
    assert "better than constant, 95 % interval " in entry.sentence


def test_curves_whose_interval_contains_0_are_neither_better_nor_worse():
    said = scheme_sentence(("descending", "constant"), 180, 0.003, (-0.002, 0.008), loss=1.6, n_seeds=3)
    assert said == (
        "at 180 heads, no clear difference between descending and constant: 0.3 %, 95 % interval −0.2 to 0.8 %"
    )
    two = scheme_sentence(("descending", "constant"), 180, 0.003, (0.002, 0.004), loss=1.6, n_seeds=2)
    assert "too few seeds to say (2): 0.3" in two


def test_at_is_the_largest_total_that_every_scheme_reaches():
    mixed = [*falling(1, 0.07, 2.5), *falling(1, 0.07, 2.5, scheme="ascending", totals=TOTALS[:4] - 1)]
    assert {entry.at for entry in fits(mixed)} == {47}


def test_no_band_with_one_seed_or_as_many_parameters_as_totals():
    one = by(fits(falling(1, 0.07, 2.5, seeds=1)))
    assert {entry.note for entry in one.values()} == {"one seed, so there is no band"}
    few = by(fits(falling(1, 0.07, 2.5, noise=0.01, totals=TOTALS[:3])))
    assert few[FREE_FORM, "constant"].band is None
    assert "as many parameters as points (3)" in few[FREE_FORM, "constant"].note
    assert few[PUBLISHED_FORM, "constant"].band is not None
    two = by(fits(falling(1, 0.07, 2.5, totals=TOTALS[:2])))
    assert [form for form, _ in two] == [PUBLISHED_FORM]


def test_one_seed_says_no_better_and_no_worse():
    found = fits([*falling(1, 0.07, 2.5, seeds=1), *falling(1, 0.07, 2.4, seeds=1, scheme="descending")])
    said = [entry.sentence for entry in found if entry.sentence]
    assert said[0] == "at 64 heads, descending and constant cannot be compared: one seed (2.411 and 2.511 nats)"
    assert all(sentence.startswith("at 64 heads, descending and constant cannot be compared") for sentence in said)


@pytest.mark.parametrize("form", PARAMETERS)
def test_minima_are_where_scipy_finds_them(form):
    rng = np.random.default_rng(1)
    for _ in range(40):
        losses = 2.5 + rng.uniform(-0.5, 1.5) * np.exp(-rng.uniform(0.01, 0.2) * TOTALS) + 0.02 * rng.normal(size=5)

        def sse(log_b, losses=losses):
            decay = np.exp(-np.exp(log_b) * TOTALS)
            free = form == FREE_FORM
            design = np.stack([np.ones(len(TOTALS)), decay][: 1 + free], axis=1)
            wanted = losses - (0 if free else decay)
            return float(((wanted - design @ np.linalg.lstsq(design, wanted, rcond=None)[0]) ** 2).sum())

        for curve in minima(form, TOTALS, losses):
            near = np.log(curve.b)
            best = minimize_scalar(sse, bounds=(near - 0.02, near + 0.02), method="bounded", options={"xatol": 1e-10})
            assert curve.sse == pytest.approx(best.fun, rel=1e-8)
            assert near == pytest.approx(best.x, abs=1e-4)  # some are flat


@pytest.mark.parametrize("form", PARAMETERS)
def test_many_are_fitted_at_once_as_one_after_the_other(form):
    rng = np.random.default_rng(0)
    # Some fall, some rise, some are nothing but noise; some have two minima, and some none.
    fall = rng.uniform(-0.5, 1.5, (250, 1)) * np.exp(-rng.uniform(0.01, 0.2, (250, 1)) * TOTALS)
    losses = 2.5 + fall + 0.02 * rng.normal(size=(250, len(TOTALS)))
    for near in (0.03, 0.2):
        for row, one in zip(losses, refitted(form, TOTALS, losses, near), strict=True):
            curves = minima(form, TOTALS, row)
            other = min(curves, key=lambda curve: abs(np.log(curve.b / near)), default=limit(form, TOTALS, row))
            assert one.sse == pytest.approx(other.sse, rel=1e-9)
            assert (one.b, one.c) == pytest.approx((other.b, other.c), rel=1e-5)


def test_two_seeds_are_the_ends_of_what_is_drawn_and_widened_to_student_s_interval():
    # With one curve for each seed, the interval at two seeds is that of t with one degree of freedom.
    losses = np.array([2.40, 2.44])
    points = [
        Point(arm=str(n), scheme="constant", total=int(n), losses=dict(enumerate(losses + np.exp(-0.07 * n))))
        for n in TOTALS
    ]
    low, high = by(fits(points))[PUBLISHED_FORM, "constant"].intervals["c"]
    assert (low, high) == pytest.approx((2.42 - 12.7062 * 0.02, 2.42 + 12.7062 * 0.02), abs=1e-3)


def test_loss_that_rises_with_heads_has_no_curve_as_published():
    rising = [Point(arm=str(n), scheme="constant", total=n, losses={0: 2 + n / 100}) for n in (16, 32, 64)]
    entry = by(fits(rising))[PUBLISHED_FORM, "constant"]
    assert entry.params is entry.value is None
    assert entry.note == "no falling curve of this form fits the points (3 numbers of heads)"


def test_seeds_that_an_arm_lacks_are_left_out_everywhere():
    found = falling(1, 0.07, 2.5, noise=0.01)
    found[0] = Point(arm="x", scheme="constant", total=16, losses={s: found[0].losses[s] for s in (1, 2)})
    assert all(entry.seeds == (1, 2) for entry in fits(found))


def test_one_total_is_no_curve():
    assert list(fits(falling(1, 0.07, 2.5, totals=TOTALS[:1]))) == []
    assert list(fits([])) == []
    assert list(PARAMETERS) == [PUBLISHED_FORM, FREE_FORM]
