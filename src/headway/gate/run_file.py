"""Runs of a challenger and the champion that were made elsewhere, read from a table.

Each run has an `arm` (champion or challenger), a `seed` and the metric. Both have a run with each seed.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.base.words import say
from headway.errors import UserError, near, shortened
from headway.gate.command import Candidate
from headway.gate.journal import CHALLENGER, CHAMPION, Attempt, Journal
from headway.gate.trial import Decision, decide, give_up_unfinished, held, named, record, verdict_of
from headway.judged.sources import read_table
from headway.judged.table import Row, RunTable

_LARGEST_SEED = 2**31 - 1


def try_results(directory: Path, file: Path, *, name: str | None) -> dict[str, Any]:
    """Read runs of a challenger and the champion from a file; return the verdict so far.

    Raises:
        UserError: if the file cannot be read, has no fresh runs of the champion, or seeds that were used before.
    """
    with held(directory) as journal:
        pairs = read_pairs(file, journal.settings.metric)
        attempt, budget = journal.unfinished, journal.settings.budget
        if attempt is None or attempt.candidate.run or name not in (None, attempt.candidate.name):
            candidate = named(journal, Candidate(name=""), name)
            new = dict([*pairs.items()][:budget])
            _check_fresh(journal, file, new)
            give_up_unfinished(journal, candidate)
            attempt = journal.begin(candidate, [], challenger_first=False)
        else:
            if any(pairs.get(seed, {}).get(role) != value for (role, seed), value in attempt.values.items()):
                raise UserError(
                    f"--results {file}: it no longer has the runs of {attempt.candidate.name} that were read before; "
                    "put them back and add others, or begin another challenger with --name"
                )
            known = attempt.seeds
            new = dict([item for item in pairs.items() if item[0] not in known][: budget - len(known)])
            _check_fresh(journal, file, new)
        lines: list[dict[str, Any]] = []
        for seed, values in new.items():
            lines.append({"event": "seeds", "number": attempt.number, "seeds": [seed]})
            for role, value in values.items():
                lines.append({"event": "run", "number": attempt.number, "role": role, "seed": seed, "value": value})
        journal.add(*lines)
        decision = decide(journal.settings, attempt)
        if decision is not None:
            return record(journal, attempt, decision)
        return _waiting(journal, attempt, file)


def _waiting(journal: Journal, attempt: Attempt, file: Path) -> dict[str, Any]:
    """Return the verdict that more pairs are needed."""
    n, budget = len(attempt.seeds), journal.settings.budget
    todo = say("gate_waits", name=attempt.candidate.name, n=n, budget=budget, file=str(file))
    return verdict_of(journal, attempt, Decision(outcome="undecided", pairs=n, reason=todo))


def read_pairs(file: Path, metric: str) -> dict[int, dict[str, float]]:
    """Return the metric of the champion and the challenger for each seed of a file, in the order of the seeds there.

    Raises:
        UserError: if the file cannot be read, or a seed lacks one of both.
    """
    asked = f"--results {file}"
    table = read_table(file)
    pairs: dict[int, dict[str, float]] = {}
    for line, row in enumerate(table.rows, start=1):
        role, seed, value = _parsed_row(table, row, metric, f"{asked}, run {line}")
        values = pairs.setdefault(seed, {})
        if role in values:
            raise UserError(f"{asked}: the {role} has two runs with seed {seed}; give each run a seed of its own")
        values[role] = value
    roles = {role for values in pairs.values() for role in values}
    if CHAMPION not in roles:
        raise UserError(
            f"{asked}: it has no runs of the champion; the gate never reuses earlier runs, so run the champion again "
            "with the challenger's seeds"
        )
    for seed, values in pairs.items():
        if len(values) < 2:
            missing = CHALLENGER if CHAMPION in values else CHAMPION
            raise UserError(f"{asked}: the {missing} has no run with seed {seed}; run both with each seed")
    return pairs


def _parsed_row(table: RunTable, row: Row, metric: str, place: str) -> tuple[str, int, float]:
    """Return the role, the seed and the metric of a run.

    Raises:
        UserError: if one of them is missing or no such value.
    """
    for key in ("arm", "seed", metric):
        if row.get(key) in (None, ""):
            hint = near(key, [str(name) for name in row])
            raise UserError(f"{place}: it has no {key}; write arm, seed and {metric} for each run ({hint})")
    if row["arm"] not in (CHAMPION, CHALLENGER):
        raise UserError(f"{place}: its arm is {shortened(repr(row['arm']))}; write {CHAMPION} or {CHALLENGER}")
    seed, value = str(row["seed"]), table.number(row[metric])
    if not seed.isdecimal() or int(seed) > _LARGEST_SEED:
        raise UserError(f"{place}: its seed is {shortened(repr(seed))}; write a whole number of 0 or more")
    if value is None or not math.isfinite(value):
        raise UserError(
            f"{place}: its {metric} is {shortened(repr(row[metric]))} and not a finite number; a failed run has no "
            "metric, so discard its change, or repeat both runs with another seed"
        )
    return str(row["arm"]), int(seed), value


def _check_fresh(journal: Journal, file: Path, new: Mapping[int, Mapping[str, float]]) -> None:
    """Raise UserError if seeds or runs of the champion were recorded before."""
    again = sorted(set(new) & journal.used_seeds)
    if again:
        raise UserError(
            f"--results {file}: seed {again[0]} was used before; a change may have been chosen on it, so run both with "
            "fresh seeds"
        )
    recorded = {value for attempt in journal.attempts for value in attempt.values.values()}
    values = [values[CHAMPION] for values in new.values()]
    if len(set(values)) > 1 and recorded.issuperset(values):
        raise UserError(
            f"--results {file}: the {journal.settings.metric} of every run of the champion is recorded already; run "
            "the champion again with fresh seeds, or write more digits"
        )
