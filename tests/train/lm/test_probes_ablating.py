"""What the loss does without the heads of a trained model: a final measure, and metrics like others."""

import numpy as np
import pytest
from support.small_text import study_of
from support.tolerance import nearly

from headway.causal.effects import KINDS
from headway.config.metrics import METRICS as DECLARED
from headway.heads.scores import from_arrays
from headway.train.lm.probes import METRICS, _heads_of_half

NAMES = ("layers.0.attention", "layers.1.attention")


def test_nothing_is_taken_away_where_nobody_asks():
    study = study_of()
    assert study.carried == ("train_loss_nats",)


def test_every_way_is_measured_at_the_last_step_alone():
    study = study_of(after={"ablate": {"sequences": 6}})
    last = study.measures[-1]
    assert [step for step in range(41) if last.due(step)] == [40]
    measured = last.take()
    assert set(measured.metrics) == set(METRICS) <= set(study.carried)
    scores = from_arrays(measured.arrays, NAMES)
    for kind in KINDS:
        effects = np.concatenate([scores[f"{kind}_ablation_nats"].values[name] for name in NAMES])
        assert len(effects) == 6
        assert measured.metrics[f"{kind}_ablation_largest_nats"] == nearly(effects.max(), dtype=np.float32)
    assert 1 <= measured.metrics["half_effect_heads"] <= 6
    assert 0 <= measured.metrics["idle_head_share"] <= 1
    assert "michel_importance_nats" in scores


@pytest.mark.parametrize(
    ("effects", "heads"),
    [([0.4, 0.1, 0.1], 1), ([0.1, 0.1, 0.1, 0.1], 2), ([0.3, -0.9, 0.2], 1), ([0.0, -0.1], None), ([0.0, 0.0], None)],
)
def test_no_heads_have_half_of_nothing(effects, heads):
    assert _heads_of_half(np.array(effects)) == heads


def test_every_metric_of_it_is_declared():
    assert set(METRICS) <= set(DECLARED)
