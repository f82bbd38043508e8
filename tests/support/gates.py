"""Small training programs and gates: a metric that depends on the seed, and on what a change is worth."""

import sys
from pathlib import Path

from headway.config.plugins import allow_command
from headway.gate.command import Candidate
from headway.gate.journal import GateSettings, Journal

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
    usual = {
        "metric": "loss",
        "margin": 0.02,
        "is_percent": False,
        "budget": 12,
        "rate": 0.05,
        "challengers": 50,
        "lower_is_better": True,
        "first_seed": 100,
    }
    champion = Candidate.typed("baseline", command(0.0), folder)
    allow_command(champion.run, champion.folder)
    Journal.create(folder / "gate", GateSettings(**{**usual, **settings}), champion)
    return folder / "gate"
