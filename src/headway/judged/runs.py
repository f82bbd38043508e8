"""Runs of a table: one value of the metric for each arm and seed, and what else differs between the arms."""

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headway.base.identity import grouped
from headway.base.text import listed, some_names
from headway.base.words import say
from headway.config.metrics import Better
from headway.errors import UserError, shortened
from headway.judged.columns import RUNS, SEEDS, STATES, STEPS, TIMES, Roles, better_of, is_end_of_band, last_name
from headway.judged.table import Row, RunTable, number_of

UNFINISHED = ("failed", "crashed", "killed", "error", "running", "timeout", "oom", "preempted", "cancelled")
"""States of runs that have no result."""

_MISSING = ("", "na", "nan", "null", "none", "n/a")
"""Texts of a seed that is missing."""

Groups = dict[tuple[str, str | None, str], list[Row]]
"""The rows of each run, by arm, seed and name of the run."""

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
    last_step: float | None = None

    @property
    def value(self) -> float:
        """The mean over repeats of the seed."""
        if not all(map(math.isfinite, self.values)):
            return math.nan
        return sum(value / len(self.values) for value in self.values)


def text_of(cell: Any) -> str:
    """Return a cell as text; 3.0 that is a number reads 3, as 3 does where a column has no gaps.

    Examples:
        >>> text_of(3.0), text_of("1.0"), text_of("none"), text_of([4, 8])
        ('3', '1.0', 'none', '[4, 8]')
    """
    if isinstance(cell, list | tuple | dict):
        return json.dumps(cell)
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return unicodedata.normalize("NFC", str(cell).strip())


def seed_of(cell: Any) -> str | None:
    """Return a seed as text; None where the cell says that it is missing.

    Examples:
        >>> seed_of("3.0"), seed_of("a-3"), seed_of("NA"), seed_of(float("nan"))
        ('3', 'a-3', None, None)
    """
    if cell is None:
        return None
    text = text_of(cell)
    if text.lower() in _MISSING:
        return None
    whole = re.fullmatch(r"(\d+)\.0+", text)
    return whole[1] if whole else text


def runs_of(table: RunTable, roles: Roles, at: str = "last") -> tuple[list[TableRun], list[str]]:
    """Return the runs of a table that have a value, and sentences on what was left out.

    Args:
        table: the table, with a row for each run or for each step of a run.
        roles: the roles of its columns.
        at: the value of a run: at its `last` step, the `best` of its steps, or at a step.

    Raises:
        UserError: if no run has a value, or `best` is asked of a metric without a better direction.
    """
    where = "" if at in ("last", "best") else f" at step {at}"
    groups, n_unnamed = _groups(table, roles)
    if len({arm for arm, _, _ in groups}) > 1:
        _check_one_run(table, roles, groups)
    of_states = [column for column in table.columns if column.lower() in STATES]
    states = Counter[str]()
    runs: dict[tuple[str, str | None, str], TableRun] = {}
    logged_again = without = 0
    for place, ((arm, seed, _), rows) in enumerate(groups.items()):
        if state := _state(rows, of_states):
            states[state] += 1
            continue
        steps, again = _by_step(table, roles, rows)
        logged_again += again
        values = _chosen(steps, roles, at)
        if not values:
            without += 1
            continue
        # Runs without a seed are runs of their own; runs of one seed are repeats of it.
        key = (arm, seed, "" if seed is not None else str(place))
        run = TableRun(arm=arm, seed=seed, values=values, settings=(_settings(rows),))
        runs[key] = _after(runs.get(key), run, [step for step, _ in steps if step is not None])
    if not runs:
        raise UserError(f"{table.source}: no run has a number in {roles.metric}{where}")
    counts = {"without_arm": n_unnamed, "logged_again": logged_again, "without_number": without}
    notes = [say(kind, n=n, metric=roles.metric, where=where) for kind, n in counts.items() if n]
    if states:
        named = listed(f"{n} {state}" for state, n in states.items())
        notes.append(say("without_result", n=states.total(), states=named))
    return list(runs.values()), notes


def _after(former: TableRun | None, run: TableRun, steps: Sequence[float]) -> TableRun:
    """Return a run after another of its seed: its repeat, or its end if it began where the other stopped."""
    run = replace(run, last_step=max(steps, default=None))
    if former is None or (former.last_step is not None and steps and min(steps) > former.last_step):
        return run
    return replace(run, values=former.values + run.values, settings=former.settings + run.settings)


