"""Results of activation patching on pairs of texts: which heads restore a metric's difference.

A head is named if the share that it restores is beyond 1 % of the difference, to either side, by an interval over
examples that holds for all heads of the model at once. One pair of texts has no interval: there heads are named from 5
% on, and a sentence says so.

The results include the patterns of the named heads on the first pair. Numpy alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from headway.base.words import HeadStatement, say, statement
from headway.causal.effects import Head, floats, interval, named, share_interval
from headway.heads.findings import Finding
from headway.heads.results import ModelOnText
from headway.heads.scores import five_digits

MATTERS = 0.01
"""The share of the difference that an interval has to exceed for its head to be named."""
OF_ONE = 0.05
"""The share from which on a head is named if there is one pair of texts, and so no interval."""
PARTS: Mapping["PatchSite", str] = {
    "z": "a head's output (z)",
    "q": "a head's queries (q)",
    "k": "a head's keys (k)",
    "v": "a head's values (v)",
    "pattern": "a head's pattern",
}
QUANTITIES = {"logit difference": "logit difference", "log probability": "log-probability difference"}
"""The difference that patching restores, by the kind of metric."""


def patch_statements(patching: "Patching") -> Iterator[HeadStatement]:
    """Yield what the model knows, the difference to restore, heads that restore it, and unreliable estimates."""
    yield from _known(patching)
    yield from _difference(patching)
    if patching.knows is False:
        yield statement("unknown_answer")
    elif patching._reversed:
        yield statement("favours_corrupted")
    elif not patching.differs:
        yield statement("equal_metric" if len(patching.clean) < 2 else "unclear_difference")
    else:
        for site in patching.effects:
            yield from _heads(patching, site)
        if any(patching.cancels):
            heads = [named(head) for head, cancels in zip(patching.heads, patching.cancels, strict=True) if cancels]
            yield statement("cancels", heads=tuple(heads))


def _known(patching: "Patching") -> Iterator[HeadStatement]:
    """Yield whether the model knows the answer on the clean text, as far as the metric tells."""
    clean, n = patching.clean, len(patching.clean)
    mean = float(clean.mean())
    ends = floats(interval(clean, patching._each))
    if patching.asks == "logit difference":
        known = "knows_answer" if patching.knows else "does_not_know" if mean <= 0 else "not_found_to_know"
        yield statement(known)
        if n < 2:
            yield statement("logit_of_one", value=mean)
        else:
            yield statement("logits", value=mean, interval=ends, right=int((clean > 0).sum()), n=n)
    elif patching.asks == "log probability":
        before, after = (100 * float(np.exp(values).mean()) for values in (clean, patching.corrupted))
        yield statement("probabilities", clean=before, corrupted=after)
    elif not (mean > 0 and (n < 2 or ends[0] > 0)):
        yield statement("not_above_0")


def _difference(patching: "Patching") -> Iterator[HeadStatement]:
    n = len(patching.clean)
    yield statement("metric", clean=float(patching.clean.mean()), corrupted=float(patching.corrupted.mean()))
    if n < 2:
        yield statement("one_pair", least=OF_ONE)
    else:
        yield statement("difference", n=n, difference=patching.difference, interval=patching.difference_interval())


def _heads(patching: "Patching", site: "PatchSite") -> Iterator[HeadStatement]:
    shares, ends = patching.restored_by_heads(site), patching.corrected_interval(site)
    quantity = QUANTITIES.get(patching.asks or "", "metric difference")
    is_one = len(patching.clean) < 2
    matters = np.abs(shares) >= OF_ONE if is_one else (ends[:, 0] > MATTERS) | (ends[:, 1] < -MATTERS)
    order = [int(at) for at in np.argsort(-np.abs(shares), kind="stable") if matters[at]]
    said = {"part": PARTS[site], "quantity": quantity}
    if order:
        entries = tuple(_share(named(patching.heads[at]), float(shares[at]), ends[at]) for at in order)
        yield statement("restored", **said, heads=entries)
    else:
        yield statement("none_restored", **said)
    if patching.effects[site].ndim > 2:
        yield statement("by_position")


def _share(head: str, share: float, ends: np.ndarray) -> HeadStatement:
    if not np.isfinite(ends).all():
        return statement("share", heads=(head,), share=share)
    return statement("share_within", heads=(head,), share=share, interval=floats(ends))


PatchSite = Literal["z", "q", "k", "v", "pattern"]
PATCH_SITES: tuple[PatchSite, ...] = get_args(PatchSite)
"""The parts of a head that are taken from the clean run: its context, queries, keys or values, or attention weights."""

Asks = Literal["logit difference", "log probability"]
"""The metrics of an answer: its logit less that of the wrong one, or the logarithm of its probability."""

Through = Literal["q", "k", "v"]
THROUGH: tuple[Through, ...] = get_args(Through)
"""The inputs of a later head that an earlier one may write into."""


@dataclass(frozen=True, kw_only=True)
class HeadPaths:
    """Direct effects of heads on later heads, through what the earlier one wrote on the clean text.

    Attributes:
        heads: the heads of the rows, which write, and of the columns, which read.
        through: the metric's change by input of the reader, (writer, reader); NaN where the reader is not later.
        to_output: the direct effect of each writer on the metric.
    """

    heads: tuple[Head, ...]
    through: Mapping[Through, Float[np.ndarray, "writer reader"]]
    to_output: Float[np.ndarray, " writer"]


@dataclass(frozen=True, kw_only=True)
class Patching:
    """The effects of patching a corrupted run with each head of the clean one in turn.

    Attributes:
        heads: the heads, in the order of the model.
        clean: the metric of each example of the clean run.
        corrupted: the metric of each example of the corrupted run.
        effects: the metric's change by patching a head, by site: (head, example), or (head, pos, example).
        estimates: the same to first order, from one gradient; softmaxes are computed anew.
        cancels: True for each head whose estimate is much smaller than with the gradient through some layer left out.
            Then paths cancel, and the estimate cannot be trusted.
        paths: direct effects between heads; None if they were not asked for, or cannot be measured.
        no_paths: the reason why paths cannot be measured, if they were asked for.
        asks: the kind of metric; None: a function of the user's own.
    """

    heads: tuple[Head, ...]
    clean: Float[np.ndarray, " example"]
    corrupted: Float[np.ndarray, " example"]
    effects: Mapping[PatchSite, Float[np.ndarray, "_head *pos example"]]
    estimates: Mapping[PatchSite, Float[np.ndarray, "_head *pos example"]]
    cancels: tuple[bool, ...]
    paths: HeadPaths | None = None
    no_paths: str | None = None
    asks: Asks | None = None

    @property
    def knows(self) -> bool | None:
        """True if the clean logit difference is above 0, by its interval over examples; None for another metric."""
        if self.asks != "logit difference":
            return None
        low = self.clean[0] if len(self.clean) < 2 else interval(self.clean, self._each)[0]
        return bool(low > 0)

    @property
    def _reversed(self) -> bool:
        """True if the metric is one of an answer, and is not larger on the clean text than on the corrupted one."""
        return self.asks is not None and self.differs and self.difference < 0

    @property
    def restorable(self) -> bool:
        """True if there is a difference that patching can restore: the runs differ, and the model knows the answer."""
        return self.differs and self.knows is not False and not self._reversed

    @property
    def difference(self) -> float:
        """The difference of the metric between the runs, which patching restores."""
        return float((self.clean - self.corrupted).mean())

    @property
    def differs(self) -> bool:
        """True if the runs differ: by the interval over examples, or at all for one example."""
        if len(self.clean) < 2:
            return self.difference != 0
        low, high = self.difference_interval()
        return low > 0 or high < 0

    def difference_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval of the difference over examples; NaN with one."""
        return floats(interval(self.clean - self.corrupted, self._each, confidence))

    def restored(self, site: PatchSite) -> Float[np.ndarray, "..."]:
        """Return the share of the difference that each head brings back; NaN if there is nothing to restore."""
        mean = self.effects[site].mean(-1)
        return np.asarray(mean / self.difference if self.restorable else np.full_like(mean, np.nan))

    def interval(self, site: PatchSite, confidence: float = 0.95) -> Float[np.ndarray, "_head *pos 2"]:
        """Return the interval of each mean effect over examples; NaN with one."""
        return np.stack(interval(self.effects[site], self._each, confidence), axis=-1)

    def restored_by_heads(self, site: PatchSite) -> Float[np.ndarray, " _head"]:
        """Return the share that each head restores; by position, the sum over positions."""
        return _over_positions(self.restored(site), 1)

    def restored_interval(
        self, site: PatchSite, confidence: float = 0.95, *, at_once: bool = False
    ) -> Float[np.ndarray, "_head 2"]:
        """Return the interval of each head's restored share over examples; NaN if nothing can be told."""
        totals = _over_positions(self.effects[site], 2)
        if not self.restorable:
            return np.full((len(totals), 2), np.nan)
        wholes = self.clean - self.corrupted
        return np.stack(share_interval(totals, wholes, self._each, confidence, at_once=at_once), axis=-1)

    def corrected_interval(self, site: PatchSite, confidence: float = 0.95) -> Float[np.ndarray, "_head 2"]:
        """Return intervals that hold for all heads at once."""
        return self.restored_interval(site, confidence, at_once=True)

    @property
    def _each(self) -> Int[np.ndarray, " example"]:
        """The weight of each example: 1."""
        return np.ones(len(self.clean), int)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences on what the model knows, the difference, the heads that restore it, and unreliable estimates."""
        return tuple(each.sentence for each in patch_statements(self))

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, means and intervals over examples, numbers to five digits."""
        return {
            "schema": 1,
            "heads": [named(head) for head in self.heads],
            "n_examples": len(self.clean),
            "metric": self.asks,
            "knows_answer": self.knows,
            "clean": five_digits(float(self.clean.mean())),
            "corrupted": five_digits(float(self.corrupted.mean())),
            "difference": five_digits({"value": self.difference, "interval": self.difference_interval()}),
            "effects": {site: five_digits(found.mean(-1)) for site, found in self.effects.items()},
            "intervals": five_digits({site: self.interval(site) for site in self.effects}),
            "restored": {
                site: five_digits(
                    {
                        "share": self.restored_by_heads(site),
                        "interval": self.restored_interval(site),
                        "corrected_interval": self.corrected_interval(site),
                    }
                )
                for site in self.effects
            },
            "estimates": {site: five_digits(found.mean(-1)) for site, found in self.estimates.items()},
            "cancels": list(self.cancels),
            "paths": self.paths and five_digits({"through": self.paths.through, "to_output": self.paths.to_output}),
            "no_paths": self.no_paths,
            "sentences": list(self.sentences),
        }


