"""Loss against the total number of heads: a falling exponential per scheme of head layouts.

The two forms are `exp(-b n) + c` as published, with amplitude 1, and `a exp(-b n) + c`. For a given b both are linear
in the other parameters. So each fit is a search in b alone, which finds every minimum. The curve is the minimum next to
the published start; a minimum that fits better is reported beside it. `refitted` fits many losses of the same points at
once.

A scheme is the pattern of a layout from the first layer to the last. Arms whose runs differ only in their heads can be
put on one curve; `arms_on_curves` finds them from the layouts.

Bands and intervals come from resampling seeds, with the same seeds for every arm. A form with as many parameters as
totals goes through any points, so it has no band. Quantiles of few resampled seeds lie too close together (with three
seeds by a factor of 2.7). They are moved away from the estimate by the factor of Student's t. The quantiles of two
seeds are the seeds themselves, nearer than those of a normal distribution, so they are widened 1.385 times more.

Paper: the head-progression study (blog, November 2024), whose sentence "at 180 heads, descending is x % better than
constant" is recomputed here with an interval. The widening is that of Hesterberg 2015, arXiv 1411.5279, as a factor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.base.identity import grouped, without
from headway.base.words import say
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.lm.layout import HeadLayout
from headway.config.lm.run import TokensRun
from headway.stats.lm.verdicts import scheme_sentence
from headway.stats.simultaneous import LEVEL

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    Array = Float[np.ndarray, " point"]

PUBLISHED_FORM, FREE_FORM = "exp(-b n) + c", "a exp(-b n) + c"
PARAMETERS = {PUBLISHED_FORM: ("b", "c"), FREE_FORM: ("a", "b", "c")}
"""The forms, as published first, and their parameters."""

START = 0.05 * 96
"""The start of the search, b times the median total: b = 0.05 for the published totals."""

GRID = 400
"""Values of b at which minima are looked for."""

_TURNS = 40
"""Turns of the golden section, which narrow two steps of the grid to 1e-9 of the logarithm of b."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A fitted curve: a exp(-b n) + c, and the sum of its squared residuals."""

    a: float
    b: float
    c: float
    sse: float

    def __call__(self, n: Any) -> Any:
        """The loss at a total number of heads, or at many."""
        return self.a * np.exp(-self.b * np.asarray(n, dtype=float)) + self.c


def minima(form: str, totals: Array, losses: Array) -> list[Curve]:
    """Return every local least-squares minimum of a form, by falling b, inside the range of b that the totals can show.

    Examples:
        >>> published = minima(PUBLISHED_FORM, np.array([45.0, 90.0, 180.0]), np.array([1.86, 1.74, 1.65]))
        >>> [(round(curve.b, 4), round(curve.c, 4)) for curve in published]
        [(0.0352, 1.6671), (0.0019, 0.9229)]
    """
    _, log_b = _minima(form, totals, losses[None])
    return _curves(form, np.exp(log_b[::-1]), totals, np.tile(losses, (len(log_b), 1)))


def _minima(
    form: str, totals: Array, losses: Float[np.ndarray, "draw point"]
) -> tuple[Int[np.ndarray, " minimum"], Float[np.ndarray, " minimum"]]:
    """Return the minima of many losses: the row of each, and the logarithm of its b, rising in a row."""
    grid = _grid(totals)
    sse = _profiles(form, np.exp(grid)[None], totals, losses)[2]
    rows, inside = np.nonzero((sse[:, 1:-1] < sse[:, :-2]) & (sse[:, 1:-1] <= sse[:, 2:]))
    return rows, _golden(form, grid[inside], grid[inside + 2], totals, losses[rows])


def fit_curve(form: str, totals: Array, losses: Array) -> tuple[Curve | None, Curve | None]:
    """The curve of a form through points, and another minimum that fits better; None where there is none.

    Args:
        form: the form of the curve, one of `PARAMETERS`.
        totals: heads of all layers of each point.
        losses: the loss of each point.
    """
    curves = minima(form, totals, losses)
    if not curves:
        return None, None
    start = START / float(np.median(totals))
    main = min(curves, key=lambda curve: abs(np.log(curve.b / start)))
    best = min(curves, key=lambda curve: curve.sse)
    return main, best if best.sse < main.sse * (1 - 1e-6) else None


def refitted(form: str, totals: Array, losses: Float[np.ndarray, "draw point"], near: float) -> list[Curve]:
    """Return, for each of many losses, the curve next to `near`; a level or a straight line if it has no minimum.

    It is `fit_curve` of each, eighteen times as fast.
    """
    rows, log_b = _minima(form, totals, losses)
    # Of the minima of a row the nearest is written last.
    order = np.argsort(-np.abs(log_b - np.log(near)), kind="stable")
    curves = _curves(form, np.exp(log_b[order]), totals, losses[rows[order]])
    nearest = dict(zip(rows[order].tolist(), curves, strict=True))
    return [nearest.get(row) or limit(form, totals, drawn) for row, drawn in enumerate(losses)]


