"""A challenger is tried against the champion, run beside run, until it is kept or discarded or its pairs are spent.

Both are run anew for each challenger, with the same fresh seeds, one right after the other, and they change places from
pair to pair: what drifts hits both. No run of before is compared with anything.
"""

import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headway.base import files
from headway.base.text import number
from headway.base.words import say
from headway.config.plugins import allow_command
from headway.errors import RunFailed, UserError, shortened
from headway.gate.command import Candidate, check_allowed, run_once
from headway.gate.evidence import bound, fewest_pairs, interval, is_hopeless, is_positive, spent_rate
from headway.gate.journal import CHALLENGER, CHAMPION, LEASE, LOGS, Attempt, GateSettings, Journal, check_is_gate
from headway.store.lease import Lease, LeaseHeld

Outcome = Literal["keep", "discard", "undecided"]

DISCARDED_IN_ERROR = 0.1
"""The chance that a change is discarded whose improvement is the margin, whenever one looks."""

CONSTANT_PAIRS = 3
"""Pairs after which runs that do not differ at all are an error: their seeds do nothing."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A decision on a challenger, or why there is none.

    Attributes:
        outcome: the outcome.
        pairs: the number of pairs of runs that it rests on.
        reason: why it ended otherwise than by its pairs; empty if it did not.
    """

    outcome: Outcome
    pairs: int
    reason: str = ""


def pairs_to_keep(settings: GateSettings, challenger: int) -> int:
    """Return the number of pairs with which a challenger can be kept, if every pair shows the same improvement.

    Raises:
        UserError: if the budget has fewer.
    """
    level = spent_rate(settings.rate, challenger, settings.challengers)
    n = fewest_pairs(level)
    while math.isinf(bound(n, level)):
        n += 1
    if n > settings.budget:
        raise UserError(
            f"challenger {challenger} needs at least {n} pairs to be kept, and --budget is {settings.budget}; begin a "
            f"gate with --budget {n} or more"
        )
    return n


def decide(settings: GateSettings, attempt: Attempt, looked: int = 0) -> Decision | None:
    """Return the decision on a challenger after the pairs so far, which are looked at one after the other.

    Args:
        settings: the settings of the gate.
        attempt: the challenger with its runs.
        looked: the number of pairs after which nothing was decided.

    Raises:
        UserError: if runs with different seeds are all equal.
    """
    champion, challenger = (np.array(attempt.values_of(role)) for role in (CHAMPION, CHALLENGER))
    level = spent_rate(settings.rate, attempt.number, settings.challengers)
    gains = champion - challenger if settings.lower_is_better else challenger - champion
    for n in range(looked + 1, len(gains) + 1):
        if n >= CONSTANT_PAIRS and not np.ptp(champion[:n]) and not np.ptp(challenger[:n]):
            raise UserError(
                f"{n} seeds gave the same {settings.metric} ({champion[0]:g} and {challenger[0]:g}): the command does "
                f"not use its seed, or rounds {settings.metric}; fix the command, and try again under another --name"
            )
        if is_positive(gains[:n], level):
            return Decision(outcome="keep", pairs=n)
        margin = settings.margin / 100 * abs(champion[:n].mean()) if settings.is_percent else settings.margin
        if is_positive(margin - gains[:n], DISCARDED_IN_ERROR):
            return Decision(outcome="discard", pairs=n)
        if n >= settings.budget or is_hopeless(gains[:n], settings.budget, level):
            return Decision(outcome="undecided", pairs=n)
    return None


@contextmanager
def held(directory: Path) -> Iterator[Journal]:
    """Open a gate as the only process that works on it.

    Raises:
        UserError: if another process works on it, or it is damaged or no gate.
    """
    check_is_gate(directory)
    try:
        lease = Lease.take(directory / LEASE)
    except LeaseHeld as error:
        raise UserError(
            f"{directory}: {error}; wait until its challenger is decided, or remove {directory / LEASE} if that "
            "machine is gone"
        ) from None
    with lease:
        yield Journal.read(directory, lease)


