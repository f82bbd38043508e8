"""Lab: a directory of runs, which is the database.

    DIR/experiment.yaml           the resolved document that all its runs belong to
    DIR/runs/ARM[+CONTROL]/seed-N/

A directory belongs to one document. It takes more arms, controls and seeds of it, and nothing of another.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from headway.declare.experiment import Arm, Experiment, read_resolved
from headway.declare.mapping import write_yaml
from headway.errors import DeclarationError, ResultsError, near
from headway.files import create_text, plain
from headway.runs.execution import surroundings
from headway.runs.folder import Run, document


class Store:
    """A results directory.

    Attributes:
        path: the directory.
        experiment: the document its runs belong to.
    """

    def __init__(self, path: Path, experiment: Experiment):
        self.path, self.experiment = path, experiment

    def __repr__(self) -> str:
        counts = Counter(run.status for run in self.runs())
        runs = ", ".join(f"{n} {status}" for status, n in counts.items()) or "no runs"
        return f"Store({str(self.path)!r}, {self.experiment.name}: {runs})"

    @classmethod
    def open(cls, path: str | Path) -> "Store":
        """A directory that Headway wrote.

        Raises:
            ResultsError: when it is none.
        """
        path = Path(path)
        if not (path / "experiment.yaml").is_file():
            missing = "it is a file" if path.is_file() else "there is no such directory"
            what = "it has no experiment.yaml" if path.is_dir() else missing
            raise ResultsError(f"{path} is no results directory of Headway: {what}; `headway run --out DIR` makes one")
        try:
            return cls(path, read_resolved(path / "experiment.yaml"))
        except DeclarationError as error:
            raise ResultsError(
                f"{path}: its experiment.yaml cannot be read back; restore it, or choose another directory\n{error}"
            ) from None

    @classmethod
    def create(cls, path: str | Path, experiment: Experiment) -> "Store":
        """The directory of an experiment's results, made if it does not exist.

        Raises:
            ResultsError: when it holds other things or another experiment (with the keys that differ), or cannot
                be written.
        """
        path = Path(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            content = [entry.name for entry in path.iterdir() if not entry.name.startswith(".")]
            if content and "experiment.yaml" not in content:
                raise ResultsError(
                    f"{path} holds other things ({', '.join(sorted(content)[:3])}, ...) and no experiment.yaml; "
                    "choose an empty or new directory with --out"
                )
            create_text(path / "experiment.yaml", write_yaml({**experiment.plain(), "headway": surroundings()}))
        except OSError as error:
            raise _unwritable(path, error) from None
        store = cls.open(path)
        differing = store.experiment.differences(experiment)
        if differing:
            raise ResultsError(
                f"{path} holds results of another experiment: it differs in {', '.join(differing)}; "
                "choose another directory with --out, or make these keys equal"
            )
        return store

    def add(self, arm: Arm, seed: int) -> Run:
        """The run of an arm and a seed; its folder is made if it does not exist, and otherwise left as it is.

        A folder that cannot be relied on gives a run with status `damaged`.

        Raises:
            ResultsError: when the folder holds a run of another content, or cannot be written.
        """
        path = self._folder(arm.full_name, seed)
        spec = arm.spec(seed)
        run = Run(
            path=path,
            id=spec.id,
            arm=arm.name,
            control=arm.control,
            group=arm.group,
            seed=seed,
            status="waiting",
            message="",
            config=spec.model_dump(mode="json"),
            log_every=self.experiment.logging.every,
            execution={},
            metrics={},
        )
        try:
            path.mkdir(parents=True, exist_ok=True)
            create_text(path / "run.json", json.dumps(plain(document(run)), indent=1) + "\n")
        except OSError as error:
            raise _unwritable(path, error) from None
        found = Run.examine(path)
        if found.status != "damaged" and found.id != run.id:
            raise ResultsError(
                f"{path} holds run {found.id}, and {arm.full_name} with seed {seed} is {run.id}; "
                "it is left as it is: choose another directory with --out"
            )
        return found

    def runs(self) -> tuple[Run, ...]:
        """All runs that have a folder, in the document's order of arms, then by seed.

        Those whose folder cannot be relied on are `damaged`, with a message; what is done can be read.
        """
        order = {arm.full_name: place for place, arm in enumerate(self.experiment.arms)}
        runs = [Run.examine(file.parent) for file in self.path.glob("runs/*/seed-*/run.json")]
        return tuple(sorted(runs, key=lambda run: (order.get(run.name, len(order)), run.name, run.seed)))

    def run(self, arm: str, seed: int) -> Run:
        """The run of an arm (`ARM` or `ARM+CONTROL`) and a seed; `damaged` if its folder cannot be relied on.

        Raises:
            ResultsError: when it has no folder here.
        """
        path = self._folder(arm, seed)
        if not (path / "run.json").is_file():
            names = {folder.name for folder in self.path.glob("runs/*")}
            if arm not in names:
                raise ResultsError(f"{self.path} has no runs of arm {arm!r}; {near(arm, names)}")
            seeds = [run.seed for run in self.runs() if run.name == arm]
            raise ResultsError(f"{self.path} has no run of arm {arm!r} with seed {seed}; there is {seeds}")
        return Run.examine(path)

    def records(self) -> list[dict[str, Any]]:
        """A mapping per run: arm, control, seed, status and its final metrics (none before it is done)."""
        names = ("arm", "control", "group", "seed", "status")
        return [{**{name: getattr(run, name) for name in names}, **run.metrics} for run in self.runs()]

    def frame(self) -> Any:
        """The records as a pandas DataFrame.

        Raises:
            ResultsError: when pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ResultsError("a DataFrame was asked for, but pandas is not installed; take records()") from None
        return pandas.DataFrame.from_records(self.records())

    def _folder(self, arm: str, seed: int) -> Path:
        return self.path / "runs" / arm / f"seed-{seed}"


def _unwritable(path: Path, error: OSError) -> ResultsError:
    return ResultsError(f"{path} cannot be written: {error.strerror}; choose another directory with --out")