def _golden(form: str, low: Array, high: Array, totals: Array, losses: Float[np.ndarray, "draw point"]) -> Array:
    """Return, for each of many losses, the log b between two values at which the sum of squares is least."""
    share = (np.sqrt(5) - 1) / 2

    def at(log_b: Array) -> Array:
        return _profiles(form, np.exp(log_b)[:, None], totals, losses)[2][:, 0]

    first, second = high - share * (high - low), low + share * (high - low)
    of_first, of_second = at(first), at(second)
    for _ in range(_TURNS):
        left = of_first < of_second
        low, high = np.where(left, low, first), np.where(left, second, high)
        new = np.where(left, high - share * (high - low), low + share * (high - low))
        of_new = at(new)
        first, second = np.where(left, new, second), np.where(left, first, new)
        of_first, of_second = np.where(left, of_new, of_second), np.where(left, of_first, of_new)
    return (low + high) / 2


def _curves(form: str, b: Array, totals: Array, losses: Float[np.ndarray, "draw point"]) -> list[Curve]:
    a, c, sse = (part[:, 0].tolist() for part in _profiles(form, b[:, None], totals, losses))
    return [Curve(a=a, b=b, c=c, sse=sse) for a, b, c, sse in zip(a, b.tolist(), c, sse, strict=True)]


def _grid(totals: np.ndarray) -> np.ndarray:
    """The logarithms of b, from a curve that is a straight line over all totals to one level at the smallest."""
    return np.linspace(np.log(1e-2 / totals.max()), np.log(12 / totals.min()), GRID)


def _profiles(
    form: str, b: Float[np.ndarray, "#draw b"], totals: Array, losses: Float[np.ndarray, "draw point"]
) -> tuple[Float[np.ndarray, "draw b"], ...]:
    """Return, for each of many losses and values of b, the best a and c, and the residual sum of squares."""
    # Points come first: sums over a short last axis take several times as long.
    decay, points = np.exp(-b * totals[:, None, None]), losses.T[:, :, None]
    centred, rest = decay - decay.mean(axis=0), points - points.mean(axis=0)
    if form == PUBLISHED_FORM:
        a = np.ones((len(losses), b.shape[1]))
    else:
        spread = np.broadcast_to((centred**2).sum(axis=0), (len(losses), b.shape[1]))
        product = (centred * rest).sum(axis=0)
        a = np.divide(product, spread, out=np.zeros_like(product), where=spread > 0)
    c = points.mean(axis=0) - a * decay.mean(axis=0)
    return a, c, ((rest - a * centred) ** 2).sum(axis=0)


def limit(form: str, totals: np.ndarray, losses: np.ndarray) -> Curve:
    """Return the limit of points without a minimum: the better-fitting end of the search, a line or a level."""
    ends = _curves(form, np.exp(_grid(totals)[[0, -1]]), totals, np.stack([losses] * 2))
    return min(ends, key=lambda curve: curve.sse)


SCHEMES = ("ascending", "constant", "descending")

_HEADS = ("n_heads", "n_kv_heads", "d_head")


def layout_of(arm: Arm) -> HeadLayout:
    """The head layout of an arm of the language-model laboratory."""
    assert isinstance(arm.resolved_spec, TokensRun)
    return arm.resolved_spec.model.layout


