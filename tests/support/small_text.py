"""Language models that train in seconds, on Headway's own stories."""

from typing import Any

from headway.config.experiment import Experiment
from headway.config.kinds import parse_run
from headway.config.lm.model import GptNeo
from headway.config.lm.run import TokensRun
from headway.config.load import resolve
from headway.train.lm.study import open_study
from headway.train.loop import Study

CONTENT: dict[str, Any] = {
    "task": {"kind": "text", "corpus": "stories", "stories": 200, "tokenizer": "bytes", "n_ctx": 24},
    "model": {"family": "gpt-neo", "d_model": 16, "n_layers": 2, "n_heads": "4-2", "windows": [None, 8]},
    "training": {"optimizer": "adamw", "learning_rate": 1e-2, "batch_size": 4, "steps": 40},
    "evaluation": {"every": 20, "sequences_during": 8, "sequences": 16},
    "samples": {"tokens": 30},
    "seed": 0,
}
MUON = {"optimizer": "muon", "learning_rate": 0.02, "adamw_learning_rate": 0.01}


def content(**over: Any) -> dict[str, Any]:
    """A run's content, parts of it merged."""
    merged = {
        key: {**CONTENT.get(key, {}), **value} if isinstance(value, dict) else value for key, value in over.items()
    }
    return {**CONTENT, **merged}


def run_of(**over: Any) -> TokensRun:
    run = parse_run(content(**over))
    assert isinstance(run, TokensRun)
    return run


def study_of(**over: Any) -> Study:
    """Its study, eager on the processor."""
    return open_study(run_of(**over), compile=False, device="cpu")


def experiment(**document: Any) -> Experiment:
    """Two arms of opposite layouts."""
    shared = {key: value for key, value in CONTENT.items() if key != "seed"}
    return resolve(
        {
            "name": "small-text",
            **shared,
            "logging": {"every": 5},
            "arms": {"falling": {}, "rising": {"model": {"n_heads": "2-4"}}},
            "baseline": "falling",
            "seeds": 1,
        }
        | document
    )


RAGGED = GptNeo(
    family="gpt-neo", d_model=16, n_layers=3, n_heads="4-0-2", n_positions=64, windows=(None, 8), init_std=0.3
)
STORIES = "".join(
    f"Once upon a time there was a heron of {n} years. It stood in reed {n * n} and waited.\n<|endoftext|>\n"
    for n in range(40)
)
