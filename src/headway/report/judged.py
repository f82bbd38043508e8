"""The page of a judged table: the answer, the comparisons, the arms, and how the table was read."""

from pathlib import Path

import numpy as np

from headway.base.files import derived, write_changed_json
from headway.base.identity import signed
from headway.base.text import capital, number
from headway.base.words import say
from headway.config.metrics import METRICS
from headway.report.charts.page import Row, Table, render, write_whole
from headway.report.experiment.first_screen import MOST_ROWS, compared_arms, forest, headline, strongest_first
from headway.stats.results import Results
from headway.stats.verdicts import quantity, scope


def write_judged(results: Results, out: Path) -> Path:
    """Write `results.json` and `report.html` into a folder, and return the path of the page.

    Raises:
        ResultsError: when a file cannot be written.
    """
    path = out / "results.json"
    with derived(path):
        write_changed_json(path, signed(results.to_json()))
    return write_whole(out / "report.html", page(results).encode())


def page(results: Results) -> str:
    """Return the results of a table as HTML."""
    shown = list(compared_arms(results, results.labels))
    measured = quantity(METRICS[results.primary])
    first = strongest_first(shown)[:MOST_ROWS] if len(shown) > MOST_ROWS else shown
    family = results.families[0]
    return render(
        "judged.html.j2",
        [],
        name=results.experiment,
        title=f"{capital(measured)} of {len(results.labels)} arms",
        answer=headline(results, shown) if shown else say("no_two_values"),
        warnings=results.warnings,
        forest=forest(results, "", first) if shown else None,
        scope=scope(family, results.judged),
        verdicts=[comparison.verdict for comparison in results.judged],
        arms=_arms(results),
        runs=_runs(results),
        notes=results.notes,
    )


def _arms(results: Results) -> Table:
    rows = []
    for arm, label in results.labels.items():
        values = np.array(list(results.by_seed(arm).values()))
        spread = number(float(values.std(ddof=1)), 3) if len(values) > 1 else "–"
        mean, low, high = "–", "–", "–"
        if len(values):
            mean, low, high = (number(float(each)) for each in (values.mean(), values.min(), values.max()))
        rows.append(Row(cells=(label, str(len(values)), mean, spread, low, high)))
    return Table(columns=("arm", "seeds", "mean", "sd", "smallest", "largest"), rows=rows)


def _runs(results: Results) -> Table:
    seeds = sorted({run.seed for run in results.runs})
    by_seed = {arm: results.by_seed(arm) for arm in results.labels}
    rows = [Row(cells=(str(seed), *(number(by_seed[arm].get(seed)) for arm in by_seed))) for seed in seeds]
    return Table(columns=("seed", *results.labels.values()), rows=rows)
