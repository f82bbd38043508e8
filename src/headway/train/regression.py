"""The study of an in-context run: its trainer, its measurements during training, and its evaluation.

Native code trains a run if it can; otherwise `regression_torch` does. Runs that native code can train never import
torch. All arms and seeds of a task have the same evaluation prompts.

`eval_mse` is the mean squared error on these prompts. In `eval_mse_adjusted` the luck of the prompts is subtracted:
debiased gradient descent, whose exact risk is known, is a control variate. `error_by_length` is the error against the
length of the prompt. Of each head, `w` is the mean of the QK diagonal, and `mu` the OV entry from y to the output.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.config.regression import IclRun, OneLayer, Stack
from headway.data.regression import Prompts, curve_prompts, evaluation_prompts
from headway.errors import UserError
from headway.icl import estimators, evaluation, fused
from headway.icl.circuits import PATTERN_FIT, circuits, head_scalars, head_table
from headway.icl.weights import initial_weights
from headway.train import loop
from headway.train.loop import Conclusion, Measure, Measurements, Study, TrainerChoice, TrainingPart

if TYPE_CHECKING:
    from headway.icl.attention import InContextAttention


_PORTIONS = 8
"""About how many portions of a trial are timed."""


class IclTrainingPart(TrainingPart):
    """In-context regression."""

    def open_study(
        self,
        run: IclRun,
        *,
        trainer: TrainerChoice = "auto",
        compile: bool | None = None,
        device: str = "auto",
        **_: Any,
    ) -> Study:
        """Open the study of an in-context run; such runs are not initialised from others.

        Args:
            run: the declared run.
            trainer: `auto` takes the fused trainer where it can.
            compile: True to compile the loss with torch; None: if that is faster.
            device: `auto` or `cpu`: models of a few hundred numbers are the processor's.

        Raises:
            UserError: when the fused trainer is insisted on and cannot train this run, or for another device.
        """
        if device not in ("auto", "cpu"):
            raise UserError(f"device {device}: in-context models train on the processor; take cpu")
        obstacle = fused.obstacle(run)
        if trainer == "fused" and obstacle:
            raise UserError(f"trainer fused: {obstacle}; leave the choice to auto")
        weights = initial_weights(run.model, run.task, run.seed)
        if trainer != "torch" and obstacle is None:
            native = fused.FusedTrainer(run, weights)
            return _study(run, native, {"trainer": "fused", "instruction_set": native.instruction_set}, None)
        from headway.train.regression_torch import predictor, torch_trainer

        torch_trained, module, compiled = torch_trainer(run, weights, compile)
        # If the circuits are the whole model, numpy evaluates it.
        predict = None if isinstance(run.model, OneLayer) and not run.model.bias else predictor(module)
        return _study(run, torch_trained, {"trainer": "torch", "compile": compiled}, predict)

    def trained_model(self, run: IclRun, weights: dict[str, np.ndarray]) -> "InContextAttention":
        """The torch module of a run with these weights."""
        from headway.icl.attention import InContextAttention

        return InContextAttention(run.model, run.task, weights)

    def trial_steps_per_s(self, *runs: IclRun, seconds: float = 0.3) -> tuple[float, ...]:
        """Return the training steps per second of a run, in each portion of a short trial from its initial weights."""
        if runs[1:]:
            raise UserError(f"{len(runs)} runs cannot be timed together in this laboratory; time one alone")
        trainer = self.open_study(*runs, compile=False).trainer
        # The first step also pays for what is set up once.
        trainer.advance(1)
        rates: list[float] = []
        portion, began = 1, time.process_time()
        while not rates or time.process_time() - began < seconds:
            before = time.process_time()
            trainer.advance(portion)
            took = max(time.process_time() - before, 1e-9)
            if took < seconds / _PORTIONS:
                portion *= 2
            else:
                rates.append(portion / took)
        return tuple(rates)

    def about_trial(self, run: IclRun) -> str:
        """Stacks are compiled in long runs."""
        if not isinstance(run.model, Stack):
            return ""
        return "stacks were timed uncompiled; long runs are compiled, and take a half to a fifth of the time"

    def why_not_fused(self, run: IclRun) -> str | None:
        """Return why native code cannot train a run, or None if it can."""
        return fused.obstacle(run)

    def slower_unasked(self, run: IclRun) -> str | None:
        """Stacks are PyTorch's by design; there is nothing to warn of."""
        return fused.obstacle(run) if isinstance(run.model, OneLayer) else None


LABORATORY = IclTrainingPart()


Predict = Callable[[Prompts, Sequence[int] | None], np.ndarray]
"""Predictions (prompt, length, d_y) of the model as it now is; None means at full length."""


def _study(run: IclRun, trainer: loop.Trainer, execution: Mapping[str, Any], predict: Predict | None) -> Study:
    judge = _Judge(run, trainer, predict)
    measures = [Measure(due=_every(run.evaluation.every, run.training.steps), take=judge.during)]
    if isinstance(run.model, OneLayer):
        measures.append(Measure(due=_every(run.probes.every, run.training.steps), take=judge.heads))
    measures.append(
        Measure(due=lambda step: step in run.probes.circuits, take=lambda: Measurements(arrays=judge.circuits()))
    )
    return Study(trainer=trainer, measures=tuple(measures), execution=execution, conclude=judge.conclude)


