"""Heads: what patching showed: how much of a metric's difference comes back with what one head did on another text.

Numpy alone, as `heads.scores`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from headway.heads.causes.effects import interval, share_interval
from headway.heads.causes.kinds import Head, named
from headway.heads.causes.patch_findings import patch_sentences
from headway.heads.scores_json import five_digits

PatchSite = Literal["z", "q", "k", "v", "pattern"]
PATCH_SITES: tuple[PatchSite, ...] = get_args(PatchSite)
"""What of a head is taken from the clean run: its context, its queries, keys or values, or its attention weights."""

Through = Literal["q", "k", "v"]
THROUGH: tuple[Through, ...] = get_args(Through)
"""Into which input of a later head another one writes."""


@dataclass(frozen=True, kw_only=True)
class HeadPaths:
    """Direct effects of heads on later heads: what a later head does with what another one wrote on the clean text.

    Attributes:
        heads: of each row (which writes) and column (which reads).
        through: by input of the reader, (writer, reader): the metric's change; NaN where the reader is not later.
        to_output: of each writer, on the metric with nothing between.
    """

    heads: tuple[Head, ...]
    through: Mapping[Through, Float[np.ndarray, "writer reader"]]
    to_output: Float[np.ndarray, " writer"]


@dataclass(frozen=True, kw_only=True)
class Patching:
    """Heads of a corrupted run, each in turn as it was in the clean one.

    Attributes:
        heads: in the order of the model.
        clean: the metric of each example of the clean run.
        corrupted: that of the corrupted one, example by example.
        effects: by site, the metric's change by patching a head: (head, example), or (head, pos, example).
        estimates: the same to first order, from one gradient; softmaxes are computed anew.
        cancels: of each head whether its estimate is much smaller than with the gradient through some layer left out,
            so that paths cancel and the estimate is not to be trusted.
        paths: direct effects between heads; None where nobody asked, or they cannot be measured.
        no_paths: why they cannot be, in a sentence, where somebody asked.
    """

    heads: tuple[Head, ...]
    clean: Float[np.ndarray, " example"]
    corrupted: Float[np.ndarray, " example"]
    effects: Mapping[PatchSite, Float[np.ndarray, "_head *pos example"]]
    estimates: Mapping[PatchSite, Float[np.ndarray, "_head *pos example"]]
    cancels: tuple[bool, ...]
    paths: HeadPaths | None = None
    no_paths: str | None = None

    @property
    def difference(self) -> float:
        """Of the metric between the runs: what there is to be restored."""
        return float((self.clean - self.corrupted).mean())

    @property
    def differs(self) -> bool:
        """Whether the runs differ: by Student's interval over examples; of one example, by anything."""
        difference = self.clean - self.corrupted
        if len(difference) < 2:
            return bool(difference.any())
        low, high = self.difference_interval()
        return low > 0 or high < 0

    def difference_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Student's interval of the difference over examples; NaN with one."""
        low, high = interval(self.clean - self.corrupted, self._each, confidence)
        return float(low), float(high)

    def restored(self, site: PatchSite) -> Float[np.ndarray, "..."]:
        """The share of the difference that each head brings back; NaN where the runs do not differ."""
        mean = self.effects[site].mean(-1)
        return np.asarray(mean / self.difference if self.differs else np.full_like(mean, np.nan))

    def interval(self, site: PatchSite, confidence: float = 0.95) -> Float[np.ndarray, "_head *pos 2"]:
        """Student's interval of each mean effect over examples; NaN with one."""
        return np.stack(interval(self.effects[site], self._each, confidence), axis=-1)

    def restored_by_heads(self, site: PatchSite) -> Float[np.ndarray, " _head"]:
        """As `restored`, of each head; by position the sum over positions."""
        share = self.restored(site)
        return share if share.ndim == 1 else share.sum(1)

    def restored_interval(self, site: PatchSite, confidence: float = 0.95) -> Float[np.ndarray, "_head 2"]:
        """Student's interval of that over examples, of each head on its own; NaN where nothing is told."""
        effects = self.effects[site]
        totals = effects if effects.ndim == 2 else effects.sum(1)
        if not self.differs:
            return np.full((len(totals), 2), np.nan)
        return np.stack(share_interval(totals, self.clean - self.corrupted, self._each, confidence), axis=-1)

    def corrected_interval(self, site: PatchSite, confidence: float = 0.95) -> Float[np.ndarray, "_head 2"]:
        """The same for all heads at once: Bonferroni's correction for their number."""
        return self.restored_interval(site, 1 - (1 - confidence) / max(1, len(self.heads)))

    @property
    def _each(self) -> Int[np.ndarray, " example"]:
        return np.ones(len(self.clean), int)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What there is to be restored, which heads restore it, a sentence for each site; estimates not to trust."""
        return tuple(patch_sentences(self))

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values, means and intervals over examples, numbers to five digits."""
        return {
            "schema": 1,
            "heads": [named(head) for head in self.heads],
            "n_examples": len(self.clean),
            "clean": five_digits(float(self.clean.mean())),
            "corrupted": five_digits(float(self.corrupted.mean())),
            "difference": {"value": five_digits(self.difference), "interval": five_digits(self.difference_interval())},
            "effects": {site: five_digits(found.mean(-1)) for site, found in self.effects.items()},
            "intervals": {site: five_digits(self.interval(site)) for site in self.effects},
            "restored": {
                site: {
                    "share": five_digits(self.restored_by_heads(site)),
                    "interval": five_digits(self.restored_interval(site)),
                    "corrected_interval": five_digits(self.corrected_interval(site)),
                }
                for site in self.effects
            },
            "estimates": {site: five_digits(found.mean(-1)) for site, found in self.estimates.items()},
            "cancels": list(self.cancels),
            "paths": None
            if self.paths is None
            else {
                "through": {name: five_digits(found) for name, found in self.paths.through.items()},
                "to_output": five_digits(self.paths.to_output),
            },
            "no_paths": self.no_paths,
            "sentences": list(self.sentences),
        }
