"""Compare: loss against the total number of heads, a falling exponential per scheme of head layouts.

Two forms (`falling`): `exp(-b n) + c` as published, whose amplitude is fixed at 1, and `a exp(-b n) + c`; the curve is
the minimum next to the published start. Bands and intervals come from resampling seeds, the same seeds for every arm; a
form with as many parameters as there are totals goes through its points whatever they are, so it has none. Quantiles of
few resampled seeds lie too close together (with three seeds by a factor of 2.7): they are moved away from the estimate
by what Student's t asks for. Of two seeds the quantiles are the seeds themselves, nearer than those of a normal
distribution, for which they are widened 1.385 times more.

Paper: the head-progression study (blog, November 2024), whose sentence "at 180 heads, descending is x % better than
constant" is recomputed here with an interval. The widening is that of Hesterberg 2015, arXiv 1411.5279, as a factor.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.compare.statistics import LEVEL
from headway.compare.tokens.falling import PARAMETERS, Curve, fit, refitted
from headway.compare.tokens.schemes import SCHEMES
from headway.words import Amount, counted, number

AGAINST = "constant"
"""The scheme that the others are compared with."""

RESAMPLES = 1_000
POINTS = 61
"""Values of n at which a band is given."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """The runs of one arm: its total number of heads, and the loss of each seed."""

    arm: str
    scheme: str
    total: int
    losses: Mapping[int, float]


@dataclass(frozen=True, kw_only=True)
class Band:
    """The ends of the band around a curve at some totals."""

    n: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class AgainstScheme:
    """A curve against that of another scheme, where both are read at the same total; below 0 is better."""

    scheme: str
    relative: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A form fitted to the arms of a scheme.

    Attributes:
        scheme: of the layouts.
        form: one of `PARAMETERS`.
        control: what all its arms are under.
        params: of the curve by name; None, like `value` and `sse`, where no curve of the form falls through the points.
        intervals: 95 %, of each parameter and of `value`; None where there is no band.
        at: the largest total that every scheme reaches.
        value: of the curve there.
        sse: the sum of squared residuals.
        other: parameters and `sse` of another minimum that fits better; None where there is none.
        arms: the full names of its points.
        seeds: those that all arms have.
        band: around the curve.
        against: the curve at `at` against that of the constant scheme.
        sentence: that in words; empty where there is nothing to compare with.
        note: why there is no curve or no band.
    """

    scheme: str
    form: str
    control: str | None
    params: Mapping[str, float] | None
    intervals: Mapping[str, tuple[float, float]] | None
    at: int
    value: float | None
    sse: float | None
    other: Mapping[str, float] | None
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    band: Band | None
    against: AgainstScheme | None
    sentence: str
    note: str


def fits(points: Iterable[Point], control: str | None = None) -> Iterator[Fit]:
    """One per form and scheme, the form as published first; none unless two totals of one scheme can be told apart."""
    schemes = _schemes(points)
    if not schemes:
        return
    seeds = sorted(set.intersection(*(set(p.losses) for members in schemes.values() for p in members)))
    at = min(max(p.total for p in members) for members in schemes.values())
    draws = _draws(len(seeds))
    for form in PARAMETERS:
        fitted = {
            name: _fitted(form, members, seeds, draws)
            for name, members in schemes.items()
            if len({p.total for p in members}) >= len(PARAMETERS[form])
        }
        for name, one in fitted.items():
            yield _entry(one, at, fitted.get(AGAINST), name, control)


@dataclass(frozen=True, kw_only=True)
class _Fitted:
    """A form fitted to a scheme: on the mean over seeds, and again on every draw of seeds."""

    form: str
    members: tuple[Point, ...]
    seeds: tuple[int, ...]
    curve: Curve | None
    other: Curve | None
    resampled: tuple[Curve, ...]
    """A curve per draw, a level or a straight line where it has no minimum. Empty where there are no bands."""
    note: str


def _schemes(points: Iterable[Point]) -> dict[str, tuple[Point, ...]]:
    by_scheme: dict[str, list[Point]] = {}
    for point in points:
        if point.losses:
            by_scheme.setdefault(point.scheme, []).append(point)
    enough = {name: members for name, members in by_scheme.items() if len({p.total for p in members}) > 1}
    return {name: tuple(sorted(enough[name], key=lambda p: p.total)) for name in SCHEMES if name in enough}


def _fitted(form: str, members: Sequence[Point], seeds: Sequence[int], draws: np.ndarray) -> _Fitted:
    totals = np.array([p.total for p in members], dtype=float)
    # Arms without a common seed leave nothing to be resampled together; their means are still a curve.
    losses = np.array([[p.losses[s] for s in seeds] for p in members]) if seeds else None
    mean = losses.mean(axis=1) if losses is not None else np.array([np.mean([*p.losses.values()]) for p in members])
    curve, other = fit(form, totals, mean)
    n_totals = len(set(totals.tolist()))
    note = ""
    if curve is None:
        note = f"no curve of this form falls through its points ({counted(n_totals, 'total')})"
    elif n_totals <= len(PARAMETERS[form]):
        note = f"as many parameters as totals ({n_totals}), so the curve goes through its points, and there is no band"
    elif not seeds:
        note = "no seed finished in every arm, so there is no band"
    elif len(seeds) == 1:
        note = "one seed, so there is no band"
    resampled: tuple[Curve, ...] = ()
    if not note and curve is not None and losses is not None:
        different, counts = np.unique(draws, axis=0, return_counts=True)
        drawn = refitted(form, totals, different @ losses.T / len(seeds), near=curve.b)
        resampled = tuple(one for one, count in zip(drawn, counts, strict=True) for _ in range(count))
    return _Fitted(
        form=form,
        members=tuple(members),
        seeds=tuple(seeds),
        curve=curve,
        other=other,
        resampled=resampled,
        note=note,
    )


