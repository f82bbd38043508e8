"""Probes of heads that were never trained: planted courses, in the real format, laid into fabricated run folders."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from headway.config.experiment import Experiment
from headway.config.head_metrics import HEAD_METRICS
from headway.config.load import resolve
from headway.heads.scores import HeadScores, to_arrays
from headway.stats import results
from headway.store.directory import Store
from headway.store.run import Run
from support import stored
from support.fabricate_text import fabricate_text

DENSE, EVERY, STEPS = 40, 500, 12_000
"""The steps of `fabricate_text`: every one to 40, then each 500th."""

MEASURED = (
    "query_orthogonality_raw",
    "query_cka",
    "context_cka",
    "output_dissimilarity",
    "attention_variance_raw",
    "attention_diversity",
    "similarity_to_layer_0",
    "sink_score",
)

Plant = Callable[[str, float, int, int], float]
"""A metric, the share of the training that is done on a log scale, the layer and the number of layers: its level."""


def xray(**changes) -> Experiment:
    """Two and four heads in six layers, and a control."""
    content = {
        "name": "x-ray",
        "question": "How do the heads of a layer come to differ?",
        "task": {"kind": "text", "corpus": "tinystories", "tokenizer": "gpt2", "n_ctx": 256},
        "model": {"family": "gpt-2", "d_model": 128, "n_layers": 6, "n_heads": 8},
        "training": {"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 8, "steps": STEPS},
        "probes": {"every": EVERY, "dense_until": DENSE, "metrics": list(MEASURED)},
        "evaluation": {"every": EVERY},
        "arms": {f"heads-{n}": {"label": f"{n} heads", "model": {"n_heads": n}} for n in (2, 4, 8)},
        "controls": {"as-published-norm": {"label": "norms after the sums", "model": {"norm_place": "after"}}},
        "baseline": "heads-8",
        "seeds": 3,
    }
    return resolve({**content, **changes})


def as_published(metric: str, done: float, layer: int, n_layers: int) -> float:
    """What the article saw: layer 0 apart and settling, disagreement rising, most in the first layers."""
    depth = layer / max(n_layers - 1, 1)
    if metric.startswith("query"):
        return (3.0 if layer == 0 else 1.0) * (0.08 + 0.1 * done)
    if metric.startswith("output_dissimilarity"):
        return -0.6 + 0.7 * done * (1 - 0.8 * depth)
    if metric.startswith("attention_") and "entropy" not in metric:
        return 0.05 + (0.1 * min(done, 0.5) if layer == 0 else 0.3 * done)
    return 0.2 + 0.3 * done * (1 - depth)


def otherwise(metric: str, done: float, layer: int, n_layers: int) -> float:
    """The opposite of each."""
    depth = layer / max(n_layers - 1, 1)
    if metric.startswith("query"):
        return 0.3 - 0.2 * done
    if metric.startswith("output_dissimilarity"):
        return -0.1 - 0.5 * done * (1 - 0.8 * depth)
    if metric.startswith("attention_") and "entropy" not in metric:
        return 0.05 + (0.5 * done if layer == 0 else 0.02 * min(done, 0.5))
    return 0.4 - 0.2 * done


def fabricate_heads(
    path: Path,
    experiment: Experiment,
    plant: Plant = as_published,
    *,
    metrics: tuple[str, ...] = MEASURED,
    steps: tuple[int, ...] = (*range(DENSE + 1), *range(EVERY, STEPS + 1, EVERY)),
) -> Path:
    """Run folders as `fabricate_text` writes them, with what probes measured; results.json is derived again."""
    fabricate_text(path, experiment)
    for run in Store.open(path).runs():
        write_probes(run, plant, metrics, steps)
    results.write(Store.open(path))
    return path


def write_probes(run: Run, plant: Plant, metrics: tuple[str, ...], steps: tuple[int, ...]) -> None:
    rng = np.random.default_rng([run.seed, *run.name.encode()])
    from safetensors.numpy import save_file

    (run.path / "heads").mkdir()
    layout = run.spec.model.layout
    fixed = {heads: rng.normal(size=(heads, heads)) for heads in layout.n_heads}
    records = {record["step"]: record for record in run.records()}
    for step in steps:
        done = math.log1p(step) / math.log1p(STEPS)
        wobble = rng.normal(size=len(layout.n_heads))
        scores = [_score(metric, done, layout, plant, fixed, wobble, rng) for metric in metrics]
        save_file(to_arrays(scores), run.path / "heads" / f"{step:09d}.safetensors")
        # The wobble of layer 0 is in the loss too.
        loss = 1.6 + 9 * (1 - done) ** 1.5 - 0.1 * wobble[0] + 0.01 * rng.normal()
        record = records.setdefault(step, {"step": step, "tokens": step * 4096, "wall_s": step * 0.3})
        record |= {"probe_loss_nats": loss, "train_loss_nats": loss + 0.03 * rng.normal()}
    lines = [json.dumps(records[step]) for step in sorted(records)]
    (run.path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    stored.seal(run.path)


def _score(metric, done, layout, plant, fixed, wobble, rng) -> HeadScores:
    declared = HEAD_METRICS[metric]
    n_layers = len(layout.n_heads)
    factor = 1e5 if metric.endswith("_raw") and declared.of == "pair" else 1.0
    values, null = {}, {}
    for layer, heads in enumerate(layout.n_heads):
        level = plant(metric, done, layer, n_layers) + 0.01 * wobble[layer] + 0.002 * rng.normal()
        name = f"layers.{layer}.attention"
        if declared.of == "pair":
            value = level + 0.25 * done * np.tanh(fixed[heads] + fixed[heads].T) * (0.1 + 0.05 * layer)
            np.fill_diagonal(value, -1.0 if "dissimilarity" in metric else 1.0)
            value = value if heads > 1 else np.full((1, 1), np.nan)
        elif declared.of == "head":
            value = level + 0.05 * done * fixed[heads][0]
        else:
            value = np.array(level)
        values[name] = np.asarray(value * factor)
        if not metric.endswith("_raw"):
            null[name] = np.array(0.0 if "dissimilarity" in metric else 0.03)
    return HeadScores(metric=metric, values=values, null=null, n_rows=2048)
