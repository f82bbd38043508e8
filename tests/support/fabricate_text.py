"""Results of language models that were never trained: near the published ones in their numbers, in the real format."""

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from headway.base.files import json_text
from headway.base.identity import signed
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.lm.budget import parameters_of
from headway.config.load import resolve
from headway.config.yaml import read_file
from headway.stats import results
from headway.store import checkpoint
from headway.store.directory import Store
from support import stored

STEPS, EVERY, VOCAB = 12_000, 500, 50_257
SCHEMES = {
    "ascending": {"low": ("3-6-12-24", 1.86), "medium": ("6-12-24-48", 1.74), "high": ("12-24-48-96", 1.65)},
    "constant": {"low": ("12-12-12-12", 1.73), "medium": ("24-24-24-24", 1.62), "high": ("48-48-48-48", 1.59)},
    "descending": {"low": ("24-12-6-3", 1.72), "medium": ("48-24-12-6", 1.62), "high": ("96-48-24-12", 1.58)},
}
LANES = {
    "plain-96": ("NoDL-96-5.5M", {"d_model": 96}, 2.507),
    "plain-384": ("NoDL-384-27M", {"d_model": 384}, 1.761),
    "plain-768": ("NoDL-768-69M", {}, 1.661),
    "lane-384": ("DL-768-384-49M", {"d_embed": 384}, 1.722),
    "lane-192": ("DL-768-192-40M", {"d_embed": 192}, 1.741),
    "lane-96": ("DL-768-96-35M", {"d_embed": 96}, 1.813),
    "switched-192": ("SwDL-768-192-40M", {"d_embed": 192, "lane": "switched"}, 1.741),
}
LOSSES = {
    **{f"{scheme}-{group}": loss for scheme, groups in SCHEMES.items() for group, (_, loss) in groups.items()},
    **{name: loss for name, (_, _, loss) in LANES.items()},
    "uniform-64": 1.661,
}
SHARED = {
    "task": {"kind": "text", "corpus": "tinystories", "tokenizer": "gpt2", "n_ctx": 512},
    "training": {"optimizer": "adamw", "learning_rate": 5e-4, "batch_size": 8, "steps": STEPS},
    "evaluation": {"every": EVERY},
    "seeds": 3,
}
STORY = (
    "there was a little girl named Lily. She loved to play outside with her red ball. One day, she saw a big dog in "
    "the park. The dog wanted to play too, and Lily was happy.\n"
)
NOISE = 'gem <Sever> anticipated&dict ional Poland quarters "ulum" stride Bav 1867 rocket thy uphill hepat '
EXECUTION = {"device": "cpu", "trainer": "torch", "threads": 1, "compile": True, "versions": {"torch": "2.13.0"}}


def head_progression(**changes: Any) -> Experiment:
    """Nine arms in three groups, and a tenth in none."""
    arms = {
        f"{scheme}-{group}": {"label": layout, "model": {"n_heads": layout}}
        for group in ("low", "medium", "high")
        for scheme, groups in SCHEMES.items()
        for layout in [groups[group][0]]
    }
    content = {
        "name": "head-progression",
        "question": "Does it matter how many heads each layer has, and in which order?",
        "model": {"family": "gpt-neo", "d_model": 768, "n_layers": 4, "n_heads": 16},
        "arms": {**arms, "uniform-64": {"label": "16-16-16-16", "model": {"n_heads": 16}}},
        "groups": {
            group: {"arms": [f"{scheme}-{group}" for scheme in SCHEMES], "baseline": f"constant-{group}"}
            for group in ("low", "medium", "high")
        },
        "controls": {
            "scaled-logits": {"label": "scaled logits", "model": {"attention_scale": "d_head"}},
            "learning-rates-half": {"label": "x0.5", "training": {"learning_rate": 2.5e-4}},
            "learning-rates-double": {"label": "x2", "training": {"learning_rate": 1e-3}},
        },
        **SHARED,
    }
    return resolve({**content, **changes})


def data_lane(**changes: Any) -> Experiment:
    """The seven runs with and without a lane."""
    content = {
        "name": "data-lane",
        "question": "Can part of the residual stream be kept for the heads, instead of embeddings?",
        "model": {"family": "gpt-neo", "d_model": 768, "n_layers": 4, "n_heads": 16},
        "arms": {name: {"label": label, "model": model} for name, (label, model, _) in LANES.items()},
        "controls": {
            "positions-outside-lane": {"label": "positions outside", "model": {"positions_in_lane": False}},
        },
        "baseline": "plain-768",
        **SHARED,
    }
    return resolve({**content, **changes})


def shipped(name: str) -> Experiment:
    """An experiment that comes with Headway, trained as these are, on what needs no file."""
    content = read_file(Path(str(files("headway") / "experiments" / f"{name}.yaml")))
    kept = {key: value for key, value in content.items() if key != "scales"}
    return resolve({**kept, **SHARED, "seeds": 2})


