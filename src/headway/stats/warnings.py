"""Warnings about the comparisons of a directory: what to read before a result is believed.

`WARNINGS` lists them in the order in which they are told. Each is a function that yields the sentences of a `Case`. A
new warning is a function and its line in the list. Some cast doubt: an answer may be worth nothing, since training was
not over, the learning rate matters more than the answer, or no arm learnt anything. Such a warning names the answers
concerned. Each answer is measured against its own difference, or against the margin if it says "the same". A large
difference elsewhere in the experiment excuses nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headway.base.text import counted, listed, number
from headway.base.words import ARMS_ADDED, RUNS_DROPPED
from headway.config.lm.run import TEXT_KEPT
from headway.config.metrics import metric_name
from headway.config.run import PER_BYTE
from headway.stats.case import Answer, Case, in_per_cent
from headway.stats.cells import done, title
from headway.stats.contrasts import JudgedContrast
from headway.stats.evidence import Comparison, Doubt
from headway.stats.sequential import RULES, error_of
from headway.stats.simultaneous import LEVEL
from headway.store.document import FILE, looks_there
from headway.store.verify import directory_warnings

KEPT = "text_kept"
"""The metric that tells which share of its text a tokenizer gives back."""


def _some(case: Case, arms: Sequence[str], n: int) -> str:
    return case.title(arms[0]) if len(arms) == 1 else f"{len(arms)} of {counted(n, 'arm')}"


def of_directory(case: Case) -> Iterator[str]:
    """Yield what is not as it was written, or is gone."""
    return directory_warnings(case.path)


def former_search(case: Case) -> Iterator[str]:
    """Yield a sentence if a search chose which arms got further seeds, and no plan judges fresh seeds."""
    if case.looks.plan is None and "search" in looks_there(case.path):
        yield (
            "a search for the best arm (--best, which Headway no longer has) chose which arms got more seeds; their "
            "first seeds flatter them, so train the arms that matter in a new directory"
        )


def removed_keys(case: Case) -> Iterator[str]:
    """Yield each key of the stored document that changed verdicts in a former version."""
    for key in case.experiment.removed_keys:
        yield f"Headway no longer uses `{key}` of {FILE}; intervals may differ from those of a former version"


def failed_runs(case: Case) -> Iterator[str]:
    """Yield each run that failed or is damaged, and how many are not finished."""
    titles = {arm.full_name: title(arm, case.experiment) for arm in case.experiment.arms}
    for run in case.every_run:
        if run.status == "failed":
            yield f"{titles.get(run.name, run.name)}, seed {run.seed} failed: {run.message or 'no reason recorded'}"
        if run.status == "damaged":
            yield f"{titles.get(run.name, run.name)}: a damaged run is left out: {run.message}"
    if unfinished := sum(run.status not in ("done", "failed", "damaged") for run in case.every_run):
        n = len(case.every_run)
        yield f"{unfinished} of {n} runs are not finished; `headway run` on this directory finishes them"


def absent_baselines(case: Case) -> Iterator[str]:
    """Yield the baselines without a run, of arms that nothing else is compared with."""
    present = [m for m in case.matches if m.baseline.full_name in case.runs]
    compared = {arm.full_name for m in present for arm in (m.arm, m.baseline)}
    absent = {
        m.baseline.full_name: m.baseline.label
        for m in case.matches
        if m.baseline.full_name not in case.runs and m.arm.full_name not in compared
    }
    if absent:
        named = listed(f"{label} ({name})" for name, label in absent.items())
        yield f"baselines without runs here, so that nothing is compared with them: {named}; run them too"


def unlike_executions(case: Case) -> Iterator[str]:
    """Yield the pairs of arms whose runs were not executed alike."""
    # Two groups may hold the same two arms; they are warned about once.
    for match in {(m.arm.full_name, m.baseline.full_name): m for m in case.matches}.values():
        mine, theirs = ({run.seed: run.execution for run in done(a, case.runs)} for a in (match.arm, match.baseline))
        pairs = [(mine[seed], theirs[seed]) for seed in sorted(mine.keys() & theirs.keys())]
        yield from execution_warning(title(match.arm, case.experiment), title(match.baseline, case.experiment), pairs)


_EXECUTION_KEYS = (
    *("device", "trainer", "instruction_set", "instruction_sets", "threads"),
    *("compile", "versions", "processor", "system"),
)
"""The keys of a run's execution that can change its bits or its speed; the two runs of a pair should agree in them.

