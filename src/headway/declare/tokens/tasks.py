"""Declare: the tasks of transformers on tokens, the one table of them."""

from functools import reduce
from operator import or_
from typing import Annotated, Any

from pydantic import Field

from headway.declare.tokens.endpoint import EndpointTask
from headway.declare.tokens.hops import HopsTask
from headway.declare.tokens.induction import InductionTask
from headway.declare.tokens.parity import ParityTask
from headway.declare.tokens.recall import RecallTask
from headway.declare.tokens.retrieval import RetrievalTask
from headway.declare.tokens.task import TokensTask
from headway.declare.tokens.text import TextTask

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
    """The type of a task that is one of a table's, told by its `kind`."""
    any_kind = reduce(or_, tasks.values())
    return any_kind if len(tasks) == 1 else Annotated[any_kind, Field(discriminator="kind")]
