"""Runs of a table: one value of the metric for each arm and seed, and what else differs between the arms."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.base.text import counted, listed
from headway.config.metrics import Better
from headway.errors import UserError, shortened
from headway.judged.columns import RUNS, SEEDS, STATES, STEPS, TIMES, Roles, better_of
from headway.judged.table import Row, RunTable, number_of

UNFINISHED = ("failed", "crashed", "killed", "error", "running", "timeout", "oom", "preempted", "cancelled")
"""States of runs that have no result."""

_FEW_VALUES = 6
_MOST_NAMED = 8


@dataclass(frozen=True, kw_only=True)
class TableRun:
    """A run of a table.

    Attributes:
        arm: the name of its arm.
        seed: the text of its seed; None if the table has no seeds.
        values: the metric of each repeat with this seed; NaN or infinite where a repeat diverged.
        settings: the last cell of every column, of each repeat.
        last_step: the last step at which something was recorded; None without steps.
    """

    arm: str
    seed: str | None
    values: tuple[float, ...]
    settings: tuple[Mapping[str, Any], ...] = field(repr=False)
    last_step: float | None

    @property
    def value(self) -> float:
        """The mean over repeats of the seed."""
        return math.fsum(self.values) / len(self.values) if all(map(math.isfinite, self.values)) else math.nan


def text_of(cell: Any) -> str:
    """Return a cell as text; a whole number has no decimals, so that 3 and 3.0 are one seed.

    Examples:
        >>> text_of(3.0), text_of("3.0"), text_of("none"), text_of([4, 8])
        ('3', '3', 'none', '[4, 8]')
    """
    if isinstance(cell, list | tuple | dict):
        return json.dumps(cell)
    text = str(cell).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else text


def runs_of(table: RunTable, roles: Roles, at: str = "last") -> tuple[list[TableRun], list[str]]:
    """Return the runs of a table that have a value, and sentences on what was left out.

    Args:
        table: the table, with a row for each run or for each step of a run.
        roles: the roles of its columns.
        at: the value of a run: at its `last` step, the `best` of its steps, or at a step.

    Raises:
        UserError: if no run has a value, or `best` is asked of a metric without a better direction.
    """
    notes = list[str]()
    groups, n_unnamed = _groups(table, roles)
    if n_unnamed:
        notes.append(f"{counted(n_unnamed, 'row')} without an arm {'is' if n_unnamed == 1 else 'are'} left out")
    states = Counter(state for rows in groups.values() if (state := _state(rows)))
    runs: dict[tuple[str, str | None, str], TableRun] = {}
    logged_again = without = 0
    for place, ((arm, seed, _), rows) in enumerate(groups.items()):
        if _state(rows):
            continue
        steps, again = _by_step(table, roles, rows)
        logged_again += again
        values = _chosen(steps, roles, at)
        if not values:
            without += 1
            continue
        # Runs without a seed are runs of their own; runs of one seed are repeats of it.
        key = (arm, seed, "" if seed is not None else str(place))
        former = runs.get(key)
        runs[key] = TableRun(
            arm=arm,
            seed=seed,
            values=(*(former.values if former else ()), *values),
            settings=(*(former.settings if former else ()), _settings(rows)),
            last_step=max((step for step, _ in steps if step is not None), default=None),
        )
    if not runs:
        raise UserError(
            f"{table.source}: no run has a number in {roles.metric}" + (f" at step {at}" if at.isdigit() else "")
        )
    if logged_again:
        notes.append(f"{counted(logged_again, 'run')} logged steps again; the later row of a step counts")
    if states:
        named = listed(f"{n} {state}" for state, n in states.items())
        notes.append(f"{counted(states.total(), 'run')} without a result: {named}")
    if without:
        where = f" at step {at}" if at not in ("last", "best") else ""
        notes.append(f"{counted(without, 'run')} without a number in {roles.metric}{where}: left out")
    return list(runs.values()), notes


def _groups(table: RunTable, roles: Roles) -> tuple[dict[tuple[str, str | None, str], list[Row]], int]:
    """Return the rows of each run, by arm, seed and name of the run, and how many rows have no arm."""
    groups: dict[tuple[str, str | None, str], list[Row]] = {}
    seen, n_unnamed = set[str](), 0
    # A column with one value tells no arms apart.
    varying = [c for c in roles.arm if len({text_of(cell) for cell in table.values(c)}) > 1] or list(roles.arm)
    # A number alone would be no name.
    is_plain = len(varying) == 1 and not table.is_numeric(varying[0])
    for place, row in enumerate(table.rows):
        arm = {column: text_of(row[column]) for column in varying if row.get(column) is not None}
        if not arm:
            n_unnamed += 1
            continue
        named = arm[varying[0]] if is_plain else ", ".join(f"{_short(column)}={cell}" for column, cell in arm.items())
        seed = None if roles.seed is None or row.get(roles.seed) is None else text_of(row[roles.seed])
        run = "" if roles.run is None else text_of(row.get(roles.run))
        if seed is not None or run:
            if (content := repr(row)) in seen:  # a row that was written twice
                continue
            seen.add(content)
        if roles.step is None and not run:
            run = str(place)
        groups.setdefault((named, seed, run), []).append(row)
    return groups, n_unnamed


def _short(column: str) -> str:
    """Return a column's name without the mappings that it stands in: `config.model.n_head` is `n_head`."""
    return column.split(".")[-1].split("/")[-1]


def _state(rows: Sequence[Row]) -> str:
    """Return the state of a run that has no result; empty if it finished or nothing is said."""
    for row in reversed(rows):
        for column, cell in row.items():
            if column.lower() in STATES and isinstance(cell, str) and cell.strip().lower() in UNFINISHED:
                return cell.strip().lower()
    return ""