The runs should also agree in `together`, the size of their batches; the other members of a batch change nothing.
"""


def execution_warning(
    arm: str, baseline: str, executions: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> Iterator[str]:
    """Yield a warning if the two halves of pairs were not executed alike.

    Args:
        arm: label of the arm.
        baseline: label of the baseline.
        executions: the `execution` entries of `run.json`, of the arm and of the baseline, for each pair.

    Examples:
        >>> next(execution_warning("2 heads", "1 head", [({"threads": 1}, {"threads": 2}), ({}, {})]))
        '2 heads and 1 head were not executed alike in 1 of 2 pairs (threads 1 against 2): a difference between them may come from that, above all in speed and memory'
    """  # noqa: E501 - a doctest's output stands on one line
    differing = [_execution_differences(*pair) for pair in executions]
    if affected := sum(map(bool, differing)):
        kinds = dict.fromkeys(text for of_pair in differing for text in of_pair)
        yield (
            f"{arm} and {baseline} were not executed alike in {affected} of {counted(len(executions), 'pair')} "
            f"({'; '.join(kinds)}): a difference between them may come from that, above all in speed and memory"
        )


def _execution_differences(arm: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    mine, theirs = _flat(arm), _flat(baseline)
    # What only one of them records (torch's version, by a run that needs none) is no difference of its own.
    return [
        f"{key.replace('_', ' ')} {mine[key]} against {theirs[key]}"
        for key in sorted(mine.keys() & theirs.keys())
        if mine[key] != theirs[key]
    ]


def _flat(execution: Mapping[str, Any]) -> dict[str, Any]:
    # Who is trained alone does not record that.
    values: dict[str, Any] = {"runs trained together": execution.get("together", 1)}
    for key in _EXECUTION_KEYS:
        value = execution.get(key)
        if key == "instruction_sets" and isinstance(value, Mapping):
            value = {f"instruction set of {library}": name for library, name in value.items()}
        values |= value if isinstance(value, Mapping) else {} if value is None else {key: value}
    return values


def no_better_than_bigram(case: Case) -> Iterator[str]:
    """Yield the arms whose mean loss is that of the bigram model or above."""
    if worse := case.untrained:
        losses = case.bigram_losses
        which = listed(map(case.title, worse)) if len(worse) < 4 else _some(case, worse, len(losses))
        told = {f"{number(losses[arm][1], 3)} nats per token" for arm in worse}
        yield (
            f"not trained enough to say: {which} {'is' if len(worse) == 1 else 'are'} no better than the bigram model "
            f"({next(iter(told)) if len(told) == 1 else 'of its own text'}); train longer"
        )


def lost_text(case: Case) -> Iterator[str]:
    """Yield the arms whose tokens do not give their text back, so that bits per byte cannot compare them."""
    if case.experiment.primary != PER_BYTE:
        return
    finished = [run for run in case.every_run if run.status == "done"]
    lost = {run.name: share for run in finished if (share := run.metrics.get(KEPT)) is not None and share < TEXT_KEPT}
    for arm in case.experiment.arms:
        if (share := lost.get(arm.full_name)) is not None:
            gives = f"give back {100 * share:.0f} % of it" if share else "are ids of which no text is known"
            yield (
                f"{title(arm, case.experiment)} cannot be compared by bits per byte of the text: its tokens {gives}; "
                f"give a tokenizer that gives back {100 * TEXT_KEPT:.0f} % or more"
            )


def still_falling(case: Case) -> Iterator[str]:
    """Yield the arms whose metric still falls by more than the arms differ."""
    beyond = case.beyond(case.falls)
    if beyond.arms:
        least = in_per_cent(case.falls[beyond.most])
        yield (
            "not trained enough to say: over the last tenth of training the "
            f"{metric_name(case.experiment.primary)} of {_some(case, beyond.arms, len(case.means))} still falls by "
            f"more than the arms differ ({case.title(beyond.most)}: by at least {least}; "
            f"{beyond.apart}); train longer, or let the learning rate decay"
        )


def rates_matter(case: Case) -> Iterator[str]:
    """Yield the arms that the learning rate moves by more than the arms differ."""
    beyond = case.beyond(case.gains)
    if beyond.arms:
        of_most = next(entry.rates for entry in case.rates if entry.arm == beyond.most)
        best = max(of_most, key=lambda rate: rate.gain).factor
        yield (
            f"the learning rate moves {_some(case, beyond.arms, len(case.rates))} by more than the arms differ "
            f"({case.title(beyond.most)}: by at least {in_per_cent(case.gains[beyond.most])} at x{best:g}; "
            f"{beyond.apart}); believe the verdicts at the best rates, not these"
        )


def diverged(case: Case) -> Iterator[str]:
    """Yield the share of each arm's runs that diverged: the mean of the others is not that of the arm."""
    shares, some_left, none_left = list[str](), False, list[str]()
    for arm in case.experiment.arms:
        runs, name = case.runs.get(arm.full_name, {}).values(), title(arm, case.experiment)
        n = sum(run.status == "failed" and "diverged" in run.message for run in runs)
        if n:
            shares.append(f"{n} of {counted(len(runs), 'run')} of {name}")
            is_left = any(run.status == "done" for run in runs)
            some_left, none_left = some_left or is_left, none_left + ([] if is_left else [name])
    clauses = ["what is compared are the runs that did not, which is another question"] if some_left else []
    clauses += [f"of {listed(none_left)} nothing is left to be compared"] if none_left else []
    if shares:
        yield f"diverged: {listed(shares)}; {'; '.join(clauses)}"


