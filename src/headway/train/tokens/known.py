"""Train: how a model is judged on a task whose answer is known: by the share of right answers, and by solving it.

A number beyond what such a model can reach is a defect, and fails the run.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from headway.data.tokens.examples import Batch
from headway.declare.metrics import METRICS
from headway.declare.tokens.known import KnownTask
from headway.errors import BeyondPossible
from headway.train.tokens.judge import Judge

_ROUNDING = 1e-9


class KnownJudge(Judge):
    """Counts right answers over what is asked; of answers that are numbers, the share of variance that is missed."""

    def judged(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """The loss, the accuracy or `nmse`, and whether that is a solution.

        Raises:
            BeyondPossible: when no model of this shape can be as good.
        """
        task, kept = self.run.task, list(batches)
        assert isinstance(task, KnownTask)
        loss = super().judged(kept)
        answers = [self._answers(batch) for batch in kept]
        if task.loss == "mse":
            found = {**loss, "nmse": _nmse(kept, answers)}
            self._check_possible(found)
            return found
        right = np.concatenate([(a.argmax(2) == b.targets)[b.asked] for a, b in zip(answers, kept, strict=True)])
        accuracy = float(right.mean())
        found = {**loss, "accuracy": accuracy, "solved": float(task.is_solved(accuracy))}
        self._check_possible(found)
        if kept[0].kinds is not None:
            kinds = np.concatenate([np.broadcast_to(b.kinds[:, None], b.asked.shape)[b.asked] for b in kept])  # type: ignore[index]
            found["accuracy_by_kind"] = [float(right[kinds == kind].mean()) for kind in range(int(kinds.max()) + 1)]
        if task.asked_last is None:
            found["accuracy_by_length"] = _by_octave(right, np.concatenate([b.asked.nonzero()[1] + 1 for b in kept]))
        return found

    def _check_possible(self, found: Mapping[str, float]) -> None:
        """See that nothing is better than it can be.

        Raises:
            BeyondPossible: naming it.
        """
        task = self.run.task
        for name, best in task.best_possible(self.run.model).items():
            if name not in found:
                continue
            beyond = found[name] - best if METRICS[name].better == "higher" else best - found[name]
            if beyond > _ROUNDING:
                raise BeyondPossible(
                    f"{name} is {found[name]:.6g}, and no model of this shape gets beyond {best:.6g} at {task.title}: "
                    "a defect in how it was measured, or in the bound; please report it"
                )

    def _answers(self, batch: Batch) -> np.ndarray:
        """What the model says, without gradients or dropout."""
        module, (inputs, _) = self.loss.module, self.loss.tensors(batch)
        module.eval()
        with torch.no_grad():
            answers, _ = module(inputs)
        module.train()
        return np.asarray(answers.float().cpu().numpy())


def _by_octave(right: np.ndarray, lengths: np.ndarray) -> list[float | None]:
    """The share that is right at lengths of 1, 2, 3 to 4, 5 to 8, ...; None where nothing is asked.

    Examples:
        >>> _by_octave(np.array([True, False, True]), np.array([2, 3, 4]))
        [None, 1.0, 0.5]
    """
    octaves = np.ceil(np.log2(lengths)).astype(int)
    shares = (right[octaves == octave] for octave in range(int(octaves.max()) + 1))
    return [float(share.mean()) if len(share) else None for share in shares]


def _nmse(batches: list[Batch], answers: list[np.ndarray]) -> float:
    """Mean squared error over the variance of what is asked for."""
    said = np.concatenate([a[b.asked] for a, b in zip(answers, batches, strict=True)]).astype(float)
    true = np.concatenate([b.targets[b.asked] for b in batches]).astype(float)
    return float(((said - true) ** 2).mean() / true.var())
