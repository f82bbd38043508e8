"""Show: what each head composes with: the earlier heads that it reads most of, and the later ones that read it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.heads.chance import FAMILY_WISE
from headway.heads.findings import COMPOSITIONS
from headway.heads.scores import Composition

TOP = 3


def composed(found: Composition, labels: Mapping[str, str]) -> dict[str, Any]:
    """By head and kind, `reads` and `read_by`: head, composition, and whether that is beyond chance."""
    names = [f"{labels[attention]}H{head}" for attention, head in found.heads]
    of: dict[str, dict[str, Any]] = {name: {} for name in names}
    for kind in COMPOSITIONS:
        table = np.asarray(getattr(found, kind), np.float64)
        beyond = _beyond(found, kind, table)
        for at, name in enumerate(names):
            of[name][kind] = {
                "reads": _most(table[:, at], beyond[:, at], names),
                "read_by": _most(table[at], beyond[at], names),
            }
    return {"null": found.null, "kinds": COMPOSITIONS, "of": of}


def _beyond(found: Composition, kind: str, table: np.ndarray) -> np.ndarray:
    """Beyond chance among all pairs of the model."""
    if kind not in found.chances:
        return np.zeros(table.shape, bool)
    chances = np.asarray(found.chances[kind], np.float64)
    return np.nan_to_num(chances, nan=1.0) * np.isfinite(chances).sum() <= FAMILY_WISE


def _most(values: np.ndarray, beyond: np.ndarray, names: list[str]) -> list[tuple[str, float, bool]]:
    known = np.flatnonzero(np.isfinite(values))
    best = known[np.argsort(-values[known], kind="stable")][:TOP]
    return [(names[at], round(float(values[at]), 4), bool(beyond[at])) for at in best]
