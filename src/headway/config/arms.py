"""Declare: an arm of an experiment: a name, and the runs that it stands for.

Declare: the steps whose weights runs keep, so that their heads can be looked at as they were then.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, NonNegativeInt, Tag

from headway.config.run import RunSpec
from headway.config.spec import log_spaced
from headway.errors import DeclarationError


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One thing that is compared: an arm of the document, or one under a control."""

    name: str
    control: str | None
    group: str | None
    label: str
    template: RunSpec
    idle: bool = False
    """Whether its control changes nothing in it, so that its runs would be those of the arm without the control."""
    parent: "Arm | None" = None
    """The arm whose runs its runs start from, each from that of its own seed; None where they start from nothing."""

    @property
    def full_name(self) -> str:
        """`ARM` or `ARM+CONTROL`: the name of its folder."""
        return f"{self.name}+{self.control}" if self.control else self.name

    def spec(self, seed: int) -> RunSpec:
        """The run of this arm with a seed."""
        return self.template.at_seed(seed, None if self.parent is None else self.parent.spec(seed).id)

    def configuration(self, seed: int) -> dict[str, Any]:
        """The same as plain values, defaults written out."""
        if self.parent is None:
            return {**self._configuration, "seed": seed}
        start = {**self._configuration["start"], "run": self.parent.spec(seed).id}
        return {**self._configuration, "seed": seed, "start": start}

    @cached_property
    def expected(self) -> RunSpec:
        """Its run as it is expected to be trained, where that depends on the run that it starts from."""
        return self.template if self.parent is None else self.template.starting_from(self.parent.expected)

    def starts_from(self, other: "Arm") -> bool:
        """Whether its runs start from those of another arm, with none between."""
        return self.parent is not None and self.parent.full_name == other.full_name

    @property
    def ancestors(self) -> "tuple[Arm, ...]":
        """The arms that have to be run before it, the first first."""
        return () if self.parent is None else (*self.parent.ancestors, self.parent)

    @cached_property
    def _configuration(self) -> dict[str, Any]:
        return self.template.model_dump(mode="json")


MOST = 1_000
"""Steps of a run, where they are spaced and not listed."""


Asked = Annotated[
    Annotated[tuple[NonNegativeInt, ...], Tag("list")]
    | Annotated[dict[Literal["log_spaced"], Annotated[int, Field(gt=0, le=MOST)]], Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict) else "list"),
]
"""Steps as a document asks for them: those, or so many from 0 on, evenly on a log scale."""


def steps_of(asked: Asked, steps: int | None) -> tuple[int, ...]:
    """The steps before the last, whose weights are in the checkpoint anyway, of a run of so many; ascending.

    Args:
        asked: by the document.
        steps: of the run; None where its corpus decides them.

    Examples:
        >>> steps_of((100, 0, 600, 700), steps=600), steps_of({"log_spaced": 3}, steps=600)
        ((0, 100), (0, 7, 70))
    """
    if isinstance(asked, dict):
        return () if steps is None else tuple(step for n in asked.values() for step in log_spaced(n, steps))
    return tuple(sorted(step for step in asked if steps is None or step < steps))


def check_kept(asked: Asked, arms: Iterable[Arm]) -> None:
    """Nothing, when each arm has these steps; under a control an arm may be shorter, and keeps those that it has.

    Raises:
        DeclarationError: naming an arm that has not.
    """
    for arm in arms:
        steps = arm.template.declared_steps
        if isinstance(asked, dict):
            if asked and steps is None:
                raise DeclarationError(
                    f"logging.weights: log_spaced goes by the number of steps, and arm {arm.name} is trained for "
                    "epochs, which its corpus counts; give a list of steps"
                )
        elif steps and (late := [step for step in asked if step > steps]):
            raise DeclarationError(
                f"logging.weights: step {late[0]:,} was given, and arm {arm.name} is trained for {steps:,} steps; give "
                "earlier ones"
            )
