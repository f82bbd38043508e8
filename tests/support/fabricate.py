"""Run folders that were never trained: small, quick, in the format of the real ones, and near in their numbers."""

import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from headway.base.files import write_json
from headway.base.identity import digest, signed
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.load import load
from headway.config.regression import OneLayer
from headway.icl.circuits import circuits, head_scalars
from headway.report.experiment.data import ReportData, gather
from headway.stats.results import read, write
from headway.store import checkpoint
from headway.store.directory import Store
from support import stored

STEPS = 2_000
EVERY = 20
PROBED = (1, 20, 200, 2_000)
ESTIMATOR_MSE = {
    "gd_eta1": 0.7501,
    "gd_best": 0.6522,
    "debiased_gd_best": 0.6667,
    "ridge": 7.35e-5,
    "least_squares": 7.35e-5,
}
EXECUTION = {
    "trainer": "fused",
    "instruction_set": "avx512",
    "threads": 1,
    "host": "laptop",
    "versions": {"headway": "0.1.0", "numpy": "2.4.6"},
}


def small(name: str, **changes: object) -> Experiment:
    """An experiment that comes with Headway, with fewer steps."""
    probes = "probes.circuits=[" + ", ".join(map(str, PROBED)) + "]"
    settings = [f"training.steps={STEPS}", f"logging.every={EVERY}", probes, "evaluation.curve.lengths=12"]
    settings += [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    arms = load(name).document.arms
    settings += [f"arms.{a}.training.steps={STEPS}" for a, o in arms.items() if o and "steps" in o.get("training", {})]
    clash = any("training" in (o or {}) and "steps" in o["training"] for o in arms.values())
    return load(name, settings=settings[1:] if clash else settings)


def material_of(store: Store) -> ReportData:
    """What a report on a fabricated directory is made of."""
    return gather(store, read(store.path))


def compared(path: Path) -> ReportData:
    """The same of a directory, once its runs are compared."""
    store = Store.open(path)
    return gather(store, write(store))


def fabricate(path: Path, experiment: Experiment, statuses: dict[tuple[str, int], str] | None = None) -> Path:
    """Write the run folders and results.json of an experiment; `statuses` by arm and seed, `done` otherwise."""
    path.mkdir(parents=True)
    rows, tasks = [], {}
    for arm, seed in experiment.runs:
        status = (statuses or {}).get((arm.full_name, seed), "done")
        task = digest(arm.spec(seed).task.content())
        metrics = _write_run(path, arm, seed, status)
        names = {"arm": arm.name, "control": arm.control, "group": arm.group, "seed": seed, "id": arm.spec(seed).id}
        rows.append({**names, "status": status, "task": task, "metrics": metrics if status == "done" else None})
        tasks[task] = _estimators(arm.spec(seed))
    results = {
        "schema": 2,
        "experiment": experiment.name,
        "scale": experiment.scale,
        "primary": "eval_mse",
        "runs": rows,
        "baselines": next(iter(tasks.values()))["baselines"],
        "tasks": tasks,
        "comparisons": [_comparison(arm, experiment) for arm in experiment.selected if arm.name != experiment.baseline],
        "fits": [],
        "warnings": [],
    }
    write_json(path / "results.json", signed(results))
    stored.write_document(path, experiment)
    return path


def _comparison(arm: Arm, experiment: Experiment) -> dict:
    numbers = {
        "difference": 0.01,
        "estimate": 0.01,
        "relative": 0.015,
        "interval": [-0.02, 0.04],
        "p": 0.6,
        "p_family": 1.0,
        "detectable": 0.03,
        **dict.fromkeys(("means", "se", "freedom", "bound")),
    }
    return {
        "rule": "paired",
        "outcome": "open",
        "metric": "eval_mse",
        "arm": arm.full_name,
        "baseline": experiment.baseline,
        "control": arm.control,
        "group": arm.group,
        "n_pairs": len(experiment.seeds),
        **numbers,
        "verdict": f"{arm.label} and {experiment.baseline} cannot be told apart",
    }


def _write_run(path: Path, arm: Arm, seed: int, status: str) -> dict:
    spec, rng = arm.spec(seed), np.random.default_rng([seed, *arm.full_name.encode()])
    folder = path / "runs" / arm.full_name / f"seed-{seed}"
    (folder / "heads").mkdir(parents=True)
    weights = _weights(spec, rng)
    for step in PROBED:
        partial = {k: v * min(1.0, step / STEPS + 0.02) if k == "W_Q" else v for k, v in weights.items()}
        save_file(circuits(partial, spec.model, spec.task), folder / "heads" / f"{step:09d}.safetensors")
    found = circuits(weights, spec.model, spec.task)
    one_layer = isinstance(spec.model, OneLayer)
    w, mu = head_scalars(found["qk"][0], found["ov"][0], spec.task)
    signal = spec.task.d_x * spec.task.variance_of_beta
    final = signal * (0.286 if spec.model.n_heads == 1 else 0.1345 + 0.0008 * rng.normal())
    lines = []
    for step in range(0, STEPS + 1, EVERY):
        rise = 1 / (1 + math.exp(-(step - 120) / 30))
        mse = final + (signal - final) * (1 - rise)
        line = {"step": step, "wall_s": step / 900, "eval_mse": mse * (1 + 0.003 * rng.normal()), "eval_mse_se": 0.01}
        line["eval_mse_adjusted"] = line["eval_mse"]
        if step:
            line["train_mse"] = mse * (1 + 0.02 * rng.normal())
        if one_layer:
            line |= {"w": (w * rise).tolist(), "mu": (mu * rise).tolist()}
        lines.append(json.dumps(line))
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    lengths = spec.evaluation.curve.grid(spec.task.n_pairs)
    model = [final * 45 / 40 * (0.05 + 40 / (n + 5) * 0.95) for n in lengths]
    curve = {
        "n_pairs": lengths,
        "model": _band(model),
        **({"kernel": _band([m * 1.01 for m in model])} if one_layer else {}),
    }
    (folder / "curves.json").write_text(json.dumps({"error_by_length": curve}))
    metrics = {
        "n_heads": spec.model.n_heads,
        "eval_mse": final,
        "eval_mse_se": 0.004,
        "steps_per_s": 900.5,
        "processor_s": 2.2,
        "wall_s": 2.4,
    }
    if one_layer:
        flat = (mu * w).sum(axis=0).tolist(), mu.sum(axis=0).tolist()
        metrics |= {"ratio_to_debiased_gd": final / 0.6667, "kernel_mse": final * 1.001, "reduction_error": 2e-4}
        metrics |= {"mu_dot_w": flat[0], "sum_mu": flat[1], "w": w.tolist(), "mu": mu.tolist(), "n_parameters": 216}
    state = {f"weights/{name}": value.astype(np.float32) for name, value in weights.items()}
    checkpoint.save(folder / "checkpoint", checkpoint.Checkpoint(step=STEPS, state=state))
    message = "the loss is not finite at step 40; lower training.learning_rate" if status == "failed" else ""
    names = {"arm": arm.name, "control": arm.control, "group": arm.group, "seed": seed, "id": spec.id}
    state = {"status": status, "message": message, "logging": {"every": EVERY}, "execution": EXECUTION}
    run = {
        "schema": 1,
        **names,
        **state,
        "config": spec.model_dump(mode="json"),
        "metrics": metrics if status == "done" else {},
    }
    (folder / "run.json").write_text(json.dumps(run))
    stored.seal(folder)
    return metrics


def _weights(spec, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Weights whose circuits are w_h I and mu_h, up to a little noise."""
    d, d_y, size = spec.task.d_x, spec.task.d_y, spec.task.d_token
    heads = spec.model.n_heads
    layers = 1 if isinstance(spec.model, OneLayer) or spec.model.tied else spec.model.n_layers
    n_out = d_y if isinstance(spec.model, OneLayer) and spec.model.n_out else size
    signs = np.where(np.arange(heads) % 2, -1.0, 1.0)
    qk = 0.004 * rng.normal(size=(layers, heads, size, size))
    qk[..., range(d), range(d)] += (signs * (0.51 if heads == 1 else 0.14) * rng.uniform(0.9, 1.1, heads))[:, None]
    out = 0.01 * rng.normal(size=(layers, heads, n_out, size))
    shares = signs * (1.54 if heads == 1 else 6.3 / heads) * rng.uniform(0.8, 1.2, heads)
    for k in range(d_y):
        out[:, :, n_out - d_y + k, d + k] += shares
    eye = np.broadcast_to(np.eye(size), qk.shape).copy()
    weights = {"W_Q": qk * math.sqrt(size), "W_K": eye, "W_V": eye.copy(), "W_O": out}
    if not isinstance(spec.model, OneLayer):
        weights["W_F"] = np.eye(d_y, size, k=d)
    return weights


def _estimators(spec) -> dict:
    scale = spec.task.variance_of_beta * spec.task.d_x / 5
    lengths = spec.evaluation.curve.grid(spec.task.n_pairs)
    curves = {
        name: _band([max(mse * scale * 45 / (n + 5), 5e-5) for n in lengths]) for name, mse in ESTIMATOR_MSE.items()
    }
    return {
        "baselines": {name: {"mse": mse * scale, "se": 0.004} for name, mse in ESTIMATOR_MSE.items()},
        "curves": {"n_pairs": lengths, **curves},
    }


def _band(values: list[float]) -> dict[str, list[float]]:
    return {"mse": values, "low": [0.97 * v for v in values], "high": [1.03 * v for v in values]}
