"""Declare: the tasks of transformers on tokens, the one table of them."""

from functools import reduce
from operator import or_
from typing import Annotated, Any

from pydantic import Field

from headway.declare.tokens.parity import ParityTask
from headway.declare.tokens.task import TokensTask
from headway.declare.tokens.text import TextTask

TASKS: dict[str, type[TokensTask]] = {"text": TextTask, "parity": ParityTask}


def any_of(tasks: dict[str, type[TokensTask]]) -> Any:
    """The type of a task that is one of a table's, told by its `kind`."""
    any_kind = reduce(or_, tasks.values())
    return any_kind if len(tasks) == 1 else Annotated[any_kind, Field(discriminator="kind")]
