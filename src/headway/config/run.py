"""Declare: parameters, arithmetic and memory, counted before a run.

Parameters are exact (a law: they equal the built model's). FLOPs count a multiplication and an addition as
two, of the products of matrices in a forward pass; training costs about three times as much.

Declare: one training run, whole: everything that can change its result, and nothing else.

A run is known by its content. Names, scales, workers and logging are not part of it; where and how it was executed is
recorded beside it, not in it. What other rooms ask of a run is a member here, so that none of them asks which
laboratory it belongs to.
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
    """What a run costs. An example is a prompt, or a sequence of tokens.

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
    """Weights, gradients, optimizer state and what a batch keeps for the backward pass; an estimate."""
    judging_bytes: NonNegativeInt = 0
    """What it is judged on, where that is in memory at once; an estimate."""

    @property
    def peak_bytes(self) -> int:
        """The most that it needs at any time: while it trains, or while it is judged."""
        return max(self.training_bytes, self.judging_bytes)

    @property
    def n_parameters(self) -> int:
        """All parameters."""
        return sum(self.parameters.values())

    @property
    def flops_per_token(self) -> float:
        """Floating-point operations of a forward pass, for each token of an example."""
        return self.flops_per_example / self.tokens_per_example


class Task(Spec):
    """What a model is asked to do."""

    primary: ClassVar[str]
    """The metric that arms are judged by."""

    kind: str

    @property
    def title(self) -> str:
        """What sentences call it."""
        return self.kind


class Training(Spec):
    """How a model is trained, as far as all laboratories share it."""

    batch_size: PositiveInt = Field(description="examples in a step")
    learning_rate: float = Field(gt=0, description="step size")


class RunSpec(Spec):
    """What every kind of run has, and what other rooms ask of it."""

    laboratory: ClassVar[str]
    """The name of its laboratory in `headway.config.kinds.PARTS`."""
    example: ClassVar[str]
    """What FLOPs are told of: a prompt, or a token."""
    uses_gpu: ClassVar[bool] = False
    """Whether it is worth a GPU; those that are not train on the processor whatever there is."""

    starts_others: ClassVar[bool] = False
    """Whether other runs can start from one of its kind."""

    saves_memory: ClassVar[str] = "lower training.batch_size"
    """What to do where memory is short."""
    saves_judging: ClassVar[str] = ""
    """What to do where memory is too short for what it is judged on."""

    measures_own: ClassVar[bool] = False
    """Whether metrics of runs that plugins register are measured of it."""

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
        """Its content without the choices that cannot matter in it: two runs that are equal here end alike."""
        return self.content()

    @property
    @abstractmethod
    def budget(self) -> Budget:
        """What it costs.

        Raises:
            DeclarationError: when the size of a vocabulary stands in a tokenizer's folder that cannot be read.
        """

    @property
    @abstractmethod
    def declared_steps(self) -> int | None:
        """Optimizer steps; None where the data decide them."""

    @property
    def expected_steps(self) -> int | None:
        """The same, with what can be guessed of the data."""
        return self.declared_steps

    @property
    def tokens_per_step(self) -> int | None:
        """Tokens that a step trains on; None where time is told in steps, and arms are not timed by themselves."""
        return None

    @property
    def n_ctx(self) -> int | None:
        """Tokens of the longest sequence that it trains on; None where examples are no tokens."""
        return None

    @property
    def heads(self) -> str:
        """The heads of each layer, as text; empty where all arms of a laboratory are alike in it."""
        return ""

    @property
    def scheme(self) -> str | None:
        """What the number of heads does from layer to layer: ascending, constant, descending; None where neither."""
        return None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What of it a user may not expect, and is no error, in sentences."""
        return ()

    @property
    def shape(self) -> str | None:
        """What runs share that can be trained as one batched program: all but seeds and numbers; None where none can.

        Law: runs of one shape differ in their seeds, and in numbers of training and of initial weights alone.
        """
        return None

    @property
    def trained_alone(self) -> tuple[str, ...]:
        """Why it cannot be trained together with others, a clause for each reason; none where it can.

        Law: there is one exactly where `shape` is None.
        """
        return ("its laboratory trains runs one by one",)

    @property
    def small(self) -> bool:
        """Whether its steps are so small that several at once take hardly longer than one."""
        return False

    @property
    def best_possible(self) -> Mapping[str, float]:
        """What no run of this model and task gets beyond, by metric, as far as theory says."""
        return {}

    @property
    def corpora(self) -> tuple[str, ...]:
        """What its examples are made from and has to be there; none where they are drawn."""
        return ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Files and folders of the user's that it reads: they have to be wherever it is worked on."""
        return ()

    @abstractmethod
    def fitting_batch(self, bytes_available: int) -> int | None:
        """The largest batch that would fit into so much memory by the estimate; None where not one example would."""

    def has_units_of(self, other: "RunSpec") -> bool:
        """Whether what both measure of an example is told in one unit, as nats per token of other tokens are not."""
        del other
        return True

    def no_merit(self, other: "RunSpec", metric: str) -> str:
        """Why a difference in a metric to another run is no merit of either, in a sentence; empty where it is one."""
        del metric
        return "" if self.content()["task"] == other.content()["task"] else "they are judged on different tasks"

    @property
    def parent(self) -> str | None:
        """The id of the run of the same seed that it starts from; None where it starts from the beginning."""
        return None

    def at_seed(self, seed: int, parent: str | None = None) -> "RunSpec":
        """The same run with another seed, and the id of that seed's run that it starts from, if it does."""
        del parent
        return self.model_copy(update={"seed": seed})

    def starting_from(self, parent: "RunSpec") -> "RunSpec":
        """The run as it is expected to be trained, starting from another; for counting what it costs."""
        del parent
        return self

    def why_not_from(self, parent: "RunSpec", name: str) -> str:
        """Why it cannot start from another run, whose arm has this name; empty where it can."""
        del parent, name
        return ""

    def why_not_anew(self, ancestors: "Sequence[RunSpec]", name: str) -> str:
        """Why nobody should declare it now; empty where they may. Directories that have such runs are still read.

        Args:
            ancestors: what it starts from, the first of all first; none where it starts from the beginning.
            name: of the arm of the last of these.
        """
        del ancestors, name
        return ""

    def trained_as(self, beginning: Mapping[str, Any] | None) -> "RunSpec":
        """The run as it was trained: with the model that it began with, of which its folder says it.

        Raises:
            DeclarationError: when that is not what a run wrote.
        """
        del beginning
        return self

    @property
    def stored_for(self) -> tuple[int, ...]:
        """The steps of the run that it starts from whose weights have to be stored there, beside the last."""
        return ()

    @property
    def beginning(self) -> str:
        """What is done to the run that it starts from, in words; empty where nothing is."""
        return ""

    @classmethod
    def compared_by(cls, runs: Sequence["RunSpec"]) -> str:
        """The metric by which the arms of an experiment are compared, given a run of each."""
        return runs[0].task.primary


def imported(member: str) -> Any:
    """The member of a module by its dotted name: a room above is named here, and imported when it is used.

    Examples:
        >>> imported("headway.config.run.Task") is Task
        True
    """
    module, _, name = member.rpartition(".")
    return getattr(import_module(module), name)