def try_command(
    directory: Path, run: str, *, name: str | None, timeout: float | None, trust_code: bool, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Run a challenger and the champion in pairs until a decision; return the verdict.

    Raises:
        UserError: if the champion or the challenger cannot be run.
        RunFailed: if a run of the champion fails; the same call goes on from there.
    """
    with held(directory) as journal:
        if trust_code:
            allow_command(journal.champion.run, journal.champion.folder)
        candidate = Candidate.typed(name or "", run, Path.cwd())
        allow_command(candidate.run, candidate.folder)
        attempt = journal.unfinished
        is_named_so = attempt is not None and name in (None, attempt.candidate.name)
        if attempt is None or not is_named_so or attempt.candidate != replace(candidate, name=attempt.candidate.name):
            candidate = named(journal, candidate, name)
            _check_champion(journal, candidate)
            give_up_unfinished(journal, candidate)
            budget = journal.settings.budget
            first = max(journal.used_seeds, default=journal.settings.first_seed - 1) + 1
            attempt = journal.begin(candidate, [*range(first, first + budget)], bool(secrets.randbits(1)))
        check_allowed(attempt.champion, directory)
        decision = decide(journal.settings, attempt)
        while decision is None:
            looked = len(attempt.values_of(CHAMPION))
            decision = _run_pair(journal, attempt, timeout, tell) or decide(journal.settings, attempt, looked)
        return record(journal, attempt, decision)


def _run_pair(
    journal: Journal, attempt: Attempt, timeout: float | None, tell: Callable[[str], None]
) -> Decision | None:
    """Run what is missing of the next pair; a decision only if the challenger's run fails."""
    pair = len(attempt.values_of(CHAMPION))
    attempt.champion.check_files()
    attempt.candidate.check_files()
    seed, logs = attempt.seeds[pair], files.folder_in(journal.directory, LOGS)
    challenger_first = (pair % 2 == 0) == attempt.challenger_first
    for role in (CHALLENGER, CHAMPION) if challenger_first else (CHAMPION, CHALLENGER):
        if (role, seed) in attempt.values:
            continue
        candidate = attempt.candidate if role == CHALLENGER else attempt.champion
        log = logs / f"{attempt.number:04d}-{pair + 1:03d}-{role}.log"
        line = {"number": attempt.number, "role": role, "seed": seed}
        try:
            value = run_once(candidate, seed, log, journal.settings.metric, timeout)
        except RunFailed as error:
            journal.add({"event": "failed", **line, "reason": str(error)})
            told = f"{candidate.name}, seed {seed}: {error}"
            if role == CHALLENGER:
                return Decision(outcome="discard", pairs=pair, reason=told)
            raise RunFailed(f"the champion failed, so nothing is decided ({told}); try again to continue") from None
        journal.add({"event": "run", **line, "value": value})
    told = ", ".join(f"{role} {number(attempt.values[role, seed])}" for role in (CHAMPION, CHALLENGER))
    tell(f"pair {pair + 1} of at most {len(attempt.seeds)}, seed {seed}: {told}")
    return None


def record(journal: Journal, attempt: Attempt, decision: Decision) -> dict[str, Any]:
    """Write a verdict down and return it."""
    verdict = verdict_of(journal, attempt, decision)
    journal.add({"event": "verdict", "number": attempt.number, "verdict": verdict})
    return verdict


def verdict_of(journal: Journal, attempt: Attempt, decision: Decision) -> dict[str, Any]:
    """Return a verdict as it is printed and kept."""
    champion, challenger = (attempt.values_of(role)[: decision.pairs] for role in (CHAMPION, CHALLENGER))
    changes = np.array(challenger) - np.array(champion)
    ends = interval(changes) if decision.pairs else None
    verdict = {
        "verdict": decision.outcome,
        "name": attempt.candidate.name,
        "champion": attempt.champion.name,
        "challenger": attempt.number,
        "pairs": decision.pairs,
        "budget": journal.settings.budget,
        "metric": journal.settings.metric,
        "change": float(changes.mean()) if decision.pairs else None,
        "interval": ends and [*ends],
        "level": spent_rate(journal.settings.rate, attempt.number, journal.settings.challengers),
    }
    return {**verdict, "reason": decision.reason or sentence(verdict)}


PHRASES: dict[str, str] = {
    "keep": "better",
    "discard": "not better by the margin",
    "undecided": "no clear difference",
}


def sentence(verdict: Mapping[str, Any]) -> str:
    """Return the sentence of a verdict that rests on pairs of runs.

    Examples:
        >>> content = {"name": "wider", "champion": "base", "pairs": 9, "budget": 12, "metric": "loss"}
        >>> sentence({**content, "verdict": "keep", "change": -0.25, "interval": [-0.375, -0.125]})
        'wider vs base: better, loss −0.2500 (95 % CI −0.3750 to −0.1250; 9 pairs)'
    """
    sides = f"{verdict['name']} vs {verdict['champion']}"
    ends = verdict["interval"]
    low, high = map(number, ends or (None, None))
    change = f"{verdict['metric']} {number(verdict['change'])}"
    phrase = PHRASES[verdict["verdict"]]
    kind = "gate_verdict" if ends else "gate_early"
    said = say(kind, sides=sides, phrase=phrase, change=change, low=low, high=high, n=verdict["pairs"])
    is_given_up = verdict["verdict"] == "undecided" and verdict["pairs"] < verdict["budget"]
    return say("gate_given_up", verdict=said) if is_given_up else said


def named(journal: Journal, candidate: Candidate, name: str | None) -> Candidate:
    """Return a new challenger with its name, after checking that it can be kept with the pairs there are.

    Raises:
        UserError: if it cannot.
    """
    coming = len(journal.attempts) + 1
    pairs_to_keep(journal.settings, coming)
    return replace(candidate, name=name or f"challenger-{coming}")


def _check_champion(journal: Journal, candidate: Candidate) -> None:
    """Raise UserError if the champion has no command, or the challenger's is the same."""
    champion = journal.champion
    if not champion.run:
        raise UserError(
            f"{journal.directory} has no command of its champion, {champion.name}; give the runs of both with "
            "--results FILE, or begin a gate with `headway gate init DIR --run COMMAND`"
        )
    if (champion.run, champion.folder) == (candidate.run, candidate.folder):
        raise UserError(
            f"--run {shortened(repr(candidate.run))}: this is the champion's own command ({champion.name}), so "
            "there is nothing to compare; give each challenger a command or a file of its own"
        )


def give_up_unfinished(journal: Journal, candidate: Candidate) -> None:
    """Record that an interrupted challenger stays undecided, because another one is tried."""
    former = journal.unfinished
    if former is not None:
        pairs = len(former.values_of(CHAMPION))
        reason = say("gate_unfinished", name=former.candidate.name, n=pairs, other=candidate.name)
        record(journal, former, Decision(outcome="undecided", pairs=pairs, reason=reason))