def _by_step(table: RunTable, roles: Roles, rows: Sequence[Row]) -> tuple[list[tuple[float | None, float]], int]:
    """Return a run's values of the metric in the order of steps, and 1 if it logged a step again."""
    of_steps: dict[float | None, float] = {}
    without_step = list[tuple[float | None, float]]()
    again = 0
    for row in rows:
        value = table.measurement(row.get(roles.metric))
        step = None if roles.step is None else table.number(row.get(roles.step))
        if value is None:
            continue
        if step is None:
            without_step.append((None, value))
            continue
        again = again or int(step in of_steps)
        of_steps[step] = value
    return without_step + sorted(of_steps.items(), key=lambda item: item[0] or 0.0), again


def _chosen(steps: Sequence[tuple[float | None, float]], roles: Roles, at: str) -> tuple[float, ...]:
    if not steps:
        return ()
    if at == "last":
        # A row without a step is a summary of the whole run where there are steps.
        return (steps[-1][1],) if roles.step is not None else tuple(value for _, value in steps)
    if at == "best":
        if roles.better is None:
            raise UserError(
                f"--at best: {roles.metric} has no better direction; add --lower-is-better or --higher-is-better"
            )
        known = [value for _, value in steps if not math.isnan(value)] or [math.nan]
        return (min(known) if roles.better == "lower" else max(known),)
    return tuple(value for step, value in steps if step == float(at))


def _settings(rows: Sequence[Row]) -> Row:
    settings: Row = {}
    for row in rows:
        settings |= {column: cell for column, cell in row.items() if cell is not None}
    return settings


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A column that is set before training, and its values in each arm."""

    column: str
    values: Mapping[str, tuple[str, ...]]

    @property
    def every(self) -> set[str]:
        """All of its values."""
        return {value for values in self.values.values() for value in values}


def settings_of(runs: Sequence[TableRun], roles: Roles) -> Iterator[Setting]:
    """Yield the columns that are settings: not measured, not a seed, a time or a name of a run.

    A setting of numbers has few values, each shared by several runs of an arm; a measurement differs in every run.
    """
    of_arms: dict[str, list[TableRun]] = {}
    for run in runs:
        of_arms.setdefault(run.arm, []).append(run)
    columns = dict.fromkeys(column for run in runs for settings in run.settings for column in settings)
    n_runs = sum(len(run.settings) for run in runs)
    if any(run.last_step is not None for run in runs):
        steps = {arm: tuple(dict.fromkeys(text_of(run.last_step) for run in of_arm)) for arm, of_arm in of_arms.items()}
        yield Setting(column=f"last {roles.step}", values=steps)
    # With one run of each arm, nothing tells a setting from a measurement but its name.
    most = n_runs if len(of_arms) == n_runs else min(max(_FEW_VALUES, len(of_arms)), n_runs - 1)
    for column in columns:
        if column in roles.used or _is_measured(column):
            continue
        values = _values(of_arms, column, most)
        if values is not None:
            yield Setting(column=column, values=values)


def _values(of_arms: Mapping[str, Sequence[TableRun]], column: str, most: int) -> dict[str, tuple[str, ...]] | None:
    """Return the values of a column in each arm; None if there are more different ones than `most`."""
    values, every = dict[str, tuple[str, ...]](), set[str]()
    for arm, runs in of_arms.items():
        of_arm: dict[str, None] = {}
        for run in runs:
            for settings in run.settings:
                cell = settings.get(column)
                of_arm["not given" if cell is None else text_of(cell)] = None
            if len(every | of_arm.keys()) > most:
                return None
        every |= of_arm.keys()
        values[arm] = tuple(of_arm)
    return values


def _is_measured(column: str) -> bool:
    name = column.lower().split(".")[-1].split("/")[-1].strip("_")
    measured = (*SEEDS, *STEPS, *RUNS, *TIMES, *STATES, "notes", "user", "tags", "label", "description")
    if name in measured and not column.startswith("config"):
        return True
    return column.startswith("_") or column.endswith(("__MIN", "__MAX")) or better_of(column) is not None


def confounds(settings: Sequence[Setting]) -> list[str]:
    """Return a sentence for each setting in which arms differ beside their names."""
    said = []
    for setting in settings:
        values = [set(of_arm) for of_arm in setting.values.values()]
        aliases = all(
            len(of) == 1 and _is_alias(next(iter(of)), arm) for arm, of in zip(setting.values, values, strict=True)
        )
        if all(of_arm == values[0] for of_arm in values) or aliases:
            continue
        named = [f"{' or '.join(of_arm[:3])} in {arm}" for arm, of_arm in setting.values.items()]
        shown = "; ".join(shortened(part, 60) for part in named[:4]) + ("; ..." if len(named) > 4 else "")
        said.append(f"{setting.column} differs between the arms: {shown}")
    more = [f"{len(said) - _MOST_NAMED} more columns differ between the arms"] if len(said) > _MOST_NAMED else []
    return said[:_MOST_NAMED] + more


def _is_alias(value: str, arm: str) -> bool:
    """Return whether a value is only another way to write the arm; a number may be another setting's."""
    return number_of(value) is None and (value in arm or arm in value)


def constants(settings: Sequence[Setting]) -> str:
    """Return what all runs share, as a clause; empty if nothing."""
    shared = [f"{s.column} {shortened(next(iter(s.every)), 40)}" for s in settings if len(s.every) == 1]
    more = f" and {len(shared) - _MOST_NAMED} more" if len(shared) > _MOST_NAMED else ""
    return f"the same in all runs: {', '.join(shared[:_MOST_NAMED])}{more}" if shared else ""


def direction(better: Better | None) -> str:
    """Return how a metric is read."""
    return {"lower": "lower is better", "higher": "higher is better", None: "no better direction is known"}[better]
