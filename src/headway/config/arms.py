"""Arms of an experiment, the runs of each arm, and the steps at which runs keep their weights.

Kept weights let a user look at a run's heads as they were at that step.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, NonNegativeInt, Tag

from headway.config.lm.run import initialised_from
from headway.config.run import RunSpec
from headway.config.spec import log_spaced
from headway.errors import DeclarationError


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An arm of the document, or an arm under a control."""

    name: str
    control: str | None
    group: str | None
    label: str
    resolved_spec: RunSpec
    """The run of this arm with seed 0."""
    is_no_op: bool = False
    """True if the control changes nothing in this arm, so that its runs would equal those of the arm without it."""
    parent: "Arm | None" = None
    """The arm whose runs its runs start from, each from that of its own seed; None where they start from nothing."""

    @property
    def full_name(self) -> str:
        """`ARM` or `ARM+CONTROL`: the name of its folder."""
        return f"{self.name}+{self.control}" if self.control else self.name

    def spec(self, seed: int) -> RunSpec:
        """Return the run of this arm with a seed."""
        return self.resolved_spec.at_seed(seed, None if self.parent is None else self.parent.spec(seed).id)

    def configuration(self, seed: int) -> dict[str, Any]:
        """Return the run of this arm with a seed as plain values, defaults written out."""
        return self.spec(seed).model_dump(mode="json")

    @cached_property
    def expected_spec(self) -> RunSpec:
        """The run as it is expected to be trained, where training depends on the run that it starts from."""
        mine = self.resolved_spec
        return mine if self.parent is None else initialised_from(mine, self.parent.expected_spec)

    def starts_from(self, other: "Arm") -> bool:
        """Return whether runs of this arm start directly from those of another arm."""
        return self.parent is not None and self.parent.full_name == other.full_name

    template = property(attrgetter("resolved_spec"), doc="The former name of `resolved_spec`.")
    idle = property(attrgetter("is_no_op"), doc="The former name of `is_no_op`.")
    expected = property(attrgetter("expected_spec"), doc="The former name of `expected_spec`.")

    @property
    def ancestors(self) -> "tuple[Arm, ...]":
        """The arms that have to be run before this one, in the order of running."""
        return () if self.parent is None else (*self.parent.ancestors, self.parent)


MOST = 1_000
"""The largest number of log-spaced steps."""


Asked = Annotated[
    Annotated[tuple[NonNegativeInt, ...], Tag("list")]
    | Annotated[dict[Literal["log_spaced"], Annotated[int, Field(gt=0, le=MOST)]], Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict) else "list"),
]
"""Steps as a document asks for them: a list, or a number of steps on a log scale from 0 on."""


def steps_of(asked: Asked, steps: int | None) -> tuple[int, ...]:
    """Return the steps at which a run keeps its weights, ascending.

    The last step is left out, since the checkpoint holds its weights anyway.

    Args:
        asked: the steps that the document asks for.
        steps: the number of steps of the run; None if its corpus decides it.

    Examples:
        >>> steps_of((100, 0, 600, 700), steps=600), steps_of({"log_spaced": 3}, steps=600)
        ((0, 100), (0, 7, 70))
    """
    if isinstance(asked, dict):
        return () if steps is None else tuple(step for n in asked.values() for step in log_spaced(n, steps))
    return tuple(sorted(step for step in asked if steps is None or step < steps))


def check_kept(asked: Asked, arms: Iterable[Arm]) -> None:
    """Raise DeclarationError if an arm is not trained for the steps whose weights are asked for.

    Under a control an arm may be shorter, and keeps the steps that it has.

    Raises:
        DeclarationError: naming an arm that has not.
    """
    for arm in arms:
        steps = arm.resolved_spec.declared_steps
        if isinstance(asked, dict):
            if asked and steps is None:
                raise DeclarationError(
                    f"logging.weights: log_spaced needs a number of steps, and arm {arm.name} is trained for epochs; "
                    "give a list of steps"
                )
        elif steps and (late := [step for step in asked if step > steps]):
            raise DeclarationError(
                f"logging.weights: step {late[0]:,} was given, and arm {arm.name} is trained for {steps:,} steps; give "
                "earlier ones"
            )