_NAMED = 4
"""At most this many runs are named one by one."""


def wild_arms(case: Case) -> Iterator[str]:
    """Yield the arms that spread far more than the rest."""
    primary = case.experiment.primary
    if named := dict.fromkeys(arm for family in case.families if family.metric == primary for arm in family.wild):
        yield (
            f"from seed to seed {listed(map(case.title, named))} {'varies' if len(named) == 1 else 'vary'} more than "
            "ten times as much as the other arms, and what is compared with them is judged by its own spread alone"
        )


def seeds_added(case: Case) -> Iterator[str]:
    """Yield the cost of seeds that were added by hand after verdicts."""
    earlier = [n for n in case.seen if case.now is not None and n < case.now]
    if case.now is not None and earlier:
        chance = 100 * error_of((*earlier, case.now))
        yield (
            f"seeds were added after {'a look' if len(earlier) == 1 else counted(len(earlier), 'look')} at "
            f"{listed(map(str, earlier))}: looking again like this, chance alone tells apart {chance:.0f} of 100; "
            "`headway run` with --until plans its looks, and takes back what was said before"
        )


def arms_added(case: Case) -> Iterator[str]:
    """Yield the arms that were added after verdicts."""
    added = [arm for arm in case.runs_now if arm not in case.runs_seen]
    if case.runs_seen and added and case.now is not None:
        yield ARMS_ADDED.format(arms=listed(map(case.title, added)))


def runs_dropped(case: Case) -> Iterator[str]:
    """Yield how many runs that a verdict rested on are gone."""
    gone = []
    for arm, seeds in sorted(case.runs_seen.items()):
        left = set(seeds).difference(case.runs_now.get(arm, ()))
        gone += [f"{arm} seed {seed}" for seed in sorted(left)]
    if gone:
        named = listed(gone) if len(gone) <= _NAMED else f"{listed(gone[:_NAMED])} and {len(gone) - _NAMED} more"
        yield RUNS_DROPPED.format(runs=named)


def prolonged_plan(case: Case) -> Iterator[str]:
    """Yield the cost of a plan that was prolonged beyond its end, which its level tells."""
    plan = case.looks.plan
    if plan is not None and plan.level > LEVEL:
        end = plan.looks[-1]
        yield (
            f"the plan of looks was to end at {round(end * LEVEL / plan.level)} seeds and went on to {end}: of all its "
            f"looks together, chance alone tells apart {100 * plan.level:.2g} of 100"
        )


def late_plan(case: Case) -> Iterator[str]:
    """Yield the cost of a plan that was made when seeds had been run."""
    if case.looks.plan is not None:
        yield from recounted(case.looks.plan.looks, case.looks.n_before)


def recounted(looks: Sequence[int], n_before: int) -> Iterator[str]:
    """Yield a sentence if seeds had been run before a plan was made, with the cost of that."""
    if passed := [look for look in looks if look <= n_before]:
        again = ""
        if n_before < looks[-1]:
            chance = 100 * error_of((n_before, looks[-1]))
            again = f": looking again like that, chance alone tells apart {chance:.0f} of 100"
        yield (
            f"{n_before} seeds had been run before; they are recounted as the looks at {listed(map(str, passed))}, and "
            f"what was said of them at the full level is taken back{again}"
        )


def former_rules(case: Case) -> Iterator[str]:
    """Yield a sentence if a plan was made under another version of the rules."""
    yield from judged_anew(case.looks.rules)


