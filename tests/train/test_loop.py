"""The training loop: its milestones, its losses, and where it ends."""

import numpy as np
import pytest
from support import quadratic

from headway.errors import Diverged
from headway.train.loop import Beat, Milestone, train


def study(step_s: float = 0.0, rate: float = 0.05):
    of = quadratic.experiment()
    spec = of.arm("slow").spec(0)
    training = spec.training.model_copy(update={"learning_rate": rate})
    return quadratic.study(spec.model_copy(update={"training": training}), step_s=step_s)


def milestones(events) -> dict[int, Milestone]:
    return {event.step: event for event in events if isinstance(event, Milestone)}


def test_milestones_are_the_start_every_logged_step_where_a_measure_is_due_and_the_last():
    recorded = milestones(train(study(), steps=18, log_every=5))
    assert list(recorded) == [0, 1, 5, 7, 10, 14, 15, 18]
    assert [step for step, event in recorded.items() if "eval_mse" in event.metrics] == [0, 7, 14]
    assert [step for step, event in recorded.items() if event.arrays] == [1, 10]
    assert "train_mse" not in recorded[0].metrics


def test_the_training_loss_is_the_mean_over_all_steps_since_the_milestone_before():
    losses = study().trainer.advance(10)
    recorded = milestones(train(study(), steps=10, log_every=5))
    assert recorded[1].metrics["train_mse"] == losses[0]
    assert recorded[5].metrics["train_mse"] == losses[1:5].mean()
    assert recorded[10].metrics["train_mse"] == losses[7:10].mean()


def test_portions_change_no_bit_and_beats_come_between_milestones(monkeypatch):
    whole = milestones(train(study(), steps=40, log_every=40))
    monkeypatch.setattr("headway.train.loop._CHUNK_S", 0.01)
    slow = study(step_s=0.002)
    events = list(train(slow, steps=40, log_every=40))
    beats = [event for event in events if isinstance(event, Beat)]
    assert len(beats) >= 5
    assert all(0 < beat.steps_per_s < 500 for beat in beats[1:])
    portioned = milestones(events)
    assert {s: e.metrics for s, e in portioned.items()} == {s: e.metrics for s, e in whole.items()}
    assert 0.08 < portioned[40].training_s < 60


def test_it_goes_on_from_where_the_trainer_is():
    undisturbed = study()
    whole = milestones(train(undisturbed, steps=30, log_every=5))
    first = study()
    list(train(first, steps=14, log_every=5))
    second = study()
    second.trainer.restore(14, first.trainer.state())
    rest = milestones(train(second, steps=30, log_every=5))
    assert list(rest) == [step for step in whole if step > 14]
    assert all(rest[step].metrics == whole[step].metrics for step in rest)
    np.testing.assert_array_equal(second.trainer.weights()["W"], undisturbed.trainer.weights()["W"])


def test_it_goes_on_from_any_beat(monkeypatch):
    monkeypatch.setattr("headway.train.loop._CHUNK_S", 0.0)
    whole = milestones(train(study(), steps=30, log_every=10))
    beats = []
    first = study()
    for event in train(first, steps=30, log_every=10):
        if isinstance(event, Beat):
            beats.append((event, {name: array.copy() for name, array in first.trainer.state().items()}))
    assert {beat.measuring for beat, _ in beats} == {True, False}
    for beat, state in beats:
        second = study()
        second.trainer.restore(beat.step, state)
        rest = milestones(train(second, steps=30, log_every=10, begun=beat.unrecorded))
        assert list(rest) == [step for step in whole if step > beat.since]
        assert all(rest[step].metrics == whole[step].metrics for step in rest)


def test_a_finished_trainer_yields_nothing_more():
    done = study()
    list(train(done, steps=5, log_every=5))
    assert list(train(done, steps=5, log_every=5)) == []


def test_a_divergence_names_its_step_and_what_came_before_is_known():
    seen: list[int] = []
    events = train(study(rate=1e6), steps=60, log_every=1)
    with pytest.raises(Diverged, match=r"loss of step \d+"):
        seen.extend(event.step for event in events)
    assert len(seen) > 2