def _groups(table: RunTable, roles: Roles) -> tuple[Groups, int]:
    """Return the rows of each run, and how many rows have no arm."""
    groups: Groups = {}
    seen, n_unnamed = set[str](), 0
    has_names = roles.step is not None or roles.run is not None
    drops_repeats = has_names or (roles.seed is not None and _is_written_twice(table))
    # A column with one value tells no arms apart.
    varying = [c for c in roles.arm if len({text_of(cell) for cell in table.values(c)}) > 1] or list(roles.arm)
    # A number alone would be no name.
    is_plain = len(varying) == 1 and not table.is_numeric(varying[0])
    for place, row in enumerate(table.rows):
        cells = ((column, row.get(column)) for column in varying)
        arm = {column: text_of(cell) for column, cell in cells if not _is_missing(cell)}
        if not arm:
            n_unnamed += 1
            continue
        # `config.model.n_head` is `n_head`.
        parts = (f"{re.split(r'[./]', column)[-1]}={cell}" for column, cell in arm.items())
        named = arm[varying[0]] if is_plain else ", ".join(parts)
        seed = None if roles.seed is None else seed_of(row.get(roles.seed))
        run = "" if roles.run is None else text_of(row.get(roles.run))
        if drops_repeats and (seed is not None or run):
            if (content := repr(row)) in seen:  # a row that was written twice
                continue
            seen.add(content)
        if roles.step is None and not run:
            run = str(place)
        groups.setdefault((named, seed, run), []).append(row)
    return groups, n_unnamed


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _is_written_twice(table: RunTable) -> bool:
    """Return whether every row occurs equally often, and more than once."""
    times = set(Counter(map(repr, table.rows)).values())
    return len(times) == 1 and min(times) > 1


def _check_one_run(table: RunTable, roles: Roles, groups: Groups) -> None:
    """Raise UserError if rows of a run differ in a setting, or nothing tells runs apart.

    Raises:
        UserError: naming the column that has to be part of the arm, or the role that is missing.
    """
    of_seeds: dict[tuple[str, str | None], list[Row]] = {}
    for (arm, seed, _), rows in groups.items():
        of_seeds.setdefault((arm, seed), []).extend(rows)
    measured = {key: [row for row in rows if row.get(roles.metric) is not None] for key, rows in of_seeds.items()}
    if roles.seed is not None and any(len(rows) > 1 for rows in measured.values()):
        for column in table.columns:
            if column in roles.used or _is_measured(column) or (better_of(column) and table.is_numeric(column)):
                continue
            _check_setting(table, roles, column, measured)
    if roles.step is None or roles.run is not None:
        return
    for (arm, seed, _), rows in groups.items():
        steps = Counter(row.get(roles.step) for row in rows if row.get(roles.metric) is not None)
        if seed is None and max(steps.values(), default=0) > 1:
            raise UserError(
                f"{table.source}: rows of {arm} have the same {roles.step} and no seed, so they may be one run or "
                "several; type --seed NAME, or leave the column of steps out of the table"
            )


def _check_setting(
    table: RunTable, roles: Roles, column: str, of_seeds: Mapping[tuple[str, str | None], Sequence[Row]]
) -> None:
    """Raise UserError if rows of one arm and seed differ in a column whose values recur in other seeds."""
    values = {key: {text_of(row.get(column)) for row in rows} for key, rows in of_seeds.items()}
    varying = {key: of_seed for key, of_seed in values.items() if len(of_seed) > 1}
    times = Counter(value for of_seed in values.values() for value in of_seed)
    if not varying or len(values) < 2:
        return
    recurs = all(times[value] > 1 for of_seed in varying.values() for value in of_seed)
    at_one_step = roles.step is None or any(_repeats_steps(rows, roles, column) for rows in of_seeds.values())
    if recurs and at_one_step:
        (arm, seed), several = next(iter(varying.items()))
        shown = ", ".join(sorted(several)[:3])
        raise UserError(
            f"{table.source}: {column} has several values in arm {arm}, seed {seed} ({shown}); type --arm "
            f"{','.join((*roles.arm, column))}, or keep the rows of one value"
        )


