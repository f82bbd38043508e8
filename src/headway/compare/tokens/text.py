"""Compare: what needs no training on a text: n-gram models, and the entropy of stories whose grammar is known."""

from collections.abc import Sequence

from headway.runs.folder import Run

MEASURED = {"unigram": "unigram_loss_nats", "bigram": "bigram_loss_nats", "entropy": "entropy_nats"}
"""What models are compared with, and the metric of a run that holds it: each run of a task measures the same."""


def baselines(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """The unigram and bigram model and the entropy, as far as finished runs of a task report them."""
    found = {
        name: [run.metrics[metric] for run in runs if run.metrics.get(metric) is not None]
        for name, metric in MEASURED.items()
    }
    return {name: {"loss_nats": values[0]} for name, values in found.items() if values}
