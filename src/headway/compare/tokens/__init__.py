"""Compare, transformers on tokens.

* `text`: what needs no training on the task of that name;
* `findings`: what else runs say: `fits` of loss against heads for each of the `schemes` of layouts; `plain_curve`, of
  loss against parameters; what probes measured (`head_progress`), how it goes with the loss (`diversity_loss`, by
  `association`), and the published `statements`: their `statement_evidence` and `statement_verdicts`.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from headway.compare.laboratory import Laboratory
from headway.compare.statistics import Comparison
from headway.compare.tokens import findings
from headway.declare.experiment import Experiment
from headway.runs.folder import Run


class Tokens(Laboratory):
    """Transformers on tokens."""

    def references(self, directory: Path, key: str, runs: Sequence[Run]) -> dict[str, Any]:  # noqa: ARG002
        """From the module here that is named for the kind of the task."""
        return {"baselines": import_module(f"headway.compare.tokens.{runs[0].spec.task.kind}").baselines(runs)}

    def further(
        self, experiment: Experiment, runs: Sequence[Run], comparisons: Sequence[Comparison]
    ) -> Mapping[str, Sequence[dict[str, Any]]]:
        """Curves, and what the probes of finished runs say."""
        return {
            "fits": list(findings.head_fits(experiment, runs)),
            "plain_curve": findings.size_curve(experiment, runs),
            **findings.probed_heads(experiment, runs, comparisons),
        }


LABORATORY = Tokens()
