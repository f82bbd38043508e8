"""Heads: what patching showed: how much of a metric's difference comes back with what one head did on another text.

Numpy alone, as `heads.scores`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from headway.heads.causes.effects import interval
from headway.heads.causes.kinds import Head, named
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

    def restored(self, site: PatchSite) -> Float[np.ndarray, "..."]:
        """The share of the difference that each head brings back; NaN where the runs do not differ."""
        difference = self.difference
        mean = self.effects[site].mean(-1)
        return np.asarray(mean / difference if difference else np.full_like(mean, np.nan))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Which heads bring back most, a sentence for each site; and what estimates are not to be trusted."""
        return tuple(self._sentences())

    def _sentences(self) -> Iterator[str]:
        clean, corrupted = self.clean.mean(), self.corrupted.mean()
        said = f"the metric is {clean:.3g} on the clean text, {corrupted:.3g} on the corrupted one"
        yield said.replace("-", "−")
        if not self._differ():
            yield "that difference is not told from none over the examples, so there is nothing to be restored"
            return
        for site in self.effects:
            share = self.restored(site)
            most = share if share.ndim == 1 else share.sum(1)
            if not np.isfinite(most).all():
                continue
            order = np.argsort(-most)[:3]
            said = ", ".join(f"{named(self.heads[at])} {100 * most[at]:.0f} %" for at in order)
            yield f"{site} as on the clean text restores of that difference: {said}".replace("-", "−")
        if any(self.cancels):
            found = [named(head) for head, cancels in zip(self.heads, self.cancels, strict=True) if cancels]
            yield f"estimates of {', '.join(found)} are not to be trusted: paths through later layers cancel"

    def _differ(self) -> bool:
        """Whether the runs differ: by Student's interval over examples; of one example, by anything."""
        difference = self.clean - self.corrupted
        if len(difference) < 2:
            return bool(difference.any())
        low, high = interval(difference, np.ones(len(difference), int))
        return bool(low > 0 or high < 0)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values, means over examples, numbers to five digits."""
        return {
            "schema": 1,
            "heads": [named(head) for head in self.heads],
            "clean": five_digits(float(self.clean.mean())),
            "corrupted": five_digits(float(self.corrupted.mean())),
            "effects": {site: five_digits(found.mean(-1)) for site, found in self.effects.items()},
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
