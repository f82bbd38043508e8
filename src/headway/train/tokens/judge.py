"""Train: how a model is judged, while it trains and at the end; judging changes nothing in it."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import torch

from headway.data.tokens.examples import Batch, Examples
from headway.declare.plugins import Entry, of_kind
from headway.declare.run import imported
from headway.declare.tokens.run import TokensRun
from headway.train.loop import Conclusion, Measure, Measured
from headway.train.tokens.loss import TokensLoss
from headway.train.tokens.schedule import rate_share


class Judge:
    """Measures the model of a loss at its steps; what a kind of task adds overrides the last two methods."""

    def __init__(self, run: TokensRun, examples: Examples, loss: TokensLoss, steps: int):
        self.run, self.examples, self.loss, self.steps = run, examples, loss, steps

    @classmethod
    def check(cls, run: TokensRun, examples: Examples) -> None:
        """See that a run can be judged, before anything is trained.

        Raises:
            UserError: saying what cannot be.
        """

    def measures(self) -> tuple[Measure, ...]:
        """The evaluation during training, and what the task adds."""
        every = self.run.evaluation.every
        due: Callable[[int], bool] = lambda step: step % every == 0 or step == self.steps  # noqa: E731
        return (Measure(due=due, take=self._evaluated), *self.further_measures())

    def extra(self, step: int) -> dict[str, Any]:
        """Tokens trained on until a step, and the step size that it had."""
        tokens = {"tokens": self._tokens_at(step)}
        if step == 0:
            return tokens
        training = self.run.training
        return tokens | {"learning_rate": training.learning_rate * rate_share(training, step, self.steps)}

    def conclude(self) -> Conclusion:
        """How the trained model is judged."""
        run = self.run
        batches = self.examples.evaluation_batches(run.evaluation.sequences, self.loss.part_size)
        further = self.further_metrics()
        metrics: dict[str, Any] = {
            **self.judged(batches),
            "total_heads": run.model.layout.total,
            "n_layers": run.model.n_layers,
            "n_parameters": sum(parameter.numel() for parameter in self.loss.module.parameters()),
            "tokens": self._tokens_at(self.steps),
            **self._lane(),
        }
        return Conclusion(metrics={**metrics, **further})

    def judged(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """What the model makes of batches, while it trains and at the end."""
        own = tuple(of_kind("run metric", self.run.plugins))
        kept = list(batches) if own else batches
        return {f"eval_{self.run.task.loss}": self.loss.mean_over(kept), **(self._own(own, kept) if own else {})}

    def _own(self, own: Sequence[Entry], batches: Iterable[Batch]) -> dict[str, float]:
        """What plugins measure of the model in evaluation."""
        module = self.loss.module
        module.eval()
        with torch.no_grad():
            found = {entry.name: float(entry.value(module, batches)) for entry in own}
        module.train()
        return found

    def further_measures(self) -> tuple[Measure, ...]:
        """What else is measured while it trains."""
        return ()

    def further_metrics(self) -> dict[str, Any]:
        """What else is measured at the end."""
        return {}

    def _evaluated(self) -> Measured:
        return Measured(metrics={**self.judged(self._during), **self._lane()})

    def _lane(self) -> dict[str, Any]:
        model = self.run.model
        return {"lane_share": self.loss.lane_share(self._during[0])} if model.embedding_width < model.d_model else {}

    @cached_property
    def _during(self) -> list[Batch]:
        return list(self.examples.evaluation_batches(self.run.evaluation.sequences_during, self.loss.part_size))

    def _tokens_at(self, step: int) -> int:
        return round(step * self._tokens_per_step)

    @cached_property
    def _tokens_per_step(self) -> float:
        return self.examples.targets_per_step(self.run.training.batch_size)


def judge_of(run: TokensRun, examples: Examples, loss: TokensLoss, steps: int) -> Judge:
    """The judge of a run."""
    return _kind(run)(run, examples, loss, steps)


def check_judged(run: TokensRun, examples: Examples) -> None:
    """See that a run can be judged; see `Judge.check`.

    Raises:
        UserError: saying what cannot be.
    """
    _kind(run).check(run, examples)


def _kind(run: TokensRun) -> type[Judge]:
    """The judge that the task of a run names."""
    found: type[Judge] = imported(run.task.judge)
    return found