def _repeats_steps(rows: Sequence[Row], roles: Roles, column: str) -> bool:
    """Return whether a step of one seed has rows with several values of a column."""
    seen: dict[str, set[str]] = {}
    for row in rows:
        seen.setdefault(text_of(row.get(roles.step or "")), set()).add(text_of(row.get(column)))
    return any(len(values) > 1 for values in seen.values())


def _state(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Return the state of a run that has no result, by the columns of states; empty if it finished."""
    for row in reversed(rows):
        for column in columns:
            if isinstance(cell := row.get(column), str):
                state = cell.strip().lower()
                return state if state in UNFINISHED else ""
    return ""


def _by_step(table: RunTable, roles: Roles, rows: Sequence[Row]) -> tuple[list[tuple[float | None, float]], int]:
    """Return a run's values of the metric in the order of steps, and 1 if it logged a step again."""
    of_steps: dict[float, float] = {}
    without_step = list[tuple[float | None, float]]()
    again = False
    for row in rows:
        value = table.measurement(row.get(roles.metric))
        step = None if roles.step is None else table.number(row.get(roles.step))
        if value is None:
            continue
        if step is None or math.isnan(step):
            without_step.append((None, value))
            continue
        again = again or step in of_steps
        of_steps.pop(step, None)
        of_steps[step] = value
    # Rows that log a step again come from a run that went back, and stand in the order of time.
    return [*without_step, *(of_steps.items() if again else sorted(of_steps.items()))], int(again)


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
    of_arms = grouped(runs, lambda run: run.arm)
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
        setting = Setting(column=column, values={arm: _values(of_arm, column) for arm, of_arm in of_arms.items()})
        if len(setting.every) <= most and not _is_metric(setting):
            yield setting


def _values(runs: Sequence[TableRun], column: str) -> tuple[str, ...]:
    """Return the different values of a column in the runs of an arm."""
    cells = (settings.get(column) for run in runs for settings in run.settings)
    return tuple(dict.fromkeys("not given" if cell is None else text_of(cell) for cell in cells))


def _is_metric(setting: Setting) -> bool:
    """Return whether a column has the name of a metric, and numbers that differ within an arm."""
    if better_of(setting.column) is None or all(len(of_arm) == 1 for of_arm in setting.values.values()):
        return False
    return all(number_of(value) is not None for value in setting.every)


def _is_measured(column: str) -> bool:
    """Return whether a column is known by its name to be no setting."""
    measured = (*SEEDS, *STEPS, *RUNS, *TIMES, *STATES, "notes", "user", "tags", "label", "description")
    if last_name(column) in measured and not column.startswith("config"):
        return True
    return column.startswith("_") or is_end_of_band(column)


def confounds(settings: Sequence[Setting]) -> list[str]:
    """Return a sentence for each setting in which arms differ beside their names."""
    said = []
    for setting in settings:
        values = [set(of_arm) for of_arm in setting.values.values()]
        rests = {_rest(of_arm[0], arm) if len(of_arm) == 1 else None for arm, of_arm in setting.values.items()}
        is_alias = len(rests) == 1 and None not in rests
        if all(of_arm == values[0] for of_arm in values) or is_alias:
            continue
        named = [f"{' or '.join(of_arm[:3])} in {arm}" for arm, of_arm in setting.values.items()]
        shown = "; ".join(shortened(part, 60) for part in named[:4]) + ("; ..." if len(named) > 4 else "")
        said.append(say("confound", column=setting.column, values=shown))
    more = [say("more_confounds", n=len(said) - _MOST_NAMED)] if len(said) > _MOST_NAMED else []
    return said[:_MOST_NAMED] + more


def _rest(value: str, arm: str) -> frozenset[str] | None:
    """Return the words of a value that are not those of its arm; None if it has none of the arm's, or is a number.

    Values whose rest is the same in every arm are another way to write the arms.
    """
    if number_of(value) is not None:
        return None
    words, of_arm = (frozenset(re.findall(r"\w+", text.lower())) for text in (value, arm))
    return words - of_arm if words & of_arm else None


def constants(settings: Sequence[Setting]) -> str:
    """Return what all runs share, as a clause; empty if nothing."""
    shared = [f"{s.column} {shortened(next(iter(s.every)), 40)}" for s in settings if len(s.every) == 1]
    return say("constants", values=some_names(shared, _MOST_NAMED)) if shared else ""


def direction(better: Better | None) -> str:
    """Return how a metric is read."""
    return {"lower": "lower is better", "higher": "higher is better", None: "no better direction is known"}[better]
