"""The simulation of the gate decides as the gate does, so that its tables are those of the gate."""

import sys
from pathlib import Path

import numpy as np
import pytest
from support.gates import attempt_of, settings_of

from headway.gate.evidence import spent_rate
from headway.gate.trial import decide

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import gate

SETTINGS = settings_of()


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 51])
def test_a_simulated_challenger_is_kept_or_given_up_after_the_same_pairs(number):
    rng = np.random.default_rng(number)
    champion = rng.normal(10, 1, (60, 24))
    challenger = rng.normal(10, 1, (60, 24)) - np.linspace(0, 4, 60)[:, None]
    level = spent_rate(SETTINGS.rate, number, SETTINGS.challengers)
    kept = gate.pairs_until_kept(champion - challenger, level, SETTINGS.budget)
    given_up = gate.pairs_until_given_up(champion - challenger, level, SETTINGS.budget)
    outcomes = set()
    for row in range(60):
        decision = decide(SETTINGS, attempt_of(champion[row], challenger[row], number))
        outcomes.add(decision.outcome)
        if decision.outcome == "keep":
            assert decision.pairs == kept[row]
        elif decision.outcome == "undecided":
            assert kept[row] == gate.NEVER
            assert decision.pairs == given_up[row]
        else:
            assert kept[row] == gate.NEVER
    assert {"keep", "undecided"} <= outcomes
