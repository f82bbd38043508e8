"""Lab: one run folder, read.

    run.json                  what was asked, where it stands, how it was executed and what came out
    metrics.jsonl             a line per recorded step
    heads/STEP.safetensors    what was measured per head
    curves.json               what the finished model was judged by, where that is too long for a number
    checkpoint/ lease/ log.txt

A `Run` is what the folder held when it was opened; files are read when they are asked for.
"""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from safetensors.numpy import load_file

from headway.declare.run import RegressionRun, RunSpec, parse_run
from headway.errors import ResultsError
from headway.files import write_json
from headway.lab.lease import Lease, is_held
from headway.train import checkpoint
from headway.train.loop import Arrays

SCHEMA = 1
Status = Literal["waiting", "running", "done", "failed", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder, as it was when it was opened.

    `control` is None for a plain arm, `metrics` is empty until the run is done, and `execution` says how it was
    computed (trainer, instruction set, threads, versions, host, ...).
    """

    path: Path
    id: str
    arm: str
    control: str | None
    group: str | None
    seed: int
    status: Status
    message: str
    config: Mapping[str, Any]
    log_every: int
    execution: Mapping[str, Any]
    metrics: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> "Run":
        """Read a run folder.

        Raises:
            ResultsError: when there is none, or it cannot be understood.
        """
        run = read(path)
        if run.status == "running" and not is_held(path / "lease"):
            return replace(run, status="interrupted", message="its process ended without a word; run again to go on")
        return run

    @property
    def name(self) -> str:
        """`ARM` or `ARM+CONTROL`."""
        return f"{self.arm}+{self.control}" if self.control else self.arm

    @property
    def steps(self) -> int:
        """Optimizer steps when it is done."""
        return int(self.config["training"]["steps"])

    @cached_property
    def spec(self) -> RunSpec:
        """What was asked.

        Raises:
            ResultsError: when the configuration does not have the id that the folder was made for.
        """
        spec = parse_run(self.config, lambda key: f"{self.path / 'run.json'}: {key}")
        if spec.id != self.id:
            raise ResultsError(
                f"{self.path}: run.json was made for {self.id} but its configuration is {spec.id}'s; it was edited. "
                "Change the experiment's file and run it into another directory instead"
            )
        return spec

    def records(self) -> list[dict[str, Any]]:
        """What was recorded while training, a mapping per step, ascending.

        A last line that was cut short (a kill or a full disk) is left out with a warning.

        Raises:
            ResultsError: when an earlier line is damaged.
        """
        return read_records(self.path / "metrics.jsonl")

    def head_steps(self) -> list[int]:
        """The steps at which arrays of the heads were kept."""
        return sorted(int(path.stem) for path in (self.path / "heads").glob("[0-9]*.safetensors"))

    def head_arrays(self, step: int) -> Arrays:
        """The arrays of the heads that were kept at a step.

        Raises:
            ResultsError: when none were.
        """
        path = heads_file(self.path, step)
        if not path.is_file():
            kept = ", ".join(map(str, self.head_steps())) or "no step"
            raise ResultsError(f"{self.path}: nothing was kept of the heads at step {step}; there is {kept}")
        return load_file(path)

    def curves(self) -> dict[str, Any]:
        """What the finished run was judged by beside its metrics; empty before."""
        path = self.path / "curves.json"
        return _read_json(path, "") if path.is_file() else {}

    def weights(self) -> Arrays:
        """The weights of the newest checkpoint.

        Raises:
            ResultsError: when there is none.
        """
        found, damages = checkpoint.load(self.path / "checkpoint")
        if found is None:
            raise ResultsError(". ".join([f"{self.path} has no checkpoint yet; it is {self.status}", *damages]))
        return found.weights()

    def model(self) -> Any:
        """The trained model, a torch module.

        Raises:
            ResultsError: when there is no checkpoint.
        """
        return training_room(self.spec).trained_model(self.spec, self.weights())


_TRAINING_ROOMS: dict[type[RunSpec], str] = {RegressionRun: "headway.train.regression"}


def training_room(spec: RunSpec) -> ModuleType:
    """The module that trains a type of run: it has `open_study` and `trained_model`."""
    # By name, since it may import torch, for which nobody should wait who only reads a run.
    return import_module(_TRAINING_ROOMS[type(spec)])


_IDENTITY = ("id", "arm", "control", "group", "seed")


def read(path: Path) -> Run:
    """A run folder with the status that was written last, be its owner alive or not.

    Raises:
        ResultsError: when there is none, or it cannot be understood.
    """
    content = _read_json(path / "run.json", f"{path} holds no run")
    try:
        if content["schema"] != SCHEMA:
            raise ResultsError(f"{path}: run.json has schema {content['schema']}, and this Headway reads {SCHEMA}")
        named = {key: content[key] for key in (*_IDENTITY, "status", "message", "config", "execution", "metrics")}
        return Run(path=path, log_every=content["logging"]["every"], **named)
    except (KeyError, TypeError) as error:
        raise ResultsError(f"{path}: run.json is damaged ({error!r}); delete the folder to run it again") from None


def document(run: Run) -> dict[str, Any]:
    """The content of run.json."""
    identity = {key: getattr(run, key) for key in _IDENTITY}
    return {
        "schema": SCHEMA,
        **identity,
        "status": run.status,
        "message": run.message,
        "config": run.config,
        "logging": {"every": run.log_every},
        "execution": run.execution,
        "metrics": run.metrics,
    }


def update(run: Run, lease: Lease, **changes: Any) -> Run:
    """Change a run and its run.json; only the owner of the folder may.

    Raises:
        LeaseLost: when another process owns it.
        OSError: when it cannot be written.
    """
    changed = replace(run, **changes)
    lease.check()
    write_json(run.path / "run.json", document(changed))
    return changed


def heads_file(path: Path, step: int) -> Path:
    """The file of a run folder for what was measured per head at a step."""
    return path / "heads" / f"{step:09d}.safetensors"


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records in a file of JSON lines; see `Run.records`."""
    lines = path.read_bytes().split(b"\n") if path.is_file() else [b""]
    records = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            records.append(json.loads(line))
        except ValueError:
            raise ResultsError(f"{path}: line {number} is damaged; delete the run's folder to run it again") from None
    if lines[-1]:
        warnings.warn(f"{path}: the last line was cut short and is left out", stacklevel=3)
    return records


def _read_json(path: Path, missing: str) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultsError(f"{missing}: {path.name} is missing") from None
    except (ValueError, OSError) as error:
        raise ResultsError(f"{path}: cannot be read ({error}); delete the run's folder to run it again") from None
