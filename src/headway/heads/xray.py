"""Heads: what an x-ray of a finished model found: scores, sentences and JSON. Numpy alone, as `scores`."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headway.heads.findings import Finding, findings
from headway.heads.model_on_text import ModelOnText
from headway.heads.scores import Composition
from headway.heads.scores_json import PAIRS_IN_JSON, five_digits, score_json

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class XRay(ModelOnText):
    """What every head of a finished model does on a text.

    Attributes:
        composition: between heads; None where it is not known.
    """

    composition: Composition | None = None

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What stands out, in sentences."""
        kv_of = {attention.name: attention.kv_of for attention in self.attentions}
        return tuple(findings(self.scores, self.labels, kv_of, self.composition))

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values, numbers to five digits; what is not finite is null."""
        shares = self.scores["output_share"].values if "output_share" in self.scores else {}
        return {
            "schema": SCHEMA,
            **super().to_json(),
            "metrics": {metric: score_json(score) for metric, score in self.scores.items()},
            # Also where it stood before it was a metric: who reads these files finds it there.
            "output_share": {name: five_digits(share) for name, share in shares.items()},
            "composition": self._composition(),
            "findings": [vars(finding) for finding in self.findings],
            "notes": [*self.notes, *self._left_out()],
        }

    def _composition(self) -> dict[str, Any] | None:
        found = self.composition
        if found is None or len(found.heads) > 4 * PAIRS_IN_JSON:
            return None
        heads = [f"{self.labels[attention]}H{head}" for attention, head in found.heads]
        return {"heads": heads, "null": found.null, **{kind: five_digits(getattr(found, kind)) for kind in "qkv"}}

    def _left_out(self) -> list[str]:
        """What is too large for JSON, in sentences."""
        wide = [attention.name for attention in self.attentions if attention.n_heads > PAIRS_IN_JSON]
        said = [f"metrics of pairs of {name} stand in heads.safetensors alone: it has many heads" for name in wide]
        if self.composition is not None and self._composition() is None:
            said.append(f"composition of {len(self.composition.heads):,} heads is not in the JSON: that is many pairs")
        return said
