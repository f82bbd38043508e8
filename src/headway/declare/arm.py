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

    @property
    def full_name(self) -> str:
        """`ARM` or `ARM+CONTROL`: the name of its folder."""
        return f"{self.name}+{self.control}" if self.control else self.name

    def spec(self, seed: int) -> RunSpec:
        """The run of this arm with a seed."""
        return self.template.model_copy(update={"seed": seed})

    def configuration(self, seed: int) -> dict[str, Any]:
        """The same as plain values, defaults written out."""
        return {**self._configuration, "seed": seed}

    @cached_property
    def _configuration(self) -> dict[str, Any]:
        return self.template.model_dump(mode="json")
