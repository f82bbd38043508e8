"""Compare: models that were pruned and judged at once, beside the model that they come from, seed by seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headway.declare.experiment import Arm
from headway.declare.tokens.run import TokensRun

_LOSS, _HEADS = "eval_loss_nats", "total_heads"


@dataclass(frozen=True, kw_only=True)
class PrunedAtOnce:
    """What one arm lost, of the heads and of the loss, against the same model with all of its heads.

    Attributes:
        arm: its full name.
        method: by which its heads were chosen.
        step: of the training of the whole model, at which it was pruned.
        kept: share of the heads that stay.
        rises: of the loss, nats per token, by seed.
        loss: of the whole model, the mean over these seeds.
    """

    arm: str
    method: str
    step: int
    kept: float
    rises: Mapping[int, float]
    loss: float


Metrics = Mapping[int, Mapping[str, float]]
"""Final metrics of an arm, by seed."""


def pruned_at_once(
    arms: Sequence[Arm], finals: Mapping[str, Metrics], steps: Mapping[str, int]
) -> Iterator[PrunedAtOnce]:
    """Each arm that was pruned and not trained, and has a whole model to be compared with.

    Args:
        arms: of an experiment.
        finals: final metrics of arms, by full name; those that did not finish are left out.
        steps: for how many each arm was trained, by full name.
    """
    for arm in arms:
        run = arm.template
        if not isinstance(run, TokensRun) or not _only_pruned(run) or arm.full_name not in finals:
            continue
        whole = _whole(arm, arms)
        if whole is None or whole.full_name not in finals or arm.parent is None:
            continue
        assert run.start is not None
        assert run.start.prune is not None
        shared = finals[arm.full_name].keys() & finals[whole.full_name].keys()
        pairs = {seed: (finals[arm.full_name][seed], finals[whole.full_name][seed]) for seed in sorted(shared)}
        if pairs:
            small, large = next(iter(pairs.values()))
            yield PrunedAtOnce(
                arm=arm.full_name,
                method=run.start.prune.by,
                step=steps[arm.parent.full_name] if run.start.step == "last" else run.start.step,
                kept=small[_HEADS] / large[_HEADS],
                rises={seed: one[_LOSS] - other[_LOSS] for seed, (one, other) in pairs.items()},
                loss=sum(other[_LOSS] for _, other in pairs.values()) / len(pairs),
            )


def _only_pruned(run: TokensRun) -> bool:
    return run.start is not None and run.start.prune is not None and run.declared_steps == 0


def _whole(arm: Arm, arms: Sequence[Arm]) -> Arm | None:
    """The arm of the same step with all heads: the parent, or one that starts there and does nothing."""
    run = arm.template
    assert isinstance(run, TokensRun)
    assert run.start is not None
    if run.start.step == "last":
        return arm.parent
    for other in arms:
        it = other.template
        if isinstance(it, TokensRun) and it.start is not None and it.declared_steps == 0:
            plain = it.start.prune is None and not it.start.regrow and it.start.weights == "kept"
            if plain and (it.start.run, it.start.step) == (run.start.run, run.start.step):
                return other
    return None
