"""Law: of experiments in which nothing happens, few say anything of a published statement, however many its layers."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headway.config.experiment import Experiment
from headway.config.load import resolve
from headway.stats.lm.claim_verdicts import claims
from headway.stats.lm.diversity import HeadProgress, ProbedRun, associations

STEPS = np.arange(0, 300, 15)
METRICS = ("query_cka", "output_dissimilarity", "attention_diversity")
FAR = 1.5
"""What the first statement calls far: a null of it has layer 0 just there."""


def experiment(n_layers: int, n_arms: int) -> Experiment:
    return resolve(
        {
            "name": "x-ray",
            "task": {"kind": "text", "corpus": "stories", "tokenizer": "bytes", "n_ctx": 16},
            "model": {"family": "gpt-2", "d_model": 32, "n_layers": n_layers, "n_heads": 4},
            "training": {"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 2, "steps": 300},
            "samples": None,
            "arms": {f"arm-{k}": {"training": {"learning_rate": 1e-3 * (k + 1)}} for k in range(n_arms)},
            "baseline": "arm-0",
        }
    )


def nothing(rng: np.random.Generator, n_layers: int, together: float) -> dict[str, np.ndarray]:
    """Metrics that wander about one level, of which layers have a share together."""
    found = {}
    for metric in METRICS:
        shared, own = rng.normal(size=(len(STEPS), 1)), rng.normal(size=(len(STEPS), n_layers))
        level = 0.02 * (np.sqrt(together) * rng.normal() + np.sqrt(1 - together) * rng.normal(size=n_layers))
        found[metric] = 1 + level + 0.02 * (np.sqrt(together) * shared + np.sqrt(1 - together) * own)
    found["query_cka"] = found["query_cka"] * np.where(np.arange(n_layers) == 0, FAR, 1.0)
    return found


def run(rng: np.random.Generator, seed: int, n_layers: int, together: float) -> ProbedRun:
    mean, variance = nothing(rng, n_layers, together), nothing(rng, n_layers, together)
    progress = HeadProgress(
        steps=STEPS,
        layers=tuple(range(n_layers)),
        n_heads=(4,) * n_layers,
        mean=mean,
        variance=variance,
        null={},
        n_rows=dict.fromkeys(METRICS, 100),
    )
    loss = 3 + np.exp(-STEPS / 60) + 0.02 * rng.normal(size=len(STEPS)).cumsum()
    records = [{"step": int(s), "probe_loss_nats": float(v)} for s, v in zip(STEPS, loss, strict=True)]
    one: Any = SimpleNamespace(seed=seed, control=None, records=lambda: records)
    return ProbedRun(run=one, progress=progress)


def verdicts(
    n_experiments: int,
    n_layers: int,
    n_seeds: int,
    *,
    n_arms: int = 2,
    together: float = 0.0,
    associated: bool = False,
    stream: int = 0,
) -> dict[str, Counter]:
    """How often each statement is said to hold and not to hold."""
    rng, document = np.random.default_rng([n_layers, n_seeds, stream]), experiment(n_layers, n_arms)
    found: dict[str, Counter] = {}
    for _ in range(n_experiments):
        probed = {f"arm-{k}": [run(rng, s, n_layers, together) for s in range(n_seeds)] for k in range(n_arms)}
        for entry in claims(document, probed, list(associations(probed)) if associated else (), ()):
            found.setdefault(entry.name, Counter())[entry.verdict] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("n_layers", "n_seeds", "together"), [(4, 3, 0.0), (12, 3, 0.5), (12, 5, 0.0)])
def test_statements_on_layers_are_silent(n_layers: int, n_seeds: int, together: float) -> None:
    n = 400
    found = verdicts(n, n_layers, n_seeds, together=together)
    assert {"orthogonality-falls", "disagreement-rises", "early-layers-differ", "layer-0-settles"} <= set(found)
    for name, counts in found.items():
        said = (counts["holds"] + counts["does not hold"]) / n
        # Of 400, 5 in 100 are at most 8 in 99 of 100 cases.
        assert said <= 0.08, (name, counts)


@pytest.mark.slow
@pytest.mark.parametrize("n_seeds", [4, 5])
def test_statements_on_r2_say_nothing_that_is_wrong(n_seeds: int) -> None:
    n = 150
    found = verdicts(n, 4, n_seeds, n_arms=1, associated=True)
    # Nothing explains the loss: so it is not high, it predicts badly, and it neither rises nor falls with depth.
    assert found["r2-high-early"]["holds"] == 0
    assert found["layer-0-predicts-badly"]["does not hold"] == 0
    assert (n - found["r2-falls-with-depth"]["cannot be told"]) / n <= 0.05
