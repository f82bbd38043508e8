"""The in-context laboratory's references: the errors of closed-form estimators on the prompts of the evaluation.

The estimators are costly, so their errors are kept in the results directory. The output reads k coordinates of x; b is
the variance of beta's coordinates and v that of the noise. Steps and preconditioners are the best in theory, and never
fitted to the evaluation prompts.

* `gd_eta1`: one step of gradient descent, 1/L sum_i y_i x_i . x_q.
* `gd_best`, `debiased_gd_best`: eta times that, with the eta of least exact risk (`theory.best_eta`); debiased takes
  x_i - mean x for x_i. On a length curve every length has its own best eta, since L enters it.
* `preconditioned_gd`, for anisotropic x only: debiased, with P x_q for x_q and the P of least exact risk,
  [Sigma + (tr Sigma + v/b)/L I]^-1 (`theory.best_preconditioner`), for each length. Long prompts make it Sigma^-1.
* `ridge`: penalty v/b, the Bayes estimator.
* `least_squares`: of minimum norm below k pairs. Its curve is a median, since its mean does not exist at k and k + 1.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734, which has no best steps, but eta = 1.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import TypeAdapter, ValidationError

from headway.base.files import derived, inside, kept_json, plain, write_json
from headway.base.identity import is_as_signed, signed
from headway.config.regression import IclRun, Identity, PromptEvaluation, RegressionTask
from headway.data.regression import Prompts, curve_prompts, evaluation_prompts
from headway.icl import evaluation as judge
from headway.icl import theory
from headway.icl.estimators import PrefixSums, prompt_chunks, step_matrices
from headway.stats.laboratory import FindingsPart, References
from headway.store.run import Run

Estimator = Callable[[PrefixSums], np.ndarray]


def estimator_errors(task: RegressionTask, evaluation: PromptEvaluation) -> dict[str, Any]:
    """Errors of every estimator on a task's evaluation prompts, and their curves against prompt length.

    Returns:
        `baselines`: name -> {`mse`, `se`} on `evaluation.prompts` prompts of the task's length; squared errors are
        averaged over outputs. `curves`: `n_pairs`, and name -> {`mse`, `low`, `high`}, lists by length with 95 %
        bootstrap intervals; empty when `evaluation.curve` is null.
    """
    prompts = evaluation_prompts(task, evaluation.prompts)
    baselines = {}
    for name, errors in _errors(task, prompts, [task.n_pairs]).items():
        baselines[name] = judge.summary(errors[:, 0])._asdict()
    return {"baselines": baselines, "curves": _curves(task, evaluation)}


def _curves(task: RegressionTask, evaluation: PromptEvaluation) -> dict[str, Any]:
    if evaluation.curve is None:
        return {}
    curve = evaluation.curve
    lengths = curve.grid(task.n_pairs)
    prompts = curve_prompts(task, curve.prompts, curve.longest)
    curves: dict[str, Any] = {"n_pairs": list(lengths)}
    for name, errors in _errors(task, prompts, lengths).items():
        statistic: Literal["mean", "median"] = "median" if name == "least_squares" else "mean"
        curves[name] = judge.length_curve(errors, curve.resamples, statistic)
    return curves


def _errors(
    task: RegressionTask, prompts: Prompts, lengths: Sequence[int]
) -> dict[str, Float[np.ndarray, "prompt length"]]:
    """Return the squared errors of every estimator; all estimators share the sums over each prompt."""
    estimators = _estimators(task, lengths)
    errors = {name: np.empty((len(prompts.x), len(lengths))) for name in estimators}
    for chunk, part in prompt_chunks(prompts, lengths):
        sums = PrefixSums.of(part, lengths)
        for name, predict in estimators.items():
            errors[name][chunk] = judge.squared_errors(predict(sums), part)
    return errors


def _estimators(task: RegressionTask, lengths: Sequence[int]) -> dict[str, Estimator]:
    reads = task.read_mask()
    penalty = task.noise_variance / task.variance_of_beta

    def step(matrices: np.ndarray, debiased: bool) -> Estimator:
        return lambda sums: sums.step(matrices, debiased=debiased)

    estimators = {
        "gd_eta1": step(step_matrices(1.0, reads), False),
        "gd_best": step(step_matrices(theory.best_eta(task, lengths, debiased=False), reads), False),
        "debiased_gd_best": step(step_matrices(theory.best_eta(task, lengths, debiased=True), reads), True),
        "ridge": lambda sums: sums.ridge(penalty, reads),
        "least_squares": lambda sums: sums.ridge(0.0, reads),
    }
    if not isinstance(task.covariance, Identity):
        best = theory.best_preconditioner(task, lengths, debiased=True)
        estimators["preconditioned_gd"] = step(best, True)
    return estimators


SCHEMA = 1


class IclFindingsPart(FindingsPart):
    """In-context regression."""

    def references(self, directory: Path, key: str, runs: Sequence[Run]) -> References:
        """The classical estimators, kept under `estimators/`."""
        spec = runs[0].spec
        assert isinstance(spec, IclRun)
        path = inside(directory, "estimators", f"{key}.json")
        references = _read_kept(path, key)
        if references is None:
            errors = plain(estimator_errors(spec.task, spec.evaluation))
            with derived(path):
                write_json(path, signed({"schema": SCHEMA, "task": key, "errors": errors}))
            references = TypeAdapter(References).validate_python(errors)
        return references


def _read_kept(path: Path, key: str) -> References | None:
    """Return the kept errors of a task, or None if they are absent, damaged, or of another schema."""
    kept = kept_json(path)
    try:
        if not isinstance(kept, dict) or (kept.get("schema"), kept.get("task")) != (SCHEMA, key):
            return None
        if not is_as_signed(kept):
            return None
        references = TypeAdapter(References).validate_python(kept.get("errors"))
    except ValidationError:
        return None
    return references if references.curves is not None else None


LABORATORY = IclFindingsPart()
