"""One complete training run, everything that can change its result, and its cost counted beforehand.

A run is known by its content. Names, scales, workers and logging are not part of it; where and how a run was executed
is recorded beside it, not in it. Questions that other folders ask of a run are members here, so that none of them asks
for the laboratory.

Parameters are exact (a law: they equal the built model's). FLOPs count a multiplication and an addition as two, in the
products of matrices of a forward pass; training costs about three times as much.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, NonNegativeInt, PositiveInt

from headway.base.identity import digest
from headway.config.spec import Spec


class Budget(Spec):
    """The cost of a run; an example is a prompt, or a sequence of tokens.

    Examples:
        >>> from headway.config.load import load
        >>> load("icl-heads").arm("h2").spec(0).budget.n_parameters
        228
        >>> load("head-progression", scale="paper").arm("descending-low").spec(0).budget.n_parameters
        68514048
    """

    parameters: dict[str, NonNegativeInt]
    """Parameters by part."""
    flops_per_example: NonNegativeInt
    """Floating-point operations of a forward pass of one example."""
    tokens_per_example: PositiveInt
    """Tokens of an example."""
    training_bytes: NonNegativeInt
    """An estimate of weights, gradients, optimizer state and what a batch keeps for the backward pass."""
    judging_bytes: NonNegativeInt = 0
    """An estimate of the evaluation examples, if they are in memory at once."""

    @property
    def peak_bytes(self) -> int:
        """The peak memory of the run, during training or evaluation."""
        return max(self.training_bytes, self.judging_bytes)

    @property
    def n_parameters(self) -> int:
        """The number of all parameters."""
        return sum(self.parameters.values())

    @property
    def flops_per_token(self) -> float:
        """Floating-point operations of a forward pass, for each token of an example."""
        return self.flops_per_example / self.tokens_per_example


class Task(Spec):
    """The task of a model."""

    primary: ClassVar[str]
    """The metric by which arms are compared."""

    kind: str

    @property
    def title(self) -> str:
        """The name of the task in sentences."""
        return self.kind


class Training(Spec):
    """The training settings that all laboratories share."""

    batch_size: PositiveInt = Field(description="examples in a step")
    learning_rate: float = Field(gt=0, description="step size")


class RunSpec(Spec):
    """The base of every kind of run, with all that other folders ask of a run."""

    laboratory: ClassVar[str]
    """The name of its laboratory in `headway.config.kinds.PARTS`."""
    example: ClassVar[str]
    """The unit of FLOPs per example: a prompt, or a token."""
    uses_gpu: ClassVar[bool] = False
    """True if a GPU is worth using; otherwise a run trains on the processor even if there is a GPU."""

    starts_others: ClassVar[bool] = False
    """True if other runs can start from a run of this kind."""

    saves_memory: ClassVar[str] = "lower training.batch_size"
    """Advice for a machine with too little memory for training."""
    saves_judging: ClassVar[str] = ""
    """Advice for a machine with too little memory for the evaluation."""

    measures_own: ClassVar[bool] = False
    """True if metrics of runs that plugins register are measured on this kind of run."""

    seed: NonNegativeInt = Field(description="seeds the initial weights and the training data")
    plugins: tuple[str, ...] = Field((), description="hashes of code of one's own that its result may depend on")
    task: Task
    model: Spec
    training: Training

    @property
    def id(self) -> str:
        """`run1-` and a hash of everything that can change the result, defaults left out."""
        return "run1-" + digest(self.content())

    def effective(self) -> dict[str, Any]:
        """Return the content without choices that have no effect: two runs that are equal here end alike."""
        return self.content()

    @property
    @abstractmethod
    def budget(self) -> Budget:
        """The cost of this run.

        Raises:
            DeclarationError: when the size of a vocabulary stands in a tokenizer's folder that cannot be read.
        """

    @property
    @abstractmethod
    def declared_steps(self) -> int | None:
        """Optimizer steps; None where the data decide them."""

    @property
    def expected_steps(self) -> int | None:
        """The number of steps, with an estimate where it depends on the data."""
        return self.declared_steps

    @property
    def tokens_per_step(self) -> int | None:
        """Tokens that a step trains on; None where time is told in steps, and arms are not timed by themselves."""
        return None

    @property
    def n_ctx(self) -> int | None:
        """The number of tokens of the longest training sequence; None if examples are no tokens."""
        return None

    @property
    def heads(self) -> str:
        """The heads of each layer, as text; empty if all arms of a laboratory have the same."""
        return ""

    @property
    def scheme(self) -> str | None:
        """The change of the number of heads by layer: ascending, constant or descending; None if neither."""
        return None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about this run that are no errors, in sentences."""
        return ()

    @property
    def shape(self) -> str | None:
        """The key of runs that can be trained as one batched program; None if this run cannot.

        Law: runs with one key differ only in their seeds, and in numbers of training and of initial weights.
        """
        return None

    @property
    def trained_alone(self) -> tuple[str, ...]:
        """The reasons that keep this run out of a batched program, a clause each; none if it can be batched.

        Law: there is a reason exactly if `shape` is None.
        """
        return ("its laboratory trains runs one by one",)

    @property
    def small(self) -> bool:
        """True if steps are so small that several at once take hardly longer than one."""
        return False

    @property
    def best_possible(self) -> Mapping[str, float]:
        """Theoretical bounds that no run of this model and task exceeds, by metric."""
        return {}

    @property
    def corpora(self) -> tuple[str, ...]:
        """The corpora that examples are made from, which have to be there; none if examples are drawn."""
        return ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The user's files and folders that the run reads: they have to exist wherever it is executed."""
        return ()

    @abstractmethod
    def fitting_batch(self, bytes_available: int) -> int | None:
        """Return the largest batch whose estimate fits into memory; None if not one example would fit."""

    def has_units_of(self, other: "RunSpec") -> bool:
        """Return whether both runs measure in one unit; nats per token of different tokenizers are two units."""
        del other
        return True

    def no_merit(self, other: "RunSpec", metric: str) -> str:
        """Return why a difference in a metric between two runs says nothing, as a sentence; else empty."""
        del metric
        return "" if self.content()["task"] == other.content()["task"] else "they are judged on different tasks"

    @property
    def parent(self) -> str | None:
        """The id of the run of the same seed that this run starts from; None if it starts from initial weights."""
        return None

    def at_seed(self, seed: int, parent: str | None = None) -> "RunSpec":
        """Return this run with another seed and, if it starts from a run, the id of that seed's parent."""
        del parent
        return self.model_copy(update={"seed": seed})

    def starting_from(self, parent: "RunSpec") -> "RunSpec":
        """Return this run as it is expected to be trained when it starts from another; used to count its cost."""
        del parent
        return self

    def why_not_from(self, parent: "RunSpec", name: str) -> str:
        """Return why this run cannot start from another run, whose arm has the given name; empty if it can."""
        del parent, name
        return ""

    def why_not_anew(self, ancestors: "Sequence[RunSpec]", name: str) -> str:
        """Return why this run should no longer be declared; empty if it may be.

        Directories that have such runs are still read.

        Args:
            ancestors: what it starts from, the first of all first; none where it starts from the beginning.
            name: of the arm of the last of these.
        """
        del ancestors, name
        return ""

    def trained_as(self, beginning: Mapping[str, Any] | None) -> "RunSpec":
        """Return this run as it was trained, with the model it began with, which its folder records.

        Raises:
            DeclarationError: when that is not what a run wrote.
        """
        del beginning
        return self

    @property
    def stored_for(self) -> tuple[int, ...]:
        """The steps of the parent run, beside the last, whose weights have to be stored there."""
        return ()

    @property
    def beginning(self) -> str:
        """The changes that are made to the parent run's weights, in words; empty if there are none."""
        return ""

    @classmethod
    def compared_by(cls, runs: Sequence["RunSpec"]) -> str:
        """Return the metric by which the arms of an experiment are compared, given a run of each."""
        return runs[0].task.primary


def imported(member: str) -> Any:
    """Import a member of a module by its dotted name.

    So a declaration can name functions of folders that import it.

    Examples:
        >>> imported("headway.config.run.Task") is Task
        True
    """
    module, _, name = member.rpartition(".")
    return getattr(import_module(module), name)
