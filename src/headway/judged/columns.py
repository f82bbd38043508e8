"""The roles of a table's columns: what names an arm, what a seed, and what is measured at which step.

A role that is not given is guessed where one reading is possible, and the guess is said. Otherwise an error lists the
columns. `long` makes a table with a row for each run of one that has a column for each run, arm or seed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headway.base.text import some_names
from headway.base.words import say
from headway.config.metrics import METRICS, Better, Metric
from headway.errors import UserError, shortened
from headway.judged.table import Row, RunTable

ARMS = ("arm", "method", "variant", "condition", "algorithm", "algo", "treatment", "group", "model", "optimizer")
SEEDS = ("seed", "random_seed", "rng_seed", "train_seed", "seed_id")
STEPS = ("step", "steps", "global_step", "iteration", "iter", "epoch", "update", "tokens")
RUNS = ("run", "run_id", "run_name", "run_num", "id", "trial", "trial_id", "repeat", "replicate", "rep", "fold", "name")
TIMES = (
    "timestamp",
    "time",
    "datetime",
    "date",
    "wall_time",
    "created",
    "created_at",
    "runtime",
    "elapsed",
    "duration",
)
STATES = ("state", "status")
BASELINES = ("baseline", "control", "default", "base", "vanilla")

_LOWER = (
    "loss",
    "error",
    "mse",
    "rmse",
    "mae",
    "perplexity",
    "ppl",
    "bpb",
    "nll",
    "wer",
    "cer",
    "fid",
    "regret",
    "err",
)
_HIGHER = ("acc", "accuracy", "f1", "auc", "auroc", "reward", "return", "score", "bleu", "rouge", "r2", "map", "iou",
           "recall", "precision", "solved", "success", "em")  # fmt: skip
_HELD_OUT = {"val", "valid", "eval", "test"}
_WORDS = re.compile(r"[a-z]+\d*")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The roles of the columns of a table.

    Attributes:
        arm: the columns that name an arm together.
        seed: the column of the seed; None if the table has none.
        metric: the column of the metric.
        step: the column of the step; None if a row is a whole run.
        run: the column that tells runs of one seed apart; None if there is none.
        better: the better direction of the metric; None if unknown.
        guessed: the roles that were not given.
    """

    arm: tuple[str, ...]
    seed: str | None
    metric: str
    step: str | None
    run: str | None
    better: Better | None
    guessed: tuple[str, ...] = ()

    @property
    def used(self) -> set[str]:
        """The columns that have a role."""
        return {*self.arm, self.metric} | {name for name in (self.seed, self.step, self.run) if name}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The roles that the user gave to columns; a role that is None is guessed."""

    arm: Sequence[str] | None = None
    seed: str | None = None
    metric: str | None = None
    step: str | None = None
    better: Better | None = None


def roles_of(table: RunTable, asked: Asked) -> Roles:
    """Return the roles of columns, guessed where one reading is possible.

    Raises:
        UserError: if a column is not there, or a role could be that of several columns.
    """
    for name in (*(asked.arm or ()), asked.seed, asked.metric, asked.step):
        if name is not None and name not in table.columns:
            raise UserError(f"{table.source}: there is no column {name!r}; {_listed(table)}")
    arm = tuple(asked.arm or ())
    step = asked.step or _named(table, STEPS, taken=arm, option="--step")
    seed = asked.seed or _named(table, SEEDS, taken=arm, option="--seed")
    run = _run_column(table, {*arm, step, seed})
    if asked.metric is None:
        metric = _metric(table, {*arm, step, seed, run})
    else:
        metric = asked.metric
        if not any(table.measurement(cell) is not None for cell in table.values(metric)):
            raise UserError(f"{table.source}: column {metric} holds no number; {_listed(table)}")
    arm = arm or (_arm(table, {metric, step, seed}, run),)
    _check_steps(table, step)
    if twice := {name for name in (metric, seed, step) if name in arm} or ({metric} & {seed, step}):
        raise UserError(
            f"{table.source}: column {min(map(str, twice))} has two roles; give another column for one of them"
        )
    found: dict[str, Any] = {"arm": arm, "seed": seed, "metric": metric, "step": step}
    guessed = (role for role, column in found.items() if column is not None and getattr(asked, role) is None)
    return Roles(**found, run=run, better=asked.better or better_of(metric), guessed=tuple(guessed))


def _check_steps(table: RunTable, step: str | None) -> None:
    """Raise UserError if a step is no number: the last step of a run would not be known."""
    texts = [] if step is None else [cell for cell in table.values(step) if table.number(cell) is None]
    if texts:
        raise UserError(
            f"{table.source}: {shortened(repr(texts[0]), 40)} in column {step} is not a step; write whole numbers such "
            "as 10000, or leave the column out"
        )


def better_of(metric: str) -> Better | None:
    """Return the better direction of a metric by its name; None if the name tells none.

    Examples:
        >>> better_of("val/loss"), better_of("eval_accuracy"), better_of("entropy")
        ('lower', 'higher', None)
    """
    if known := headways(metric):
        return known.better
    words = set(_WORDS.findall(metric.lower()))
    if words & {"neg", "negative", "minus", "to"}:  # of steps to an accuracy, fewer are better
        return None
    lower, higher = bool(words & set(_LOWER)), bool(words & set(_HIGHER))
    return None if lower == higher else "lower" if lower else "higher"


def headways(name: str) -> Metric | None:
    """Return a metric of Headway's own; one that was declared for a table has its name as its sentence."""
    known = METRICS.get(name)
    return None if known is None or known.sentence == name else known


