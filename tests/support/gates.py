"""Small training programs and gates: a metric that depends on the seed, and on what a change is worth."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.config.plugins import allow_command
from headway.gate.command import Candidate
from headway.gate.journal import CHALLENGER, CHAMPION, Attempt, GateSettings, Journal

PROGRAM = """
import random, sys
seed, worth = int(sys.argv[1]), float(sys.argv[2])
noise = random.Random(f"{seed} {worth}").gauss(0, 0.01)
print(f"step 1 loss=9.5")
print(f"loss: {2 - worth + noise:.9f}")
"""


def command(worth: float, *, file: str = "train.py") -> str:
    """The command of a change that is worth so much of the loss, in a folder with the program."""
    return f"{sys.executable} -S -E {file} {{seed}} {worth}"


def gate(folder: Path, **settings: object) -> Path:
    """A gate in a folder with the program, whose champion is worth nothing."""
    (folder / "train.py").write_text(PROGRAM)
    champion = Candidate.typed("baseline", command(0.0), folder)
    allow_command(champion.run, champion.folder)
    Journal.create(
        folder / "gate", settings_of(**{"margin": 0.02, "budget": 12, "first_seed": 100, **settings}), champion
    )
    return folder / "gate"


def attempt_of(champion: Sequence[float], challenger: Sequence[float], number: int = 1) -> Attempt:
    """A challenger whose runs, and those of the champion, have these values."""
    candidate = Candidate(name="wider")
    seeds = [*range(len(champion))]
    attempt = Attempt(number=number, candidate=candidate, champion=candidate, seeds=seeds, challenger_first=False)
    for role, values in ((CHAMPION, champion), (CHALLENGER, challenger)):
        attempt.values.update({(role, seed): value for seed, value in zip(seeds, values, strict=True)})
    return attempt


def settings_of(**changes: Any) -> GateSettings:
    """What a gate was begun with."""
    usual = {"metric": "loss", "margin": 0.0, "is_percent": False, "budget": 24, "rate": 0.05, "challengers": 50}
    return GateSettings(**{**usual, "lower_is_better": True, "first_seed": 0, **changes})