def _entry(one: _Fitted, at: int, against: _Fitted | None, name: str, control: str | None) -> Fit:
    compared = _against(one, against, at) if against is not None and name != AGAINST else None
    curve, names = one.curve, PARAMETERS[one.form]
    return Fit(
        scheme=name,
        form=one.form,
        control=control,
        params=None if curve is None else {key: getattr(curve, key) for key in names},
        intervals=_intervals(one, at),
        at=at,
        value=None if curve is None else float(curve(at)),
        sse=None if curve is None else curve.sse,
        other=None if one.other is None else {key: getattr(one.other, key) for key in (*names, "sse")},
        arms=tuple(point.arm for point in one.members),
        seeds=one.seeds,
        band=_band(one),
        against=compared,
        sentence="" if compared is None else _sentence(one, compared, at, name),
        note=one.note,
    )


def _intervals(one: _Fitted, at: int) -> dict[str, tuple[float, float]] | None:
    curve = one.curve
    if curve is None or not one.resampled:
        return None
    found = {
        key: _interval([getattr(c, key) for c in one.resampled], getattr(curve, key), len(one.seeds))
        for key in PARAMETERS[one.form]
    }
    found["b"] = (max(found["b"][0], 0.0), found["b"][1])
    return {**found, "value": _interval([float(c(at)) for c in one.resampled], float(curve(at)), len(one.seeds))}


def _band(one: _Fitted) -> Band | None:
    if one.curve is None or not one.resampled:
        return None
    totals = [point.total for point in one.members]
    n = np.geomspace(min(totals), max(totals), POINTS)
    low, high = _quantiles(np.array([curve(n) for curve in one.resampled]), one.curve(n), len(one.seeds))
    return Band(n=tuple(n.tolist()), low=tuple(low.tolist()), high=tuple(high.tolist()))


def _against(one: _Fitted, other: _Fitted, at: int) -> AgainstScheme | None:
    """The relative difference to the constant scheme's curve at n = `at`; the draws of both are the same."""
    if one.curve is None or other.curve is None:
        return None
    pairs = zip(one.resampled, other.resampled, strict=True) if one.resampled and other.resampled else ()
    drawn = [float(mine(at) / theirs(at)) - 1 for mine, theirs in pairs]
    relative = float(one.curve(at) / other.curve(at)) - 1
    interval = _interval(drawn, relative, len(one.seeds)) if drawn else None
    return AgainstScheme(scheme=AGAINST, relative=relative, interval=interval)


def _sentence(one: _Fitted, compared: AgainstScheme, at: int, name: str) -> str:
    relative, interval = compared.relative, compared.interval
    better, amount = relative < 0, Amount.of_share(relative, interval)
    if len(one.seeds) == 1 and one.curve is not None:
        ends = (number(loss, 4) for loss in (float(one.curve(at)), float(one.curve(at)) / (1 + relative)))
        return f"at {at} heads, {name} and {AGAINST} cannot be compared: one seed ({' and '.join(ends)} nats)"
    said = f"at {at} heads, {name} is {amount(abs(relative))} {'better' if better else 'worse'} than {AGAINST}"
    if interval is None:
        reason = "the curves have as many parameters as totals"
        return f"{said} (no interval: {reason if len(one.seeds) else 'no seed finished in every arm'})"
    return f"{said}, 95 % interval {amount(*sorted(-end if better else end for end in interval))}"


def _interval(values: Sequence[float], estimate: float, n_seeds: int) -> tuple[float, float]:
    low, high = _quantiles(np.array(values), np.array(estimate), n_seeds)
    return float(low), float(high)


def _quantiles(drawn: np.ndarray, estimate: np.ndarray, n_seeds: int) -> np.ndarray:
    """The lower and the upper end, from draws along the first axis."""
    from scipy.special import ndtri, stdtrit

    upper = 1 - LEVEL / 2
    wider = np.sqrt(n_seeds / (n_seeds - 1)) * stdtrit(n_seeds - 1, upper) / ndtri(upper)
    if n_seeds == 2:
        wider *= ndtri(upper) / np.sqrt(2)  # both quantiles lie sqrt(2) standard errors off
    return estimate + wider * (np.quantile(drawn, [LEVEL / 2, upper], axis=0) - estimate)


def _draws(n_seeds: int) -> np.ndarray:
    """How often each seed is drawn, (draw, seed): the same draws for every arm, scheme and form."""
    if n_seeds == 0:
        return np.empty((0, 0))
    return np.random.default_rng(0).multinomial(n_seeds, [1 / n_seeds] * n_seeds, size=RESAMPLES)
