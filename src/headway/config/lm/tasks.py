"""The one table of the tasks of transformers on tokens."""

from functools import reduce
from operator import or_
from typing import Annotated, Any

from pydantic import Field

from headway.config.lm.synthetic import EndpointTask, HopsTask, InductionTask, ParityTask, RecallTask, RetrievalTask
from headway.config.lm.task import TokensTask
from headway.config.lm.text import TextTask

TASKS: dict[str, type[TokensTask]] = {
    "text": TextTask,
    "parity": ParityTask,
    "endpoint": EndpointTask,
    "retrieval": RetrievalTask,
    "hops": HopsTask,
    "recall": RecallTask,
    "induction": InductionTask,
}


def any_of(tasks: dict[str, type[TokensTask]]) -> Any:
    """Return the type of a task that is one of a table's, chosen by its `kind`."""
    any_kind = reduce(or_, tasks.values())
    return any_kind if len(tasks) == 1 else Annotated[any_kind, Field(discriminator="kind")]
