"""One complete training run, everything that can change its result, and its cost counted beforehand.

A run is known by its content. Names, scales, workers and logging are not part of it; where and how a run was executed
is recorded beside it, not in it. Questions that other folders ask of a run are members here, so that none of them asks
for the laboratory.

Parameters are exact (a law: they equal the built model's). FLOPs count a multiplication and an addition as two, in the
products of matrices of a forward pass; training costs about three times as much.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from headway.base.identity import digest, without
from headway.config.spec import FORMER, Spec, renamed

PER_BYTE = "eval_bits_per_byte"
"""The metric that compares arms with different tokens."""

WORK = "command"
"""The folder of a run in which its command works, if it has one."""


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
    state_bytes: NonNegativeInt
    """An estimate of weights, gradients and optimizer state."""
    example_bytes: PositiveInt
    """An estimate of what an example keeps for the backward pass."""
    batch_size: PositiveInt
    """Examples in a step."""
    parts: PositiveInt = 1
    """Equal parts of a batch, of which one is in memory at a time."""
    judging_bytes: NonNegativeInt = 0
    """An estimate of the evaluation examples, if they are in memory at once."""
    steps: NonNegativeInt | None = None
    """Optimizer steps, with an estimate where the data decide them; None if they cannot be known."""

    @property
    def training_bytes(self) -> int:
        """The memory of training: the state, and one part of a batch."""
        return self.state_bytes + self.batch_size // self.parts * self.example_bytes

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

    def fitting_batch(self, bytes_available: int) -> int | None:
        """Return the largest batch that fits into memory in the present number of parts.

        The result is None if not even one example a part would fit.
        """
        return int(max(0, bytes_available - self.state_bytes) // self.example_bytes) * self.parts or None


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The traits that all runs of a laboratory share."""

    laboratory: str
    """The name of the laboratory in `headway.config.kinds.LABORATORY_PARTS`."""
    example: str
    """The unit of FLOPs per example: a prompt, or a token."""
    uses_gpu: bool = False
    """True if a GPU is worth using; otherwise a run trains on the processor even if there is a GPU."""
    initialises_others: bool = False
    """True if other runs can be initialised from a run of this kind."""
    measures_user_metrics: bool = False
    """True if metrics of runs that plugins register are measured."""
    memory_advice: str = "lower training.batch_size"
    """Advice for a machine with too little memory for training."""
    judging_memory_advice: str = ""
    """Advice for a machine with too little memory for the evaluation."""


