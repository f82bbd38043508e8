"""Statistics of transformers on tokens.

* `summary`: metrics without training, and all findings of this folder; `scaling`: loss against heads; `plain_curve`:
  loss against parameters; `diversity`: the relation of head diversity and loss;
* `claims`: published claims about heads; `claim_verdicts`: their verdicts; `verdicts`: all of it in words.
"""

from collections.abc import Sequence
from pathlib import Path

from headway.config.experiment import Experiment
from headway.config.lm.run import TokensRun
from headway.config.run import imported
from headway.stats.evidence import Comparison
from headway.stats.laboratory import ComparisonSlice, ExtraResults, References
from headway.stats.lm import summary
from headway.store.run import Run


class TokensComparisonSlice(ComparisonSlice):
    """Transformers on tokens."""

    def references(self, directory: Path, key: str, runs: Sequence[Run]) -> References:  # noqa: ARG002
        """Return the metrics without training, computed by the function that the task names."""
        spec = runs[0].spec
        assert isinstance(spec, TokensRun)
        return References(baselines=imported(spec.task.baselines)(runs))

    def extra(self, experiment: Experiment, runs: Sequence[Run], comparisons: Sequence[Comparison]) -> ExtraResults:
        """Return the curves, and the findings from the probes of finished runs."""
        associations, claims = summary.probed_heads(experiment, runs, comparisons)
        return ExtraResults(
            fits=tuple(summary.head_fits(experiment, runs)),
            plain_curve=summary.size_curve(experiment, runs),
            associations=associations,
            claims=claims,
        )


LABORATORY = TokensComparisonSlice()
