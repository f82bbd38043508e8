"""A trial before a run: of every shipped task, alone and together, with examples that the task itself draws."""

import pytest

from headway.config.load import load
from headway.execute.costs import costs
from headway.train.loop import training_part_of

DRAWN = ("parity", "endpoints", "retrieval", "hops", "recall", "induction")


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_tasks_that_are_drawn_are_tried_on_their_own_examples(name):
    runs = [load(f"heads-for-{name}").selected[-1].spec(seed) for seed in (0, 1)]
    laboratory = training_part_of(runs[0])
    assert all(0 < rate < 1e5 for rate in laboratory.trial_steps_per_s(runs[0], seconds=0.02))
    assert all(0 < rate < 1e5 for rate in laboratory.trial_steps_per_s(*runs, seconds=0.02))


@pytest.mark.slow
def test_a_plan_tries_as_many_together_as_a_worker_would_take():
    experiment = load("heads-for-endpoints").select(arms=["cycle-h1"], seeds=5)
    (cost,) = costs(experiment)
    assert cost.together == 5
    assert cost.about_trial == "timed with 5 seeds trained together, as a worker does by default"
    (alone,) = costs(experiment.select(seeds=1))
    # Five at once take little longer than one: the share of each is smaller.
    assert cost.seconds < 0.7 * alone.seconds
