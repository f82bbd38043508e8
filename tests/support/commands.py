"""Training commands for tests: small programs, and experiments that run them."""

import sys
from pathlib import Path
from typing import Any

TRAIN = """
import json, os, random, sys
heads, seed = int(sys.argv[1]), int(sys.argv[2])
luck = random.Random(seed).gauss(0, 0.02)
with open("metrics.jsonl", "a") as file:
    for step in (0, 10, 20):
        record = {"step": step, "val_loss": 2 + 1 / (1 + step) + luck - 0.05 * heads, "train_loss": 1.5}
        file.write(json.dumps(record) + chr(10))
print("heads", heads, "again" if "HEADWAY_RESUMED" in os.environ else "anew", os.environ["OMP_NUM_THREADS"])
"""
"""A trainer whose loss falls with its heads."""


def document(folder: Path, program: str = TRAIN, **task: Any) -> dict[str, Any]:
    """An experiment of two arms, whose program stands in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(program)
    return {
        "name": "mine",
        "task": {
            "kind": "command",
            "run": f"{sys.executable} -S train.py {{heads}} {{seed}}",
            "files": ["train.py"],
            "records": "metrics.jsonl",
            "metric": "val_loss",
            **task,
        },
        "arms": {"h1": {"values": {"heads": 1}}, "h4": {"values": {"heads": 4}}},
        "baseline": "h1",
        "seeds": 2,
    }