def fabricate_text(path: Path, experiment: Experiment, statuses: dict[tuple[str, int], str] | None = None) -> Path:
    """Write the run folders, timings and, as it is derived, results.json; `statuses` by arm and seed, else `done`."""
    path.mkdir(parents=True)
    (path / "timings").mkdir()
    for arm, seed in experiment.runs:
        _write_run(path, arm, seed, (statuses or {}).get((arm.full_name, seed), "done"))
        (path / "timings" / f"{arm.full_name}.json").write_text(json_text(signed(_timing(arm))))
    stored.write_document(path, experiment)
    results.write(Store.open(path))
    return path


def _timing(arm: Arm) -> dict:
    model = arm.resolved_spec.model
    step = 0.12 + 0.0011 * model.layout.total + 2e-9 * _n_parameters(model)
    return {
        "schema": 1,
        "arm": arm.full_name,
        "others": 0.0,
        "step_s": step,
        "step_s_range": [0.97 * step, 1.05 * step],
        "tokens_per_s": 8 * 512 / step,
        "memory_bytes": int(1.1e9 + 16 * _n_parameters(model)),
        "batch_size": 8,
        "execution": EXECUTION,
    }


def _n_parameters(model: Any) -> int:
    return sum(math.prod(parameter.shape) for parameter in parameters_of(model, VOCAB))


def _shares(model: Any, progress: float) -> list[float]:
    start = 0.0 if not model.positions_in_lane else 1 - model.embedding_width / model.d_model
    final = [start, 0.35, 0.42, 0.5, 0.61][: model.n_layers + 1]
    return [start + (share - start) * progress for share in final]


def _write_run(path: Path, arm: Arm, seed: int, status: str) -> None:
    spec = arm.spec(seed)
    common, own = np.random.default_rng([seed, 1]), np.random.default_rng([seed, *arm.full_name.encode()])
    factor = {"scaled-logits": 1.01, "learning-rates-half": 1.02, "learning-rates-double": 0.997}.get(arm.control, 1.0)
    final = (
        LOSSES.get(arm.name, 1.7 + 0.02 * (len(arm.name) % 7)) * factor + 0.012 * common.normal() + 0.003 * own.normal()
    )
    has_lane = spec.model.embedding_width < spec.model.d_model
    lines = []
    for step in range(0, STEPS + 1, EVERY // 5):
        mean = final + (10.8 - final) * math.exp(-((step / 90) ** 0.42))
        line = {"step": step, "tokens": step * 4096, "wall_s": step * 0.3, "learning_rate": 5e-4 * (1 - step / STEPS)}
        if step:
            line["train_loss_nats"] = mean * (1 + 0.01 * own.normal())
        if step % EVERY == 0:
            line["eval_loss_nats"] = final if step == STEPS else mean * (1 + 0.001 * own.normal())
            if has_lane:
                line["lane_share"] = _shares(spec.model, min(1.0, step / STEPS + 0.1))
        lines.append(json.dumps(line))
    folder = path / "runs" / arm.full_name / f"seed-{seed}"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "samples.jsonl").write_text("".join(json.dumps(s) + "\n" for s in _samples(own)))
    metrics = {
        "eval_loss_nats": final,
        "train_loss_nats": final * 0.99,
        "total_heads": spec.model.layout.total,
        "n_layers": spec.model.n_layers,
        "n_parameters": _n_parameters(spec.model),
        "tokens": STEPS * 4096,
        "tokens_per_s": 14_000.0,
        "steps_per_s": 3.3,
        "processor_s": STEPS * 0.3,
        "wall_s": STEPS * 0.31,
        "peak_memory_bytes": 3_000_000_000,
        "memory_bytes": int(1.1e9 + 16 * _n_parameters(spec.model)),
        "unigram_loss_nats": 5.74,
        "bigram_loss_nats": 3.42,
        "entropy_nats": 1.21 if spec.task.corpus == "stories" else None,
        "unused_token_share": 0.0,
        "repetition": [0.0, 0.05, 0.2, 0.4, 0.5],
        **({"lane_share": _shares(spec.model, 1.0)} if has_lane else {}),
    }
    state = {"weights/norm.weight": np.ones(2, dtype=np.float32)}
    checkpoint.save(folder / "checkpoint", checkpoint.Checkpoint(step=STEPS, state=state))
    names = {"arm": arm.name, "control": arm.control, "group": arm.group, "seed": seed, "id": spec.id}
    run = {
        "schema": 1,
        **names,
        "status": status,
        "message": "out of memory; lower training.batch_size to 4" if status == "failed" else "",
        "logging": {"every": EVERY // 5},
        "execution": EXECUTION,
        "config": spec.model_dump(mode="json"),
        "metrics": metrics if status == "done" else {},
    }
    (folder / "run.json").write_text(json.dumps(run))
    stored.seal(folder)


def _samples(rng: np.random.Generator) -> list[dict]:
    shared = {"prompt": "Once upon a time there was", "temperature": 0.9, "n_tokens": 500}
    rising = np.clip([0.0, 0.08, 0.25, 0.45, 0.6] + 0.05 * rng.normal(size=5), 0, 1)
    return [
        {"step": 0, **shared, "text": NOISE * 12, "repetition": [0.0] * 5, "unused_share": 0.62 + 0.02 * rng.normal()},
        {"step": STEPS, **shared, "text": " " + STORY * 5, "repetition": rising.tolist(), "unused_share": 0.0},
    ]