def last_name(column: str) -> str:
    """Return the last part of a column's name, in small letters: `config.Seed` is a `seed`."""
    return re.split(r"[./]", column.lower())[-1].strip().strip("_").replace(" ", "_").replace("-", "_")


def _named(table: RunTable, names: Sequence[str], taken: Iterable[str], option: str) -> str | None:
    """Return the one column that has one of these names; None if there is none."""
    found = [column for column in table.columns if last_name(column) in names and column not in taken]
    # The names are ordered from the usual to the rare, and a column of that very name wins.
    found.sort(key=lambda column: (names.index(last_name(column)), "." in column or "/" in column))
    if len(found) > 1 and last_name(found[0]) == last_name(found[1]):
        first, second, *_ = found
        if all(row.get(first) == row.get(second) for row in table.rows if row.get(second) is not None):
            return first
        raise UserError(f"{table.source}: {first} and {second} could be meant; type {option} with one of them")
    return found[0] if found else None


def _run_column(table: RunTable, taken: set[str | None]) -> str | None:
    found = [column for column in table.columns if last_name(column) in RUNS and column not in taken]
    has_steps = any(last_name(column) in STEPS for column in table.columns)
    # A number of every row tells no runs with steps apart.
    most = len(table.rows) - has_steps
    several = [column for column in found if 1 < table.n_distinct(column) <= most]
    return min(several, key=lambda column: RUNS.index(last_name(column)), default=None)


def _is_apart(column: str) -> bool:
    """Return whether a column holds neither a metric nor what was set: a time, a state, or the ends of a band."""
    return is_end_of_band(column) or last_name(column) in (*TIMES, *STATES)


def is_end_of_band(column: str) -> bool:
    """Return whether a column is the smallest or the largest of several runs, as W&B exports them."""
    return column.endswith(("__MIN", "__MAX"))


def _metric(table: RunTable, taken: set[str | None]) -> str:
    free = [column for column in table.columns if column not in taken and not _is_apart(column)]
    numeric = [column for column in free if table.is_numeric(column) and table.n_distinct(column) > 1]
    named = [column for column in numeric if better_of(column)]
    for found in (named, numeric):
        held_out = [column for column in found if _HELD_OUT.intersection(_WORDS.findall(column.lower()))]
        for chosen in (found, held_out):
            if len(chosen) == 1:
                return chosen[0]
    for column in table.columns:
        texts = [cell for cell in table.values(column) if table.measurement(cell) is None]
        if better_of(column) and texts:
            raise UserError(
                f"{table.source}: {column} may be the metric, and {shortened(repr(texts[0]), 40)} in it is not a "
                "number; write plain numbers, or type --metric NAME"
            )
    raise UserError(f"{table.source}: which column is the metric? Type --metric NAME; {_listed(table)}")


def _arm(table: RunTable, taken: set[str | None], run: str | None) -> str:
    free = [column for column in table.columns if column not in {*taken, run} and not _is_apart(column)]
    several = [column for column in free if table.n_distinct(column) > 1]
    named = [column for column in several if last_name(column) in ARMS]
    texts = [column for column in several if not table.is_numeric(column)]
    n_runs = 0 if run is None else table.n_distinct(run)
    shared = [column for column in texts if table.n_distinct(column) < n_runs]  # the others name runs
    for chosen in (named, texts, shared):
        if len(chosen) == 1:
            return chosen[0]
    raise UserError(f"{table.source}: which columns name an arm? Type --arm NAME or --arm A,B; {_listed(table)}")


def _listed(table: RunTable) -> str:
    return f"its columns are {some_names([shortened(column, 60) for column in table.columns], 30)}"


_OF_RUN = re.compile(r"(?P<run>.+) - (?P<metric>.+)")
_NUMBERED = re.compile(r"(?P<arm>.*?)[-_. ]*(?:seed|s|run)?[-_=. ]*(?P<seed>\d+)", re.IGNORECASE)
_SEED_COLUMN = re.compile(r"(?:seed|s|run|trial)[-_=. ]*(\d+)", re.IGNORECASE)


