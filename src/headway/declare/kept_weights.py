"""Declare: the steps whose weights runs keep, so that their heads can be looked at as they were then."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Discriminator, Field, NonNegativeInt, Tag

from headway.declare.arm import Arm
from headway.declare.log_spaced import log_spaced
from headway.errors import DeclarationError

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
