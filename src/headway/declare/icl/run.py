"""Declare: a run of the in-context laboratory."""

from functools import cached_property
from typing import ClassVar

from pydantic import Field, model_validator

from headway.declare.budget import Budget
from headway.declare.icl import budget
from headway.declare.icl.model import IclModel, OneLayer
from headway.declare.icl.task import CircuitProbes, PromptEvaluation, RegressionTask
from headway.declare.icl.training import TrainingSpec
from headway.declare.limits import check_numbers
from headway.declare.run import RunSpec


class IclRun(RunSpec):
    """A run of the in-context laboratory."""

    laboratory: ClassVar[str] = "icl"
    example: ClassVar[str] = "prompt"
    saves_judging: ClassVar[str] = (
        "lower evaluation.prompts, evaluation.prompts_during, or prompts or longest of evaluation.curve"
    )

    task: RegressionTask
    model: IclModel
    training: TrainingSpec
    evaluation: PromptEvaluation = Field(PromptEvaluation(), description="on what the run is judged")
    probes: CircuitProbes = Field(CircuitProbes(), description="what is measured in the heads")

    @model_validator(mode="after")
    def _size(self) -> "IclRun":
        width = self.task.d_token
        numbers = sum(budget.parameters_by_part(self.task, self.model).values())
        batch = self.training.batch_size * (self.task.n_pairs + 1) * width
        check_numbers(numbers, batch, "task.d_x, task.d_y, model.n_heads or model.n_layers")
        return self

    @model_validator(mode="after")
    def _outputs(self) -> "IclRun":
        n_out = self.model.n_out if isinstance(self.model, OneLayer) else None
        if n_out not in (None, self.task.d_y):
            raise ValueError(f"model.n_out is {n_out} but task.d_y is {self.task.d_y}; make them equal, or n_out null")
        return self

    @cached_property
    def budget(self) -> Budget:
        """What it costs."""
        return Budget(
            parameters=budget.parameters_by_part(self.task, self.model),
            flops_per_example=budget.forward_flops(self.task, self.model),
            tokens_per_example=self.task.n_pairs + 1,
            training_bytes=budget.training_bytes(self.task, self.model, self.training),
            judging_bytes=budget.judging_bytes(self.task, self.evaluation),
        )

    @property
    def declared_steps(self) -> int:
        """Optimizer steps."""
        return self.training.steps

    def fitting_batch(self, bytes_available: int) -> int | None:
        """The largest batch that would fit into so much memory by the estimate; None where not one prompt would."""
        return budget.fitting_batch(self.task, self.model, self.training, bytes_available)
