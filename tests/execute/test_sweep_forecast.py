"""The time left while runs are worked on counts start-up and evaluation of runs, as finished runs took them."""

import pytest

from headway.execute.queue import Progress, Snapshot

START_S, TRAINING_S, EVALUATION_S = 3.0, 4.0, 5.0
WHOLE_S = START_S + TRAINING_S + EVALUATION_S
STEPS = 100


def moment(at_s: float, runs: int, workers: int) -> tuple[Snapshot, float]:
    """Return runs of one length, so many at a time, after some seconds, and the seconds that are left."""
    shown = []
    for number in range(runs):
        worked_s = min(max(0.0, at_s - number // workers * WHOLE_S), WHOLE_S)
        status = "done" if worked_s == WHOLE_S else "running" if at_s >= number // workers * WHOLE_S else "waiting"
        step = round(STEPS * min(max(0.0, (worked_s - START_S) / TRAINING_S), 1.0))
        rate = STEPS / TRAINING_S if status == "running" and step else None
        shown.append(
            Progress(
                name="a", seed=number, status=status, message="", step=step, steps=STEPS, steps_per_s=rate,
                work_per_step=2.0, worked_s=worked_s,
            )
        )  # fmt: skip
    end_s = -(-runs // workers) * WHOLE_S
    return Snapshot(runs=tuple(shown), workers=workers, elapsed_s=at_s), end_s - at_s


@pytest.mark.parametrize(("runs", "workers"), [(12, 3), (5, 4), (7, 1)])
def test_the_time_left_is_true_within_half_as_much_again_once_a_run_is_done(runs, workers):
    at_s = WHOLE_S
    while at_s < -(-runs // workers) * WHOLE_S:
        snapshot, truth_s = moment(at_s, runs, workers)
        assert snapshot.seconds_left is not None
        assert truth_s / 1.5 <= snapshot.seconds_left <= 1.5 * truth_s, at_s
        at_s += 0.5