def arms_on_curves(experiment: Experiment, arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms, all without a control or all under one, that form a curve per scheme.

    Where the experiment has groups, those in no group are points to compare with and not to be fitted. None at all
    when more than the heads differs, or when all have as many heads.
    """
    chosen = [arm for arm in arms if arm.group is not None or not experiment.groups]
    alike = all(_but_heads(arm) == _but_heads(chosen[0]) for arm in chosen)
    several = len({layout_of(arm).total for arm in chosen}) > 1
    return tuple(arm for arm in chosen if arm.resolved_spec.scheme) if alike and several else ()


def _but_heads(arm: Arm) -> dict[str, Any]:
    content = arm.spec(0).content()
    content["model"] = without(content["model"], *_HEADS)
    return content


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
    """The difference of a curve to another scheme's, at one total number of heads; below 0 is better."""

    scheme: str
    relative: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A form fitted to the arms of a scheme.

    Attributes:
        scheme: the scheme of the layouts.
        form: the form of the curve, one of `PARAMETERS`.
        control: the control of all its arms.
        params: the parameters by name; None, like `value` and `sse`, if no falling curve of the form fits the points.
        intervals: 95 % intervals of each parameter and of `value`; None without a band.
        at: the largest total number of heads that every scheme reaches.
        value: the loss of the curve at `at`.
        sse: the sum of squared residuals.
        other: the parameters and `sse` of another minimum that fits better; None if there is none.
        arms: the full names of its points.
        seeds: the seeds that all arms have.
        band: the band around the curve.
        against: the difference to the curve of the constant scheme at `at`.
        sentence: the difference in words; empty without one.
        note: the reason why there is no curve or no band.
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
    """Return a fit per form and scheme, the published form first; none unless a scheme has two different totals."""
    schemes = _schemes(points)
    if not schemes:
        return
    seeds = sorted(set.intersection(*(set(p.losses) for members in schemes.values() for p in members)))
    at = min(max(p.total for p in members) for members in schemes.values())
    for form in PARAMETERS:
        fitted = {
            name: _fitted(form, members, seeds)
            for name, members in schemes.items()
            if len({p.total for p in members}) >= len(PARAMETERS[form])
        }
        for name, of_scheme in fitted.items():
            yield _entry(of_scheme, at, fitted.get(AGAINST), name, control)


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
    by_scheme = grouped(filter(attrgetter("losses"), points), lambda point: point.scheme)
    enough = {name: members for name, members in by_scheme.items() if len({p.total for p in members}) > 1}
    return {name: tuple(sorted(enough[name], key=lambda p: p.total)) for name in SCHEMES if name in enough}


def _fitted(form: str, members: Sequence[Point], seeds: Sequence[int]) -> _Fitted:
    totals = np.array([p.total for p in members], dtype=float)
    # Arms without a common seed leave nothing to be resampled together; their means are still a curve.
    losses = np.array([[p.losses[s] for s in seeds] for p in members]) if seeds else None
    mean = losses.mean(axis=1) if losses is not None else np.array([np.mean([*p.losses.values()]) for p in members])
    curve, other = fit_curve(form, totals, mean)
    n_totals = len(set(totals.tolist()))
    note = ""
    if curve is None:
        note = say("no_curve", n=n_totals)
    elif n_totals <= len(PARAMETERS[form]):
        note = say("exact_curve", n=n_totals)
    elif not seeds:
        note = say("no_seed_band")
    elif len(seeds) == 1:
        note = say("one_seed_band")
    resampled: tuple[Curve, ...] = ()
    if not note and curve is not None and losses is not None:
        n = len(seeds)
        # How often each seed is drawn (draw, seed): one set of draws for every arm, scheme and form.
        draws = np.random.default_rng(0).multinomial(n, [1 / n] * n, size=RESAMPLES)
        different, counts = np.unique(draws, axis=0, return_counts=True)
        drawn = refitted(form, totals, different @ losses.T / n, near=curve.b)
        resampled = tuple(drawn_curve for drawn_curve, count in zip(drawn, counts, strict=True) for _ in range(count))
    return _Fitted(
        form=form,
        members=tuple(members),
        seeds=tuple(seeds),
        curve=curve,
        other=other,
        resampled=resampled,
        note=note,
    )


def _entry(fitted: _Fitted, at: int, against: _Fitted | None, name: str, control: str | None) -> Fit:
    compared = _against(fitted, against, at) if against is not None and name != AGAINST else None
    curve, names = fitted.curve, PARAMETERS[fitted.form]
    return Fit(
        scheme=name,
        form=fitted.form,
        control=control,
        params=None if curve is None else {key: getattr(curve, key) for key in names},
        intervals=_intervals(fitted, at),
        at=at,
        value=None if curve is None else float(curve(at)),
        sse=None if curve is None else curve.sse,
        other=None if fitted.other is None else {key: getattr(fitted.other, key) for key in (*names, "sse")},
        arms=tuple(point.arm for point in fitted.members),
        seeds=fitted.seeds,
        band=_band(fitted),
        against=compared,
        sentence=""
        if compared is None or curve is None
        else scheme_sentence(
            (name, AGAINST), at, compared.relative, compared.interval, loss=float(curve(at)), n_seeds=len(fitted.seeds)
        ),
        note=fitted.note,
    )


def _intervals(fitted: _Fitted, at: int) -> dict[str, tuple[float, float]] | None:
    if fitted.curve is None or not fitted.resampled:
        return None
    curve, *drawn = ({**vars(each), "value": float(each(at))} for each in (fitted.curve, *fitted.resampled))
    names = (*PARAMETERS[fitted.form], "value")
    intervals = {name: _interval([each[name] for each in drawn], curve[name], len(fitted.seeds)) for name in names}
    return intervals | {"b": (max(intervals["b"][0], 0.0), intervals["b"][1])}


def _band(fitted: _Fitted) -> Band | None:
    if fitted.curve is None or not fitted.resampled:
        return None
    totals = [point.total for point in fitted.members]
    n = np.geomspace(min(totals), max(totals), POINTS)
    low, high = _quantiles(np.array([curve(n) for curve in fitted.resampled]), fitted.curve(n), len(fitted.seeds))
    return Band(n=tuple(n.tolist()), low=tuple(low.tolist()), high=tuple(high.tolist()))


def _against(fitted: _Fitted, other: _Fitted, at: int) -> AgainstScheme | None:
    """Return the relative difference to the constant scheme's curve at n = `at`; both curves share their draws."""
    if fitted.curve is None or other.curve is None:
        return None
    pairs = zip(fitted.resampled, other.resampled, strict=True) if fitted.resampled and other.resampled else ()
    drawn = [float(mine(at) / theirs(at)) - 1 for mine, theirs in pairs]
    relative = float(fitted.curve(at) / other.curve(at)) - 1
    interval = _interval(drawn, relative, len(fitted.seeds)) if drawn else None
    return AgainstScheme(scheme=AGAINST, relative=relative, interval=interval)


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