def judged_anew(rules: int) -> Iterator[str]:
    """Yield a sentence if a plan was made under rules that Headway no longer has."""
    if rules != RULES:
        yield (
            f"this directory's plan was made under version {rules} of the rules for comparisons; all of its looks are "
            f"judged by version {RULES} now, so a former verdict may differ"
        )


def seeds_beyond_plan(case: Case) -> Iterator[str]:
    """Yield how many seeds count for no verdict, since they lie beyond the plan."""
    looks = case.looks
    if looks.asked is None or not looks.seeds:
        return
    planned = {arm for weights in looks.asked.values() for arm in weights}
    finished = (run for run in case.every_run if run.name in planned and run.status == "done")
    if more := {run.seed for run in finished if run.seed > looks.seeds[-1]}:
        is_one, last = len(more) == 1, len(looks.seeds)
        yield (
            f"{counted(len(more), 'seed')} {'stands' if is_one else 'stand'} beyond the plan of looks, which ends at "
            f"{last}, and {'counts' if is_one else 'count'} for no verdict; `headway run` with --until "
            f"{looks.margin:g}% --max-seeds {last + len(more)} continues the plan"
        )


@dataclass(frozen=True, kw_only=True)
class Check:
    """A warning that is looked for in every directory.

    Attributes:
        sentences: the function that yields the warning.
        casts_doubt: True if the warning may make answers worthless.
        doubt: the kind of doubt that the answers carry.
        answers: the answers in doubt.
        clause: the clause that is added to the answers' sentences.
    """

    sentences: Callable[[Case], Iterable[str]]
    casts_doubt: bool = False
    doubt: Doubt | None = None
    answers: Callable[[Case], Iterable[Answer]] = lambda _: ()
    clause: str = ""


WARNINGS: list[Check] = [
    Check(sentences=of_directory),
    Check(sentences=former_search, casts_doubt=True),
    Check(sentences=removed_keys),
    Check(sentences=failed_runs),
    Check(sentences=absent_baselines),
    Check(sentences=unlike_executions),
    Check(
        sentences=no_better_than_bigram,
        casts_doubt=True,
        doubt="untrained",
        answers=lambda case: (answer for answer in case.answers if answer.weights.keys() <= set(case.untrained)),
        clause="in doubt: no arm of it is better than the bigram model",
    ),
    Check(sentences=lost_text, casts_doubt=True),
    Check(
        sentences=still_falling,
        casts_doubt=True,
        doubt="falling",
        answers=lambda case: case.beyond(case.falls).answers,
        clause="in doubt: the {metric} still falls by more",
    ),
    Check(
        sentences=rates_matter,
        casts_doubt=True,
        doubt="rates",
        answers=lambda case: case.beyond(case.gains).answers,
        clause="in doubt: the learning rate moves it by more",
    ),
    Check(sentences=diverged),
    Check(sentences=wild_arms),
    Check(sentences=seeds_added),
    Check(sentences=arms_added),
    Check(sentences=runs_dropped),
    Check(sentences=prolonged_plan),
    Check(sentences=late_plan),
    Check(sentences=former_rules),
    Check(sentences=seeds_beyond_plan),
]
"""Every warning, in the order in which warnings are told."""


def warned(case: Case) -> list[tuple[Check, str]]:
    """Return the sentences of every warning."""
    return [(check, sentence) for check in WARNINGS for sentence in check.sentences(case)]


Judged = TypeVar("Judged", Comparison, JudgedContrast)


def with_doubts(differences: Sequence[Judged], case: Case) -> tuple[Judged, ...]:
    """Return differences with what speaks against them, in their sentences too."""
    in_doubt = [(check, {id(answer.difference) for answer in check.answers(case)}) for check in WARNINGS]
    return tuple(_with_doubts(each, [check for check, ids in in_doubt if id(each) in ids]) for each in differences)


def _with_doubts(judged: Judged, checks: Sequence[Check]) -> Judged:
    kinds = tuple(check.doubt for check in checks if check.doubt is not None)
    # For what is no better than counting pairs it goes without saying that it still learns.
    told = [check.clause for check in checks if not (check.doubt == "falling" and "untrained" in kinds)]
    if not kinds:
        return judged
    key = "verdict" if isinstance(judged, Comparison) else "sentence"
    clauses = "; ".join(told).format(metric=metric_name(judged.metric))
    changed: dict[str, Any] = {key: f"{getattr(judged, key)}; {clauses}"}
    return replace(judged, doubts=kinds, **changed)
