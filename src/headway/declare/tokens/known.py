"""Declare: tasks whose answer is known: theory, or a published table, says what a model needs for them.

They are small, so that an answer is a share of hundreds of seeds. What a model could express (`best_possible`) and what
training finds are two things; experiments show both.
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from headway.declare.tokens.task import TokensTask
from headway.declare.tokens.training import TokensTraining
from headway.declare.tokens.transformer import SOFTMAX, TransformerModel

MOST_INPUTS = 2**16
"""Of a task whose inputs are all listed."""


class KnownTask(TokensTask):
    """A task whose answer is known; its examples are drawn, or all of its inputs once."""

    primary: ClassVar[str] = "solved"
    judge: ClassVar[str] = "headway.train.tokens.known.KnownJudge"
    baselines: ClassVar[str] = "headway.compare.tokens.known.baselines"

    solved_above: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="a run has solved the task with a larger share of right answers than this; null: with all of them, "
        "and .99 where inputs cannot be listed",
    )

    @property
    def n_inputs(self) -> int | None:
        """How many inputs there are; a batch as large as that is all of them once. None where they are not listed."""
        return None

    @property
    def enough(self) -> float:
        """The least share of right answers of a run that has solved it, or what that share has to be above."""
        return self.solved_above if self.solved_above is not None else 1.0 if self.n_inputs is not None else 0.99

    def is_solved(self, accuracy: float) -> bool:
        """Whether a share of right answers is a solution."""
        return accuracy >= 1.0 or (self.enough < 1.0 and accuracy > self.enough)

    def best_possible(self, model: TransformerModel) -> Mapping[str, float]:  # noqa: ARG002
        """All right, or no error: more than that is a defect whatever the model."""
        return {"nmse": 0.0} if self.loss == "mse" else {"accuracy": 1.0}

    def by_chance(self) -> float | None:
        """The share that is right of a model that cannot look up what belongs to what; None where nobody says."""
        return None

    def check_training(self, training: TokensTraining) -> None:
        """See that there is a number of steps, and no larger batch than there are inputs.

        Raises:
            ValueError: saying what to give instead.
        """
        super().check_training(training)
        if self.n_inputs is None and training.epochs is not None:
            raise ValueError(f"training.epochs: examples of task.kind {self.kind} are drawn without end; give steps")
        if self.n_inputs is not None and training.batch_size > self.n_inputs:
            raise ValueError(
                f"training.batch_size {training.batch_size} is above the {self.n_inputs} inputs of {self.title}; give "
                f"{self.n_inputs} for all of them in every step, or fewer to draw them"
            )

    def why_not_prompt(self, prompt: str) -> str | None:  # noqa: ARG002
        """There is no text."""
        return f"task.kind {self.kind} has no text to go on with; leave samples out"


def is_one_attention(model: TransformerModel) -> bool:
    """Whether a model is one layer of softmax attention and nothing else, of which theorems speak."""
    return (
        model.n_layers == 1
        and model.attention == SOFTMAX
        and model.mlp == "none"
        and model.norm == "none"
        and not model.smeared_keys
        and not model.class_token
    )
