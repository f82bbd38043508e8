"""Declare: the laboratories, and the kinds of task of each: the one table of them."""

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, get_args

from headway.declare.icl.run import IclRun
from headway.declare.run import RunSpec, Task
from headway.declare.spec import Locate, Spec, parse
from headway.declare.tokens.run import TokensRun
from headway.declare.tokens.tasks import TASKS
from headway.errors import DeclarationError, near, shortened
from headway.identity import canonical

RUN_KINDS: dict[str, type[RunSpec]] = {"regression": IclRun, **dict.fromkeys(TASKS, TokensRun)}
"""The type of a run for each `task.kind`."""


def kinds_of(member: type[Spec]) -> list[str]:
    """The kinds of task that a declared type is of; none of other types."""
    return list(get_args(member.model_fields["kind"].annotation)) if issubclass(member, Task) else []


def parse_run(content: Mapping[str, Any], locate: Locate = str) -> RunSpec:
    """Validate the whole content of a run; its type is that of its `task.kind`.

    Raises:
        DeclarationError: with one line per wrong key or value.
    """
    task = content.get("task")
    kind = task.get("kind") if isinstance(task, Mapping) else None
    if not isinstance(kind, str) or kind not in RUN_KINDS:
        raise DeclarationError(
            f"{locate('task.kind')}: {shortened(repr(kind))} is not known; {near(str(kind), RUN_KINDS)}"
        )
    return parse(RUN_KINDS[kind], content, locate)


def parse_seeds(content: Mapping[str, Any], locate: Locate = str) -> RunSpec:
    """The same, quickly for the seeds of an arm: of contents that differ in their seed alone, one is validated.

    Raises:
        DeclarationError: with one line per wrong key or value.
    """
    seed = content.get("seed")
    if type(seed) is int and seed >= 0 and content.get("start") is None:
        with suppress(DeclarationError, ValueError):  # which is then told with the places of this content
            return _at_seed_0(canonical({**content, "seed": 0})).at_seed(seed)
    return parse_run(content, locate)


@lru_cache(maxsize=64)
def _at_seed_0(text: str) -> RunSpec:
    return parse_run(json.loads(text))