def _every(n: int, last: int) -> Callable[[int], bool]:
    return lambda step: step % n == 0 or step == last


class _Judge:
    """Measures a model while it trains and at the end; changes nothing in it."""

    def __init__(self, run: IclRun, trainer: loop.Trainer, predict: Predict | None):
        self._run, self._trainer = run, trainer
        self._predict = predict or self._from_circuits

    @cached_property
    def _prompts_during(self) -> Prompts:
        return evaluation_prompts(self._run.task, self._run.evaluation.prompts_during)

    @cached_property
    def _control_during(self) -> evaluation.Control:
        return evaluation.debiased_gd_control(self._prompts_during, self._run.task)

    def during(self) -> Measurements:
        """The error on the first of the evaluation's prompts."""
        return Measurements(
            metrics=_errors(self._predict(self._prompts_during, None), self._prompts_during, self._control_during)
        )

    def circuits(self) -> dict[str, np.ndarray]:
        """QK and OV of every layer and head, now."""
        return circuits(self._trainer.weights(), self._run.model, self._run.task)

    def heads(self) -> Measurements:
        """Return the current numbers of a one-layer model's heads: w, mu, and the step size that they make together."""
        w, mu = self._head_scalars()
        return Measurements(
            metrics={"w": w, "mu": mu, "mu_dot_w": (mu * w).sum(0).tolist(), "sum_mu": mu.sum(0).tolist()}
        )

    def conclude(self) -> Conclusion:
        """Evaluate the model."""
        run, task = self._run, self._run.task
        prompts = evaluation_prompts(task, run.evaluation.prompts)
        predictions = self._predict(prompts, None)
        control = evaluation.debiased_gd_control(prompts, task)
        errors = _errors(predictions, prompts, control)
        metrics: dict[str, Any] = {
            "n_heads": run.model.n_heads,
            "n_layers": run.model.n_layers,
            "n_parameters": run.budget.n_parameters,
            **errors,
            "ratio_to_debiased_gd": errors["eval_mse"] / float(control.errors.mean()),
        }
        if isinstance(run.model, OneLayer):
            now = self.circuits()
            table = head_table(now["qk"][0], now["ov"][0], task)
            metrics |= self.heads().metrics
            metrics |= {name: table[name].tolist() for name in PATTERN_FIT}
        if self._has_kernel:
            by_kernel = self._by_kernel(prompts, None)
            metrics["kernel_mse"] = float(evaluation.squared_errors(by_kernel, prompts).mean())
            metrics["reduction_error"] = float(((predictions.astype(float) - by_kernel) ** 2).mean())
        return Conclusion(metrics=metrics, curves=self._curves())

    def _curves(self) -> dict[str, Any]:
        wanted = self._run.evaluation.curve
        if wanted is None:
            return {}
        lengths = wanted.grid(self._run.task.n_pairs)
        prompts = curve_prompts(self._run.task, wanted.prompts, wanted.longest)
        curve: dict[str, Any] = {"n_pairs": list(lengths)}
        predictors = {"model": self._predict, **({"kernel": self._by_kernel} if self._has_kernel else {})}
        for name, predict in predictors.items():
            errors = evaluation.squared_errors(predict(prompts, lengths), prompts)
            curve[name] = evaluation.length_curve(errors, wanted.resamples)
        return {"error_by_length": curve}

    @property
    def _has_kernel(self) -> bool:
        # With correlated coordinates heads learn another matrix than w I, and the kernel of w says nothing of them.
        sigma = self._run.task.covariance_matrix()
        return isinstance(self._run.model, OneLayer) and np.array_equal(sigma, np.eye(len(sigma)))

    def _head_scalars(self) -> tuple[np.ndarray, np.ndarray]:
        now = self.circuits()
        return head_scalars(now["qk"][0], now["ov"][0], self._run.task)

    def _from_circuits(self, prompts: Prompts, lengths: Sequence[int] | None) -> np.ndarray:
        now = self.circuits()
        return estimators.attend(prompts, now["qk"][0], now["ov"][0], self._run.model.attention, lengths)

    def _by_kernel(self, prompts: Prompts, lengths: Sequence[int] | None) -> np.ndarray:
        w, mu = self._head_scalars()
        return estimators.kernel(prompts, w, mu, self._run.model.attention, lengths, reads=self._run.task.read_mask())


def _errors(predictions: np.ndarray, prompts: Prompts, control: evaluation.Control) -> dict[str, float]:
    """Return the mean squared error at full length, plain and adjusted by a control on the same prompts."""
    errors = evaluation.squared_errors(predictions, prompts)[:, 0]
    mse, se = evaluation.summary(errors)
    adjusted, adjusted_se = evaluation.adjusted(errors, control)
    return {"eval_mse": mse, "eval_mse_se": se, "eval_mse_adjusted": adjusted, "eval_mse_adjusted_se": adjusted_se}
