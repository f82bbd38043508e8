"""Show: a metric of an arm over the steps that all of its seeds measured."""

import numpy as np

from headway.show.report.report_data import ArmResults


def per_seed(arm: ArmResults, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The steps that all seeds measured, and the metric (seeds, steps) there."""
    series = [dict(zip(steps.tolist(), values, strict=True)) for steps, values in (r.series(metric) for r in arm.runs)]
    shared = sorted(set.intersection(*(set(s) for s in series)))
    shared = [step for step in shared if all(s[step] > 0 for s in series)]
    if metric == "train_mse" and len(shared) > 2 and 2 * (shared[-1] - shared[-2]) < shared[-2] - shared[-3]:
        shared.pop()  # the mean of a few steps at the end is noise beside means of many
    return np.array(shared, dtype=int), np.array([[s[step] for step in shared] for s in series])