def long(table: RunTable, asked: Asked) -> tuple[RunTable, Asked]:
    """Return a table with a row for each run and step, and what is asked of it.

    Three wide forms are read: `RUN - METRIC` for each run, as W&B exports a chart; a column for each seed; and a column
    for each arm, if the metric that was asked for is no column.
    """
    of_runs = {column: found for column in table.columns if (found := _OF_RUN.fullmatch(column))}
    others = [column for column in table.columns if column not in of_runs]
    if of_runs and all(last_name(column) in (*STEPS, *TIMES) for column in others):
        return _by_runs(table, {c: (m["run"], m["metric"]) for c, m in of_runs.items()}, others), asked
    if asked.metric is None or asked.metric in table.columns:
        return table, asked
    seeds = {column: found[1] for column in table.columns if (found := _SEED_COLUMN.fullmatch(column))}
    numeric = [column for column in table.columns if table.is_numeric(column)]
    if len(seeds) > 1 and set(seeds) <= set(numeric):
        return _melted(table, seeds, "seed", asked.metric), replace(asked, seed="seed")
    roles = (*SEEDS, *STEPS, *RUNS, *TIMES)
    arms = [column for column in numeric if last_name(column) not in roles and table.n_distinct(column) > 1]
    if len(arms) < 2 or asked.arm:
        return table, asked
    if _split(arms):
        return _melted(table, {run: run for run in arms}, "run", asked.metric), asked
    return _melted(table, {arm: arm for arm in arms}, "arm", asked.metric), replace(asked, arm=("arm",))


def _melted(table: RunTable, columns: Mapping[str, str], name: str, metric: str) -> RunTable:
    """Return a table with a row for each cell of some columns, the column's value under `name`."""
    rest = [column for column in table.columns if column not in columns]
    rows = [
        {**{other: row.get(other) for other in rest}, name: value, metric: row[column]}
        for row in table.rows
        for column, value in columns.items()
        if row.get(column) is not None
    ]
    which = {"seed": "a seed", "run": "a run", "arm": "an arm"}[name]
    return table.with_rows(rows, say("melted", columns=", ".join(list(columns)[:6]), role=which))


def _by_runs(table: RunTable, of_runs: Mapping[str, tuple[str, str]], others: Sequence[str]) -> RunTable:
    rows: list[Row] = []
    for row in table.rows:
        of_run: dict[str, Row] = {}
        for column, (run, metric) in of_runs.items():
            if row.get(column) is not None:
                of_run.setdefault(run, {})[metric] = row[column]
        about = {other: row.get(other) for other in others}
        rows += [{**about, "run": run, **metrics} for run, metrics in of_run.items()]
    return table.with_rows(rows)


def by_run_names(table: RunTable, asked: Asked) -> tuple[RunTable, Asked]:
    """Return a table in which names of runs, such as `adamw-seed3`, are split into arm and seed.

    They are split where nothing else names arms and seeds, every name ends with a number, and arms share numbers.
    """
    run = next((column for column in table.columns if last_name(column) in ("run", "run_name", "name")), None)
    if run is None or asked.arm or asked.seed:
        return table, asked
    if any(last_name(column) in (*SEEDS, *ARMS) for column in table.columns):
        return table, asked
    split = _split(str(cell) for cell in table.values(run))
    if not split:
        return table, asked
    named = [row for row in table.rows if row.get(run) is not None]
    rows = [{**row, **dict(zip(("arm", "seed"), split[str(row[run])], strict=True))} for row in named]
    first, (arm, seed) = next(iter(split.items()))
    note = say("split_names", name=first, arm=arm, seed=seed)
    return table.with_rows(rows, note), replace(asked, arm=("arm",), seed="seed")


def _split(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return the arm and the seed of each name of a run; empty if a name has no number, or arms share none.

    Examples:
        >>> _split(["adamw-seed0", "adamw-seed1", "lion_0"])["lion_0"]
        ('lion', '0')
    """
    every = dict.fromkeys(names)
    found = {name: match for name in every if (match := _NUMBERED.fullmatch(name)) and match["arm"]}
    # The end of a decimal, such as lr0.1, is no seed.
    split = {name: (match["arm"], match["seed"]) for name, match in found.items() if not re.search(r"\d\.\d+$", name)}
    of_arms: dict[str, set[str]] = {}
    for arm, seed in split.values():
        of_arms.setdefault(arm, set()).add(seed)
    shared = set.intersection(*of_arms.values()) if of_arms else set()
    return split if len(split) == len(every) and 1 < len(of_arms) < len(every) and shared else {}
