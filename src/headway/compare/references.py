"""Compare: what needs no training, on the very data that runs are judged on.

In-context regression has its classical estimators, computed here and, since that is costly, kept under
`estimators/`. Language models have n-gram models and, where the corpus is Headway's own grammar, its entropy: every
run of a task measures the same ones, and reports them beside its own loss.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.compare.baselines import estimator_errors
from headway.declare.run import RegressionRun
from headway.files import derived, plain, write_json
from headway.lab.run import Run

SCHEMA = 1

TEXT = {"unigram": "unigram_loss_nats", "bigram": "bigram_loss_nats", "entropy": "entropy_nats"}
"""What language models are compared with, and the metric of a run that holds it."""


def of_regression(directory: Path, key: str, runs: Sequence[Run]) -> Any:
    """`baselines` and `curves` of the classical estimators on a task.

    Args:
        directory: the results directory, where they are kept.
        key: the digest of the task.
        runs: finished runs of the task, at least one.
    """
    spec = runs[0].spec
    assert isinstance(spec, RegressionRun)
    path = directory / "estimators" / f"{key}.json"
    errors = _read_kept(path)
    if errors is None:
        errors = plain(estimator_errors(spec.task, spec.evaluation))
        with derived(path):
            write_json(path, {"schema": SCHEMA, "errors": errors})
    return errors


def of_text(directory: Path, key: str, runs: Sequence[Run]) -> Any:  # noqa: ARG001 - the kinds share a signature
    """`baselines` of a text task: the unigram and bigram model and the entropy, as far as runs report them."""
    found = {
        name: [run.metrics[metric] for run in runs if run.metrics.get(metric) is not None]
        for name, metric in TEXT.items()
    }
    return {"baselines": {name: {"loss_nats": values[0]} for name, values in found.items() if values}}


def _read_kept(path: Path) -> Any:
    """The content of a file of kept errors; None where it is absent, damaged or of another schema."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = isinstance(kept, dict) and kept.get("schema") == SCHEMA and isinstance(kept.get("errors"), dict)
    return kept["errors"] if whole and kept["errors"].keys() >= {"baselines", "curves"} else None
