"""Judge the runs of a table: verdicts with intervals, after what differs between the arms besides their names."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from headway.base.text import counted, listed, some_names
from headway.base.words import say, warning
from headway.config.metrics import METRICS, YES_OR_NO, Better, Metric
from headway.errors import UserError, shortened
from headway.judged.columns import BASELINES, Asked, Roles, by_run_names, headways, long, roles_of
from headway.judged.runs import TableRun, confounds, constants, direction, runs_of, settings_of
from headway.judged.sources import read_table
from headway.judged.table import RunTable, table_of
from headway.stats.contrasts import Question, judged
from headway.stats.evidence import Comparison, Difference, Family
from headway.stats.results import SCHEMA, Results, RunResult
from headway.stats.sequential import FEWEST, Looking
from headway.stats.verdicts import Solver, carried_by, left_out, sentence_of, share_finding
from headway.stats.welch import compare_unpaired

RunsOfTable = Mapping[str, Mapping[int, float]]
"""The metric of each run, by arm and number of its seed."""

Pairs = Sequence[tuple[str, str]]
"""The arms that are compared, the baseline second."""

MOST_ARMS = 200
"""Arms that are compared with one baseline."""


def judge(
    table: Any,
    *,
    arm: str | Sequence[str] | None = None,
    metric: str | None = None,
    seed: str | None = None,
    step: str | None = None,
    baseline: str | None = None,
    better: Better | None = None,
    at: str | int = "last",
    margin: float = 1.0,
    unpaired: bool = False,
) -> Results:
    """Judge runs that others trained: each arm against a baseline, with simultaneous intervals.

    A column that is not named is guessed where one reading is possible; `Results.notes` says how the table was read.

    Args:
        table: a path, a folder of runs, `-`, a DataFrame, a mapping of columns, or rows as mappings.
        arm: the column, or columns, that name an arm.
        metric: the column of the metric.
        seed: the column of the random seed.
        step: the column of the training step.
        baseline: the arm that the others are compared with; by default the first of the table.
        better: `lower` or `higher`, where the metric's name does not tell.
        at: the value of a run: at its `last` step, the `best` of its steps, or at a step.
        margin: the difference that matters, in per cent.
        unpaired: True if runs are independent although the table names no seed for them.

    Returns:
        The results: comparisons, families and notes, as those of a results directory.

    Raises:
        UserError: if the table cannot be read, or a column has several readings.

    Examples:
        >>> rows = [{"arm": arm, "seed": seed, "loss": 2 + 0.01 * seed + 0.1 * (arm == "b")}
        ...     for arm in "ab" for seed in range(4)]
        >>> judge(rows, baseline="a").judged[0].outcome
        'apart'
    """
    arms = [arm] if isinstance(arm, str) else arm
    if not 0 < margin <= 100:
        raise UserError(f"margin {margin:g}: give a share in per cent, above 0 and at most 100")
    at = str(at)
    if at not in ("last", "best") and not re.fullmatch(r"\d+(\.\d+)?", at):
        raise UserError(f"at {shortened(at, 40)}: give last, best, or the number of a step")
    asked = Asked(arm=arms, seed=seed, metric=metric, step=step, better=better)
    read = read_table(table) if isinstance(table, str | Path) else table_of(table)
    read, asked = long(read, asked)
    read, asked = by_run_names(read, asked)
    roles = roles_of(read, asked)
    if at.isdigit() and roles.step is None:
        raise UserError(f"at {at}: {read.source} has no column of steps; name it with step")
    runs, left = runs_of(read, roles, at)
    return _Judge(table=read, roles=roles, runs=runs, at=at, margin=margin, unpaired=unpaired).results(baseline, left)


@dataclass(frozen=True, kw_only=True)
class _Judge:
    table: RunTable
    roles: Roles
    runs: Sequence[TableRun]
    at: str
    margin: float
    unpaired: bool

    def results(self, baseline: str | None, left: Sequence[str]) -> Results:
        """Return the results; `left` says what was left out of the table."""
        arms = self._arms()
        against = self._baseline(arms, baseline)
        pairs = [(arm, against) for arm in arms if arm != against]
        metric = self._metric()
        seeds = self._seeds()
        runs = self._by_seed(seeds)
        if is_paired := self._is_paired(runs, pairs):
            family, differences = self._paired(metric, runs, pairs)
        else:
            # Without a seed, nothing tells whether runs are of several seeds or one.
            as_one = any(run.seed is None for run in self.runs) and not self.unpaired
            family, differences = self._of_values(metric, runs, pairs, as_one=as_one)
        comparisons = [
            self._comparison(pair, difference, family, metric, runs)
            for pair, difference in zip(pairs, differences, strict=True)
        ]
        settings = list(settings_of(self.runs, self.roles))
        warnings = [*confounds(settings), *self._cautions(runs, pairs, family, is_paired=is_paired)]
        notes = [
            self._how_read(arms, against, seeds),
            *self.table.notes,
            *left,
            constants(settings),
            carried_by(family, comparisons),
        ]
        ended = [run for of_arm in _ended(metric, runs).values() for run in of_arm.values()]
        return Results(
            schema=SCHEMA,
            experiment=Path(self.table.source).stem or "table",
            scale=None,
            primary=metric.name,
            runs=tuple(ended),
            baselines={},
            tasks={},
            comparisons=tuple(comparisons),
            families=(family,),
            warnings=tuple(warnings),
            labels={arm: arm for arm in arms},
            notes=tuple(note for note in notes if note),
        )

    def _arms(self) -> list[str]:
        arms = list(dict.fromkeys(run.arm for run in self.runs))
        named = f"{self.table.source}: {listed(self.roles.arm)}"
        if len(arms) < 2:
            raise UserError(f"{named} has one value, {arms[0]}; give a column with two arms")
        if len(arms) > MOST_ARMS:
            raise UserError(f"{named} has {len(arms):,} values, and at most {MOST_ARMS} are compared; is it the arm?")
        return arms

    def _baseline(self, arms: Sequence[str], given: str | None) -> str:
        if given is not None:
            named = [arm for arm in arms if given in (arm, arm.partition("=")[2])]
            if len(named) != 1:
                raise UserError(f"baseline {given!r}: there is no such arm; choose from: {', '.join(arms)}")
            return named[0]
        usual = [arm for arm in arms if arm.lower() in BASELINES]
        return usual[0] if len(usual) == 1 else arms[0]

    def _metric(self) -> Metric:
        """Return the metric, and make its name known to the tables and sentences of this process."""
        name, better = self.roles.metric, self.roles.better
        values = np.array([run.value for run in self.runs])
        unit = "1"
        if better == "higher" and ((values >= 0) & (values <= 1)).all():
            unit = YES_OR_NO if np.isin(values, (0.0, 1.0)).all() else "fraction"
        if known := headways(name):
            if (known.unit, known.better) == (unit, better):
                return known
            name = f"{name} (table)"
        METRICS[name] = Metric(name=name, sentence=name, unit=unit, better=better, primary=True)
        return METRICS[name]

    def _seeds(self) -> dict[str, int]:
        """Return the number of each seed: its own where all are whole numbers, else its place in their order."""
        texts = sorted({run.seed for run in self.runs if run.seed is not None}, key=lambda text: (len(text), text))
        if all(re.fullmatch(r"\d{1,18}", text) for text in texts):
            return {text: int(text) for text in texts}
        return {text: place for place, text in enumerate(texts)}

    def _by_seed(self, seeds: Mapping[str, int]) -> dict[str, dict[int, float]]:
        """Return the value of each run by arm and number of its seed; runs without a seed are counted on."""
        of_arms: dict[str, dict[int, float]] = {}
        free = count(max(seeds.values(), default=-1) + 1)  # no two runs without a seed are a pair
        for run in self.runs:
            of_arm = of_arms.setdefault(run.arm, {})
            of_arm[next(free) if run.seed is None else seeds[run.seed]] = run.value
        return of_arms

    def _is_paired(self, runs: RunsOfTable, pairs: Pairs) -> bool:
        """Return whether runs are compared within seeds: some arm shares enough of them with the baseline."""
        shared = [len(runs[arm].keys() & runs[baseline].keys()) for arm, baseline in pairs]
        return not self.unpaired and max(shared) >= FEWEST

    def _paired(self, metric: Metric, runs: RunsOfTable, pairs: Pairs) -> tuple[Family, Sequence[Difference]]:
        weights = [{arm: 1.0, baseline: -1.0} for arm, baseline in pairs]
        question = Question.from_runs(weights, _ended(metric, runs), metric=metric.name)
        # Every run of the table has ended; a seed that an arm lacks is awaited by nobody.
        return judged(question, Looking(margin=self.margin))

    def _of_values(
        self, metric: Metric, runs: RunsOfTable, pairs: Pairs, *, as_one: bool
    ) -> tuple[Family, Sequence[Difference]]:
        """Compare the finite values of arms; those of an arm count as one value, their mean, if `as_one`."""
        values = {}
        for arm, of_arm in runs.items():
            finite = [value for value in of_arm.values() if math.isfinite(value)]
            values[arm] = [float(np.mean(finite))] if as_one and finite else finite
        return compare_unpaired(values, pairs, metric=metric.name, unit=metric.unit, margin=self.margin)

    def _comparison(
        self, pair: tuple[str, str], difference: Difference, family: Family, metric: Metric, runs: RunsOfTable
    ) -> Comparison:
        mine, theirs = (runs[arm] for arm in pair)
        notes = []
        if family.rule == "unpaired":
            notes.append(say("unpaired", n=len(mine), others=len(theirs)))
        else:
            shared = mine.keys() & theirs.keys()
            diverged = [seed for seed in shared if not math.isfinite(mine[seed] + theirs[seed])]
            notes += left_out(sorted(diverged))
            if alone := len(mine.keys() ^ theirs.keys()):
                notes.append(say("without_partner", n=alone))
        if difference.n_pairs == 0 and family.rule == "blocks":
            _, (known,) = self._of_values(metric, {arm: runs[arm] for arm in pair}, [pair], as_one=True)
            difference = replace(known, rule=family.rule)
            notes = [say("no_common_seed", n=len(mine), others=len(theirs))]
        if family.rule == "shares":
            first, second = (Solver(label=arm) for arm in pair)
            sentence = "; ".join([share_finding(difference, first, second, task=self.roles.metric), *notes])
        else:
            sentence = sentence_of(difference, family, metric=metric, sides=pair, notes=notes)
        return Comparison(**vars(difference), arm=pair[0], baseline=pair[1], group=None, verdict=sentence)

    def _how_read(self, arms: Sequence[str], baseline: str, seeds: Mapping[str, int]) -> str:
        roles = self.roles

        def role(name: str, column: str, more: str) -> str:
            return f"{name}: {column}{' (guessed)' if name in roles.guessed else ''}{more}"

        shown = some_names([shortened(arm, 30) for arm in arms])
        of_step = f" by {roles.step}" if roles.step else ""
        n_runs = sum(len(run.values) for run in self.runs)
        step = self.at if self.at in ("last", "best") else f"step {self.at}"
        parts = [
            f"{counted(len(self.table.rows), 'row')}, {counted(n_runs, 'run')}",
            role("arm", " and ".join(roles.arm), f" ({len(arms)}, {shown}; baseline {baseline})"),
            role("seed", roles.seed, f" ({len(seeds)})") if roles.seed else "seed: none",
            role("metric", roles.metric, f" ({direction(roles.better)})"),
            f"value: {step}{of_step}",
        ]
        return f"read {self.table.source}: {'; '.join(parts)}"

    def _cautions(self, runs: RunsOfTable, pairs: Pairs, family: Family, *, is_paired: bool) -> list[str]:
        """Return sentences on seeds that are missing, repeated or unpaired, on arms of one run or a wide spread."""
        said = []
        without = sum(run.seed is None for run in self.runs)
        if without and not self.unpaired:
            said.append(say("without_seed", n=without))
        repeats = [run for run in self.runs if run.seed is not None and len(run.values) > 1]
        if repeats:
            said.append(self._repeats_said(repeats))
        if alone := [arm for arm, of_arm in runs.items() if len(of_arm) == 1]:
            said.append(say("alone", arms=some_names(alone)))
        compared = {arm for pair in pairs for arm in pair if len(runs[arm]) >= FEWEST}
        if not is_paired and not without and not self.unpaired and len(compared) > 1:
            said.append(say("compared_unpaired"))
        if family.wild:
            said.append(warning("wild_arms", arms=family.wild).sentence)
        if self.at == "best":
            said.append(say("best_step"))
        return said

    def _repeats_said(self, repeats: Sequence[TableRun]) -> str:
        seeds = {run.seed for run in repeats}
        variances = [np.var(run.values, ddof=1) for run in repeats]
        spread = float(np.sqrt(np.nanmean(variances)))
        which = f"seed {next(iter(seeds))}" if len(seeds) == 1 else f"{len(seeds)} seeds"
        most = max(len(run.values) for run in repeats)
        run = self.roles.run
        other = say("distinguished", column=run) if run else ""
        return say("repeats", seeds=which, n=most, sd=spread, other=other)


def _ended(metric: Metric, runs: RunsOfTable) -> dict[str, dict[int, Any]]:
    """Return the runs as the statistics read them, by arm and number of their seed."""
    ended: dict[str, dict[int, Any]] = {}
    for arm, of_arm in runs.items():
        run = partial(RunResult, arm=arm, control=None, group=None, id="", status="done")
        for seed, value in of_arm.items():
            metrics = {metric.name: value if math.isfinite(value) else None}
            ended.setdefault(arm, {})[seed] = run(seed=seed, metrics=metrics)
    return ended
