"""Runs: run.json, written: by whoever makes a folder, and from then on by its owner alone."""

from dataclasses import replace
from typing import Any

from headway.files import write_text
from headway.runs.folder import IDENTITY, Run
from headway.runs.lease import Lease
from headway.runs.run_json import signed_text


def document(run: Run) -> str:
    """The text of run.json, signed."""
    identity = {key: getattr(run, key) for key in IDENTITY}
    content = {
        **identity,
        "status": run.status,
        "message": run.message,
        "config": run.config,
        **({} if run.batch is None else {"batch": run.batch.content}),
        "logging": {"every": run.log_every, **({"weights": run.keeps_weights} if run.keeps_weights else {})},
        "execution": run.execution,
        "metrics": run.metrics,
        **({} if run.counted_steps is None else {"steps": run.counted_steps}),
        **({} if run.seal is None else {"seal": run.seal}),
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
