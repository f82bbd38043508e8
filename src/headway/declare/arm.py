"""Declare: an arm of an experiment: a name, and the runs that it stands for."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headway.declare.run import RunSpec


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
