"""One run folder, read, and its run.json, written.

    run.json                  configuration, status, execution and final metrics
    metrics.jsonl             a line per recorded step
    samples.jsonl             a line per text that the model wrote
    tokenizer.json            the tokenizer of a language model
    heads/STEP.safetensors    what was measured per head
    weights/STEP.safetensors  weights of a step from which another run starts, or that was asked for
    start.json                how this run was initialised from another run
    curves.json               results of the evaluation that are too long for a number
    seal.json                 lengths and hashes of all these files, once the run is done
    checkpoint/ lease/ log.txt

A `Run` is the folder's content when it was opened; files are read when they are asked for. Content that has changed
since it was written is never believed. run.json has a schema that this Headway must know, a digest of itself, and that
of the seal, which has those of everything else.

The process that makes a folder writes run.json; from then on, its owner alone does.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from headway.base.files import entries, json_text, kept_json, write_text
from headway.base.identity import DIGEST
from headway.config.kinds import parse_stored, part_of
from headway.config.plugins import load_needed
from headway.config.run import WORK, RunSpec
from headway.errors import DeclarationError, ResultsError, UserError
from headway.store import checkpoint, records
from headway.store import integrity as seals
from headway.store.batches import RunBatch
from headway.store.checkpoint import Arrays
from headway.store.lease import Lease, is_held
from headway.store.records import anew, read_bytes

SCHEMA = 1
_END = f',\n "{DIGEST}": "'
"""The text between the content and its digest, which comes last."""


def read_run_json(path: Path) -> dict[str, Any]:
    """Return the content of a folder's run.json.

    Raises:
        ResultsError: when there is none, it is of another schema, or it is not as it was written.
    """
    file = path / "run.json"
    if not file.exists() and records.holds_run(path):
        raise ResultsError(f"{path}: its run.json is missing, and other parts of a run are there; {anew(path)}")
    text = read_bytes(file, f"{path} holds no run")
    content = records.mapping_in(text, file)
    if "schema" not in content:
        raise ResultsError(f"{path}: run.json is damaged (it has no schema); {anew(path)}")
    if content["schema"] != SCHEMA:
        raise ResultsError(
            f"{path}: run.json has schema {content['schema']}, and this Headway reads {SCHEMA}; "
            f"read it with the Headway that wrote it; or {anew(path)}"
        )
    if _is_signed(text):
        return content
    if DIGEST in content or "seal" in content:
        raise ResultsError(
            f"{path}: run.json is not as it was written: it is damaged, or it was edited; {anew(path)}, and for "
            "another experiment change its file and choose another directory"
        )
    raise ResultsError(
        f"{path}: run.json has no seal: a development version of Headway made the run, or its seal was removed; "
        f"{anew(path)}"
    )


def signed_text(content: Mapping[str, Any]) -> str:
    """Return the text of a run.json: its content, and the digest of its text."""
    text = json_text({"schema": SCHEMA, **content}).removesuffix("\n}\n")
    return f'{text}{_END}{_digest(text.encode())}"\n}}\n'


def _is_signed(text: bytes) -> bool:
    before, _, after = text.rpartition(_END.encode())
    return after == f'{_digest(before)}"\n}}\n'.encode()


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def check_schema(directory: Path) -> None:
    """Raise ResultsError if a newer Headway wrote the runs of a directory.

    Raises:
        ResultsError: when a later one wrote them.
    """
    for file in entries(directory, "runs/*/seed-*/run.json"):
        content = kept_json(file)
        schema = content.get("schema") if isinstance(content, dict) else None
        if isinstance(schema, int) and schema > SCHEMA:
            raise ResultsError(
                f"{directory} was written by a later version of Headway (schema {schema} of its runs; this version has "
                f"{SCHEMA}); use that version"
            )


Status = Literal["waiting", "running", "done", "failed", "interrupted", "damaged"]
"""All but the last stand in run.json; a run is damaged when what the folder holds cannot be relied on."""


Failure = Literal["diverged"]
"""The reasons of a failure that a program may ask for."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Run:
    """A run folder, as it was when it was opened.

    `control` is None for a plain arm, `metrics` is empty until the run is done, and `execution` says how it was
    computed (trainer, instruction set, threads, versions, host, ...). `counted_steps` are those of a run whose length
    its corpus decides, None before that was opened. `keeps_weights` are steps whose weights are kept. `seal` is
    the digest of its seal, None before it is done. `batch` are the runs that it is trained together with, None for one
    that is trained alone. `failure` is the reason of a failure, None for most.
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
    counted_steps: int | None = None
    keeps_weights: tuple[int, ...] = ()
    seal: str | None = None
    batch: RunBatch | None = None
    failure: Failure | None = None

    @classmethod
    def open(cls, path: Path) -> "Run":
        """Read a run folder.

        Raises:
            ResultsError: when there is none, or it cannot be understood.
        """
        run = read(path)
        if run.status == "running" and not is_held(path / "lease"):
            return replace(
                run, status="interrupted", message="its process ended without a message; run again to resume"
            )
        return run

    @classmethod
    def examine(cls, path: Path, depth: seals.Depth = "whole", known: seals.Checked | None = None) -> "Run":
        """Read a run folder in a results directory, whatever its state: one that fails its `check` is damaged."""
        try:
            run = cls.open(path)
            run.check(depth, known)
        except ResultsError as error:
            return unreliable_run(path, str(error))
        return run

    def check(self, depth: seals.Depth = "whole", known: seals.Checked | None = None) -> None:
        """Raise ResultsError if the folder is not this run's, or if a done run's files have changed.

        Args:
            depth: the depth of the check of the files.
            known: the earlier checks of these files, to which the findings are added.

        Raises:
            ResultsError: saying what is damaged, and what to do.
        """
        self.check_name()
        if self.status == "done":  # what is damaged of others is computed again
            seals.check(self.path, self.seal or "", depth, known)

    def check_name(self) -> None:
        """Raise ResultsError if the folder is not named as its run.json tells, or if run.json has changed.

        Raises:
            ResultsError: saying what is damaged, and what to do.
        """
        here, there = f"{self.path.parent.name}/{self.path.name}", f"{self.name}/seed-{self.seed}"
        if here != there:
            raise ResultsError(f"{self.path}: its run.json is that of {there}; rename the folder or delete it")
        _ = self.spec

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.status})"

    @property
    def name(self) -> str:
        """`ARM` or `ARM+CONTROL`."""
        return f"{self.arm}+{self.control}" if self.control else self.arm

    @property
    def steps(self) -> int:
        """The optimizer steps of the whole run; 0 for a damaged run, and until its corpus tells them."""
        if self.status == "damaged":
            return 0
        return self.counted_steps if self.counted_steps is not None else self.spec.declared_steps or 0

    @cached_property
    def spec(self) -> RunSpec:
        """The specification that the run was asked for.

        Raises:
            ResultsError: when the configuration does not have the id that the folder was made for, or is damaged.
        """
        if self.status == "damaged":
            raise ResultsError(self.message)
        try:
            load_needed(self.path, self.config.get("plugins", ()))
            spec = parse_stored(self.config, lambda key: f"{self.path / 'run.json'}: {key}")
        except DeclarationError as error:
            raise ResultsError(f"{error}; {anew(self.path)}") from None
        if spec.id != self.id:
            raise ResultsError(
                f"{self.path}: run.json was made for {self.id} but its configuration is {spec.id}'s: it was "
                f"edited; {anew(self.path)}, and for another experiment change its file and choose another directory"
            )
        return spec

    @cached_property
    def trained(self) -> RunSpec:
        """The run as it was trained: of one that started from another, with the heads that were left or added.

        Raises:
            ResultsError: if `spec` would raise it, or the record of the run's initialisation is damaged.
        """
        try:
            record = records.read_init_record(self.path)
            if record is None:
                return self.spec
            from headway.config.lm.run import as_trained  # only models of tokens have a record

            return as_trained(self.spec, record)
        except DeclarationError as error:
            raise ResultsError(f"{self.path}: {error}; {anew(self.path)}") from None

    def records(self) -> list[dict[str, Any]]:
        """Return the records of training, a mapping per step, ascending.

        A last line that was cut short (a kill or a full disk) is left out with a warning.

        Raises:
            ResultsError: when an earlier line is damaged.
        """
        return records.read_records(self.path / "metrics.jsonl")

    def samples(self) -> list[dict[str, Any]]:
        """Return the texts that the model wrote, a mapping per text with its step.

        Raises:
            ResultsError: when it is damaged.
        """
        return records.read_records(self.path / "samples.jsonl")

    def head_steps(self) -> list[int]:
        """The steps at which arrays of the heads were kept."""
        return records.kept_steps(self.path, "heads")

    def head_arrays(self, step: int) -> Arrays:
        """The arrays of the heads that were kept at a step.

        Raises:
            ResultsError: when none were, or they are damaged.
        """
        return records.read_step(self.path, "heads", step)

    def curves(self) -> dict[str, Any]:
        """Return the results of the final evaluation beside the metrics; empty before it."""
        path = self.path / "curves.json"
        return records.read_json(path) if path.is_file() else {}

    def weight_steps(self) -> list[int]:
        """The steps, beside the last, whose weights were kept: other runs start there, or it was asked for."""
        return records.kept_steps(self.path, "weights")

    def weights(self, step: int | None = None) -> Arrays:
        """The weights of the newest checkpoint: of the last step when the run is done; or those kept of a step.

        Raises:
            ResultsError: when there is none.
        """
        if step is not None:
            return records.read_step(self.path, "weights", step)
        with records.reached(self.path / "checkpoint"):
            newest, damages = checkpoint.load(self.path / "checkpoint", self.id)
        if self.status == "done" and (newest is None or newest.step != self.steps):
            what = ", ".join(damages) or "the checkpoint of its last step is missing"
            raise ResultsError(f"{self.path}: {what}; {anew(self.path)}")
        if newest is None:
            what = ", ".join([f"it is {self.status}", *damages])
            raise ResultsError(f"{self.path} has no checkpoint yet: {what}; `headway run` resumes it")
        return newest.weights()

    def model(self, step: int | None = None) -> Any:
        """The trained model, or as it was at a step whose weights were kept; a torch module.

        Raises:
            ResultsError: when there is no checkpoint, or nothing was kept of the step.
        """
        return part_of(self.spec, "train").trained_model(self.trained, self.weights(step))


_DIVERGED = "training diverged"
IDENTITY = ("id", "arm", "control", "group", "seed")
"""The first keys of run.json."""


def read(path: Path) -> Run:
    """A run folder with the status that was written last, be its owner alive or not.

    Raises:
        ResultsError: when there is none, or it cannot be understood.
    """
    content = read_run_json(path)
    try:
        if content["status"] not in get_args(Status):
            raise TypeError(f"status {content['status']}")
        if wrong := [key for key in ("config", "execution", "metrics") if not isinstance(content[key], dict)]:
            raise TypeError(f"{wrong[0]} is not a mapping")
        named = {key: content[key] for key in (*IDENTITY, "status", "message", "config", "execution", "metrics")}
        if content["status"] == "done" and content.get("seal") is None:
            raise TypeError("done without a seal")
        keeps = tuple(int(step) for step in content["logging"].get("weights", ()))
        named |= {"counted_steps": content.get("steps"), "seal": content.get("seal"), "keeps_weights": keeps}
        named |= {"batch": RunBatch.read(content["batch"]) if "batch" in content else None}
        # A former version recorded the message alone.
        was_told = content["status"] == "failed" and _DIVERGED in content["message"]
        named |= {"failure": "diverged" if was_told or content.get("failure") == "diverged" else None}
        return Run(path=path, log_every=content["logging"]["every"], **named)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ResultsError(f"{path}: run.json is damaged ({error!r}); {anew(path)}") from None


def unreliable_run(path: Path, message: str) -> Run:
    """Return the run of an unreliable folder: it has what the folder's name tells, and nothing of the content.

    Its seed is -1 where the name has none.
    """
    arm, _, control = path.parent.name.partition("+")
    name = path.name.removeprefix("seed-")
    from_path: dict[str, Any] = {"arm": arm, "control": control or None, "seed": int(name) if name.isdecimal() else -1}
    nothing: dict[str, Any] = {"id": "", "group": None, "config": {}, "log_every": 0, "execution": {}, "metrics": {}}
    return Run(path=path, status="damaged", message=message, **from_path, **nothing)


def document(run: Run) -> str:
    """The text of run.json, signed."""
    batch = run.batch and run.batch.content
    optional = {"failure": run.failure, "batch": batch, "steps": run.counted_steps, "seal": run.seal}
    content = {
        **{key: getattr(run, key) for key in (*IDENTITY, "status", "message", "config")},
        "logging": {"every": run.log_every, **({"weights": run.keeps_weights} if run.keeps_weights else {})},
        "execution": run.execution,
        "metrics": run.metrics,
        **{key: value for key, value in optional.items() if value is not None},
    }
    return signed_text(content)


def update(run: Run, lease: Lease, **changes: Any) -> Run:
    """Change a run and its run.json; only the owner of the folder may.

    Raises:
        LeaseLost: when another process owns it.
        OSError: when it cannot be written.
    """
    changed = replace(run, **changes)
    lease.check()
    write_text(run.path / "run.json", document(changed))
    return changed


def stored_model(folder: Path) -> Path:
    """Return the folder of the model that a run's command has stored in the format of transformers.

    Raises:
        UserError: if it has stored none, or several.
    """
    stored = [file.parent for depth in ("", "*/", "*/*/") for file in entries(folder, f"{WORK}/{depth}config.json")]
    if not stored:
        raise UserError(f"{folder}: its command stored no model; save_pretrained(FOLDER) in the command stores one")
    if len(stored) > 1:
        raise UserError(f"{folder}: its command stored {len(stored)} models; give one of them, such as {stored[0]}")
    return stored[0]
