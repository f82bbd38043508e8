"""The one table of the laboratories, and of the kinds of task of each."""

import marshal
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_args

from headway.config import plugins
from headway.config.own_program import CommandRun
from headway.config.regression import IclRun
from headway.config.run import RunSpec, Task, imported
from headway.config.spec import Locate, Spec, parse, renamed
from headway.errors import DeclarationError, near, shortened

RUN_KINDS: dict[str, type[RunSpec]] = {"regression": IclRun, "command": CommandRun}
"""The type of a run for each `task.kind`; `run_kinds` adds the tasks on tokens, which other workers do not load."""

LABORATORY_PARTS: Mapping[str, Mapping[str, str]] = {
    "icl": {
        "train": "headway.train.regression.LABORATORY",
        "findings": "headway.stats.regression.LABORATORY",
        "report": "headway.report.regression.report.LABORATORY",
    },
    "command": {
        "train": "headway.train.own_program.LABORATORY",
        "findings": "headway.stats.laboratory.LABORATORY",
        "report": "headway.report.experiment.own_program.LABORATORY",
    },
    "tokens": {
        "prepare": "headway.data.batch.prepare",
        "preflight": "headway.data.batch.preflight",
        "train": "headway.train.lm.LABORATORY",
        "findings": "headway.stats.lm.summary.LABORATORY",
        "report": "headway.report.lm.report.LABORATORY",
    },
}
"""The parts that each laboratory supplies to other folders, by name; a task on tokens names its parts in its type."""


def part_of(run: RunSpec | type[RunSpec], name: str) -> Any:
    """Import the part of a run's laboratory that has a name of `LABORATORY_PARTS`."""
    return imported(LABORATORY_PARTS[run.traits.laboratory][name])


def kinds_of(member: type[Spec]) -> list[str]:
    """Return the kinds of task of a declared type; other types have none."""
    return list(get_args(member.model_fields["kind"].annotation)) if issubclass(member, Task) else []


def run_kinds() -> dict[str, type[RunSpec]]:
    """Return `RUN_KINDS` with every task on tokens."""
    from headway.config.lm.run import TASKS, TokensRun

    for name in TASKS:
        RUN_KINDS.setdefault(name, TokensRun)
    return RUN_KINDS


def with_own_family(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the content of a run in which a plugin's family is replaced by what the family stands for."""
    from headway.config.lm.model import OWN_FAMILIES

    model = content.get("model")
    if not isinstance(model, Mapping):
        return content
    family = model.get("family")
    if not isinstance(family, str) or family not in OWN_FAMILIES:
        return content
    choices = OWN_FAMILIES[family]
    return {**content, "model": {**choices, **model, "family": choices["family"]}}


def parse_run(content: Mapping[str, Any], locate: Locate = str) -> RunSpec:
    """Validate the complete content of a run and return it; its `task.kind` decides its type.

    Raises:
        DeclarationError: with one line per wrong key or value.
    """
    task = content.get("task")
    kind = task.get("kind") if isinstance(task, Mapping) else None
    if not isinstance(kind, str) or (kind not in RUN_KINDS and kind not in run_kinds()):
        raise DeclarationError(
            f"{locate('task.kind')}: {shortened(repr(kind))} is not known; {near(str(kind), run_kinds())}"
        )
    run_type = RUN_KINDS[kind]
    if run_type.traits.laboratory == "tokens":
        content = with_own_family(content)
    if gone := [digest for digest in content.get("plugins", ()) if not plugins.is_registered(digest)]:
        raise DeclarationError(
            f"{locate('plugins')}: it needs a plug-in ({shortened(str(gone[0]), 20)}) that is not loaded; "
            "open it in its results directory, which keeps the plug-in"
        )
    return parse(run_type, content, locate)


def parse_stored(content: Mapping[str, Any], locate: Locate = str) -> RunSpec:
    """Validate the stored content of a run; of runs that differ only in their seed, validate one.

    Raises:
        DeclarationError: with one line per wrong key or value.

    Examples:
        >>> from headway.config.load import load
        >>> content = load("icl-heads").arm("h2").configuration(7)
        >>> parse_stored(content) == parse_run(content)
        True
    """
    content = renamed(content)
    seed = content.get("seed")
    if type(seed) is int and seed >= 0:  # a seed has no other requirement
        try:
            # Marshal is the quickest key that distinguishes 1, 1.0 and true, as a run's id does.
            return _at_seed_0(marshal.dumps({**content, "seed": 0}, 2)).at_seed(seed)
        except ValueError:  # reported below, with its place
            pass
    return parse_run(content, locate)


@lru_cache(maxsize=4096)
def _at_seed_0(content: bytes) -> RunSpec:
    return parse_run(marshal.loads(content))
