"""Declare: the tasks of transformers on tokens, the one table of them."""

from headway.declare.tokens.task import TokensTask
from headway.declare.tokens.text import TextTask

AnyTask = TextTask
"""A union of them all, chosen by `kind`, as soon as there are several."""

TASKS: dict[str, type[TokensTask]] = {"text": TextTask}