def _over_positions(values: np.ndarray, ndim: int) -> np.ndarray:
    """Return numbers of each head, summed over positions if there are any."""
    return values if values.ndim == ndim else values.sum(1)


_INTO = {"q": "queries", "k": "keys", "v": "values"}


@dataclass(frozen=True, kw_only=True)
class HeadPattern:
    """The attention pattern of a head on both texts of the first pair."""

    head: Head
    clean: Float[np.ndarray, "query key"]
    corrupted: Float[np.ndarray, "query key"]


@dataclass(frozen=True, kw_only=True)
class StrongestPath:
    """The direct path between two heads that changes the metric most."""

    writer: Head
    reader: Head
    through: Through
    change: float


@dataclass(frozen=True, kw_only=True)
class PatchedModel(ModelOnText):
    """A model on clean texts, and on corrupted ones into which its heads are patched one by one.

    Attributes:
        metric: the question that the metric answers, in words.
        clean: the tokens of the clean text of the first pair, as written.
        corrupted: the tokens of the corrupted text of the first pair, as written.
        positions: the label of each position over all pairs.
        patching: the effects of all patches.
        patterns: the patterns of the heads of the strongest path, or else of the head that moves the metric most.
    """

    metric: str
    clean: tuple[str, ...]
    corrupted: tuple[str, ...]
    positions: tuple[str, ...]
    patching: Patching
    patterns: tuple[HeadPattern, ...]

    @property
    def nothing(self) -> str:
        """The sentence of a page without findings."""
        return statement("same_texts").sentence

    @property
    def read(self) -> str:
        """A phrase that says how much of which texts was read."""
        most = "at most " if self.n_sequences > 2 else ""
        n, length = self.n_sequences // 2, self.length
        return say("read_texts", n=n, most=most, length=length, tokens=self.n_tokens, text=self.text)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Findings: the metric on both texts, the heads that restore it, and the strongest path."""
        found = [Finding(about="patching", statements=(each,)) for each in patch_statements(self.patching)]
        path = strongest_path(self.patching) if self.patching.restorable else None
        if path is not None:
            heads = {"writer": (named(path.writer),), "reader": (named(path.reader),)}
            strongest = statement("strongest_path", **heads, input=_INTO[path.through], change=path.change)
            found.append(Finding(about="paths", statements=(strongest,)))
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, numbers to five digits."""
        return {
            "schema": 1,
            **super().to_json(),
            "metric": self.metric,
            "tokens": {"clean": list(self.clean), "corrupted": list(self.corrupted)},
            "patching": self.patching.to_json(),
            "patterns": [
                {"head": named(each.head), **five_digits({"clean": each.clean, "corrupted": each.corrupted})}
                for each in self.patterns
            ],
            "findings": [finding.to_json() for finding in self.findings],
            "notes": list(self.notes),
        }


def strongest_path(patching: Patching) -> StrongestPath | None:
    """Return the strongest path of all pairs of heads and inputs; None if no path was measured or possible."""
    paths = patching.paths
    if paths is None:
        return None
    changes = np.stack(list(paths.through.values()))
    if not np.isfinite(changes).any():
        return None
    at, row, column = np.unravel_index(np.nanargmax(np.abs(changes)), changes.shape)
    return StrongestPath(
        writer=paths.heads[row],
        reader=paths.heads[column],
        through=list(paths.through)[at],
        change=float(changes[at, row, column]),
    )