class Task(Spec):
    """The task of a model."""

    primary: ClassVar[str]
    """The metric by which arms are compared."""

    kind: str

    if TYPE_CHECKING:  # a field, a property, or None

        @property
        def n_ctx(self) -> int | None:
            """The number of tokens of a training sequence; None if examples are no tokens."""

    @property
    def title(self) -> str:
        """The name of the task in sentences."""
        return self.kind

    @property
    def corpora(self) -> tuple[str, ...]:
        """The corpora that examples are made from, which have to be there; none if examples are drawn."""
        return ()

    @property
    def read_files(self) -> tuple[Path, ...]:
        """The user's files and folders that a run reads: they have to exist wherever it is executed."""
        return ()

    def check_files(self, folder: Path) -> None:
        """Check a task that stands in a file that the user typed, in a folder; most need nothing.

        Raises:
            DeclarationError: saying what is missing.
        """

    def compared_content(self, metric: str) -> dict[str, Any]:
        """Return the content that tasks share if a metric compares their arms."""
        content = self.content()
        if metric == PER_BYTE:  # another tokenizer is only another way to do one task
            content.pop("tokenizer", None)
        return content

    def best_possible(self, model: Any) -> Mapping[str, float]:  # noqa: ARG002
        """Return known bounds that no model of this shape exceeds, by metric."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Comparability:
    """Facts that decide if a difference between two runs says something about their models."""

    task: Task
    units: tuple[object, ...] = ()
    """The texts and the tokenizer: nats per token of different ones are different units."""
    sees_targets: bool = False
    """True if the model sees the token that it is to predict."""

    def incomparable_reason(self, other: "Comparability", metric: str) -> str:
        """Return why a difference in a metric between two runs says nothing, as a sentence; else empty."""
        if self.task.compared_content(metric) != other.task.compared_content(metric):
            return "they are evaluated on different tasks"
        return "one of them sees the token that it is to predict" if self.sees_targets != other.sees_targets else ""


@dataclass(frozen=True, kw_only=True)
class Batching:
    """The terms on which a run can be trained with others, as one batched program.

    Law: `key` is None exactly if there is an obstacle. Runs with one key differ only in their seeds, and in numbers of
    training and of initial weights.
    """

    key: str | None = None
    """The key of runs that can be trained together; None if this run cannot."""
    obstacles: tuple[str, ...] = ()
    """The reasons that keep this run out of a batched program, a clause each."""
    is_cheap: bool = False
    """True if steps are so small that several at once take hardly longer than one."""


class Training(Spec):
    """The training settings that all laboratories share."""

    batch_size: PositiveInt
    """number of examples per optimizer step"""
    learning_rate: PositiveFloat
    """learning rate"""


class InitialRun(Spec):
    """A run of the same seed whose weights another run starts from."""

    run: str
    """the id of the run; a file names its arm instead, as `arm`"""

    @property
    @abstractmethod
    def required_checkpoints(self) -> tuple[int, ...]:
        """The steps of that run, beside its last, whose weights have to be stored there."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """The changes made to the weights before training, in words; empty if there are none."""


class RunSpec(Spec):
    """The base of every kind of run, with all that other folders ask of a run."""

    traits: ClassVar[Traits]

    seed: NonNegativeInt
    """seeds the initial weights and the training data"""
    plugins: tuple[str, ...] = ()
    """hashes of your own code that the result may depend on"""
    task: Task
    model: Spec
    training: Spec

    @property
    def id(self) -> str:
        """`run1-` and a hash of everything that can change the result, defaults left out."""
        return "run1-" + digest(renamed(self.content(), FORMER))

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
    def heads_summary(self) -> str:
        """The heads of each layer, as text; empty if all arms of a laboratory have the same."""
        return str(getattr(self.model, "layout", ""))

    @property
    def scheme(self) -> str | None:
        """The change of the number of heads by layer: ascending, constant or descending; None if neither."""
        return None

    @property
    def command(self) -> str:
        """The command line of a run that Headway does not train itself; empty if it does."""
        return ""

    def check_trusted(self, directory: Path, *, trust_code: bool) -> None:
        """Raise ResultsError if a results directory would run code that the user has not typed; most run none.

        Raises:
            ResultsError: naming the code.
        """

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about this run that are no errors, in sentences."""
        return ()

    @property
    def batching(self) -> Batching:
        """The terms on which it can be trained with others as one program; by default it is trained alone."""
        return Batching(obstacles=("its laboratory trains runs one by one",))

    @property
    def comparability(self) -> Comparability:
        """Settings that another run has to share, so that a difference says something."""
        return Comparability(task=self.task)

    @property
    def initial_run(self) -> InitialRun | None:
        """The run of the same seed that this run is initialised from; None if it starts from initial weights."""
        start: InitialRun | None = getattr(self, "init_from", None)
        return start

    def at_seed(self, seed: int, init_run: str | None = None) -> "RunSpec":
        """Return this run with another seed and, if it is initialised from a run, the id of that seed's run."""
        start = self.initial_run
        other = {} if start is None or init_run is None else {"init_from": start.model_copy(update={"run": init_run})}
        return self.model_copy(update={"seed": seed, **other})


def effective(run: RunSpec) -> dict[str, Any]:
    """Return the content of a run without choices of its model that have no effect: equal ones end alike."""
    content, idle = run.content(), getattr(run.model, "idle", ())
    return {**content, "model": without(content.get("model", {}), *idle)}


def imported(member: str) -> Any:
    """Import a member of a module by its dotted name.

    So a declaration can name functions of folders that import it.

    Examples:
        >>> imported("headway.config.run.Task") is Task
        True
    """
    module, _, name = member.rpartition(".")
    return getattr(import_module(module), name)
