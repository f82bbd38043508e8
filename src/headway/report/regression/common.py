"""Functions that several figures of in-context runs share: the specification of a run, and its final circuits."""

import numpy as np

from headway.config.regression import IclRun, OneLayer
from headway.icl.circuits import circuits
from headway.report.experiment.data import ArmResults, Finished
from headway.store.run import Run


def declared(run: Finished) -> IclRun:
    """Return the specification of a run."""
    assert isinstance(run.run.spec, IclRun)
    return run.run.spec


def has_one_layer(arm: ArmResults) -> bool:
    """Return whether an arm's model is a single layer, whose heads are w and mu."""
    return isinstance(declared(arm.shown).model, OneLayer)


def circuits_of(run: Finished) -> dict[str, np.ndarray]:
    """QK (layer, head, D, D) and OV (layer, head, d_y, D) of the trained weights."""
    return run.once(_circuits)


def _circuits(run: Run) -> dict[str, np.ndarray]:
    assert isinstance(run.spec, IclRun)
    return circuits(run.weights(), run.spec.model, run.spec.task)
