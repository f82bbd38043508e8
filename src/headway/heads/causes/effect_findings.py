"""Heads: which heads matter, in sentences. Numpy alone, as `heads.scores`.

A head is named where its effect is above .01 nats per token, to either side, by an interval that holds for all heads of
the model at once; all others are bounded by the same intervals.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headway.heads.causes.effects import ExactEffects, HeadEffects, interval
from headway.heads.causes.kinds import KINDS, Head, Kind, named
from headway.heads.findings import NAMED, Finding
from headway.words import counted, listed

if TYPE_CHECKING:
    from headway.heads.causes.ablated import Ablation

MATTERS = 0.01
"""Nats per token from which on an effect is named."""
_LEAST = 0.001
"""Nats below which a bound is not said."""
_RANKED = 4
"""Heads below which a rank correlation says nothing."""
SAID: Mapping[Kind, str] = {"zero": "set to zero", "mean": "at their mean", "resample": "resampled"}
ESTIMATES = {"michel": "Michel's importance", "first-order": "first-order attribution", "integrated": "integrated"}


def effect_findings(found: "Ablation") -> Iterator[Finding]:
    """Which heads matter by each way of taking them away, how far the ways agree, and what estimates are worth."""
    for kind in KINDS:
        yield Finding(about=f"{kind}_ablation_nats", sentence=_heads(found.exact.single[kind], kind))
    yield Finding(about="joint_effect", sentence=_joint(found))
    if agreement := _ways(found):
        yield Finding(about="agreement", sentence=agreement)
    if estimates := _estimates(found):
        yield Finding(about="estimates", sentence=estimates)
    if found.pairs is not None:
        yield from (Finding(about="interactions", sentence=_pairs(found, kind)) for kind in KINDS)


def nats(value: float) -> str:
    """A number of nats as sentences have it: two digits after the point, three where it is small, no leading 0.

    Examples:
        >>> nats(0.5234), nats(-0.0312), nats(0.00042), nats(1.5), nats(-0.0001)
        ('.52', '−.031', '.000', '1.50', '.000')
    """
    return _written(value, _digits(value))


def within(value: float, ends: Sequence[float]) -> str:
    """A number with its interval, to the same digits.

    Examples:
        >>> within(0.5234, (0.4719, 0.5688))
        '.52 (.47 to .57)'
    """
    digits = _digits(value)
    low, high = (_written(end, digits) for end in ends)
    return f"{_written(value, digits)} ({low} to {high})"


def _digits(value: float) -> int:
    return 2 if abs(value) >= 0.095 else 3


def _written(value: float, digits: int) -> str:
    text = f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")
    return text.replace("0.", ".", 1) if abs(round(value, digits)) < 1 else text


def share_that_is_told(exact: ExactEffects, kind: Kind) -> float:
    """What single effects are of the joint one; NaN where that cannot be told from 0: a share of noise says nothing."""
    low, high = interval(exact.joint[kind], exact.tokens)
    return exact.share_of_joint(kind) if low > 0 or high < 0 else float("nan")


def heads_told(effects: HeadEffects) -> int:
    """How many heads have an effect that is told from 0, by intervals that hold for all heads at once."""
    ends = np.concatenate([*effects.corrected_interval(), np.zeros((0, 2))])
    return int(((ends[:, 0] > 0) | (ends[:, 1] < 0)).sum())


def _heads(effects: HeadEffects, kind: Kind) -> str:
    ends = np.concatenate([*effects.corrected_interval(), np.zeros((0, 2))])
    heads = [(head, effect, tuple(ends[at])) for at, (head, effect) in enumerate(effects.heads())]
    up = sorted((h for h in heads if h[2][0] > MATTERS), key=lambda h: -h[1])
    down = sorted((h for h in heads if h[2][1] < -MATTERS), key=lambda h: h[1])
    rest = [h for h in heads if h not in up and h not in down]
    said = [*_some(up, "rises"), *_some(down, "falls")]
    begun = f"heads {SAID[kind]}"
    most = max((max(map(abs, h[2])) for h in rest), default=None)
    if not said:
        assert most is not None, "a model has heads"
        return f"{begun}: no head is found to matter; none by more than {nats(max(most, _LEAST))} nats per token"
    if most is not None:
        said.append(f"no other head matters by more than {nats(max(most, _LEAST))}")
    return f"{begun}: {'; '.join(said)}"


def _some(heads: Sequence[tuple[Head, float, Sequence[float]]], moves: str) -> list[str]:
    if not heads:
        return []
    first, *others = heads[:NAMED]
    head, effect, ends = first
    said = f"without {named(head)} the loss {moves} by {_nats_within(abs(effect), ends)}"
    if others:
        said += ", " + listed(f"without {named(h)} by {within(abs(e), _sizes(i))}" for h, e, i in others)
    if len(heads) > NAMED:
        said += f", and without {counted(len(heads) - NAMED, 'other head')} by {nats(abs(heads[NAMED][1]))} and less"
    return [said]


def _nats_within(value: float, ends: Sequence[float]) -> str:
    number, _, span = within(value, _sizes(ends)).partition(" ")
    return f"{number} nats per token {span}"


def _sizes(ends: Sequence[float]) -> tuple[float, float]:
    low, high = sorted(map(abs, ends))
    return low, high


def _joint(found: "Ablation") -> str:
    exact = found.exact
    totals = {kind: exact.joint_mean(kind) for kind in KINDS}
    changes = listed(f"{nats(total)} ({kind})" for kind, total in totals.items())
    said = f"without any head the loss changes by {changes} nats per token"
    shares = {kind: share_that_is_told(exact, kind) for kind in KINDS}
    told = [kind for kind in KINDS if np.isfinite(shares[kind])]
    if not told:
        return said
    ways = f" ({', '.join(told)})" if len(told) < len(KINDS) else ""
    percents = listed(f"{100 * shares[kind]:.0f} %".replace("-", "−") for kind in told) + ways
    return f"{said}; the effects of single heads sum to {percents} of that (100 % where effects add up)"


def _ways(found: "Ablation") -> str:
    """Rank correlations of the ways with one another, as far as each tells an effect from 0."""
    told = ways_told(found)
    agree = {ways: value for ways, value in found.agreement_of_kinds.items() if set(ways) <= set(told)}
    few = len(found.exact.single["mean"].flat()) < _RANKED
    if few or not agree or not all(np.isfinite(value) for value in agree.values()):
        return ""
    pairs = listed(f"{nats(value)} of {one} and {other}" for (one, other), value in agree.items())
    return f"rank correlation of the effects of heads: {pairs}"


def ways_told(found: "Ablation") -> list[Kind]:
    """The ways of taking heads away in which some head's effect is told from 0: in others only noise has ranks."""
    return [kind for kind in KINDS if heads_told(found.exact.single[kind])]


