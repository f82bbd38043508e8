"""Heads: what an x-ray of a finished model found: scores, sentences and JSON. Numpy alone, as `scores`."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

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
        loss_nats: of the model, the mean over the tokens that were read, less the first of each sequence; None where it
            is not known, and then a note says why.
        unit: what the loss is a mean over: tokens, or the answers that a task asks for.
    """

    nothing: ClassVar[str] = "nothing stands out of untrained heads on the same stream"
    held: ClassVar[str] = (
        "Heads are held against untrained ones on the same stream: the same layers with fresh weights of the same "
        "scale. A page of a model that learnt nothing has a finding in at most 5 of 100 cases, over everything that "
        "was looked for."
    )

    composition: Composition | None = None
    loss_nats: float | None = None
    unit: str = "token"

    @property
    def read(self) -> str:
        """How much of which text was read, and how well the model predicts it, in words."""
        if self.loss_nats is None:
            return super().read
        return f"{super().read}; its loss there is {self.loss_nats:.4g} nats per {self.unit}"

    @cached_property
    def looked_for(self) -> tuple[Finding, ...]:
        """What stands out, and of what was looked for that it does not, in sentences."""
        kv_of = {attention.name: attention.kv_of for attention in self.attentions}
        return tuple(findings(self.scores, self.labels, kv_of, self.composition))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What stands out, in sentences; none in 95 of 100 models that learnt nothing."""
        return tuple(finding for finding in self.looked_for if finding.found)

    @property
    def not_found(self) -> tuple[Finding, ...]:
        """What does not."""
        return tuple(finding for finding in self.looked_for if not finding.found)

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
            "loss_nats": self.loss_nats,
            "findings": [vars(finding) for finding in self.findings],
            "not_found": [vars(finding) for finding in self.not_found],
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