def _estimates(found: "Ablation") -> str:
    if len(found.exact.single["mean"].flat()) < _RANKED:
        return ""
    told, begun = ways_told(found), "rank correlation of estimates with the exact effects"
    if not told:
        return f"{begun}: no head's effect is told from 0, so there is nothing to rank"
    parts = []
    for name, said in ESTIMATES.items():
        values = [found.agreement[kind][name] for kind in told]
        if all(np.isfinite(values)):
            parts.append(f"{said} {_listed(values)}")
            sizes = [found.agreement_of_sizes[kind] for kind in told]
            if name == "michel" and all(np.isfinite(sizes)):
                parts[-1] += f" (and {_listed(sizes)} with their sizes, since it has no sign)"
    return f"{begun} ({', '.join(told)}): {'; '.join(parts)}" if parts else ""


def _listed(values: Sequence[float]) -> str:
    return ", ".join(nats(value) for value in values)


def _pairs(found: "Ablation", kind: Kind) -> str:
    pairs = found.pairs
    assert pairs is not None
    means, (low, high) = pairs.mean(kind), pairs.corrected_interval(kind)
    told = [i for i in np.argsort(-np.abs(means)) if low[i] > MATTERS or high[i] < -MATTERS]
    if not told:
        return f"pairs {SAID[kind]}: no pair is found to interact by more than {nats(MATTERS)} nats per token"
    said = [
        f"{named(pairs.heads[i][0])} and {named(pairs.heads[i][1])} {within(float(means[i]), (low[i], high[i]))}"
        for i in told[:NAMED]
    ]
    more = f", and {counted(len(told) - NAMED, 'other pair')}" if len(told) > NAMED else ""
    return (
        f"pairs {SAID[kind]}, both together minus each alone, in nats per token: {', '.join(said)}{more}; above 0 one "
        "makes up for the other, below 0 they work together"
    )
