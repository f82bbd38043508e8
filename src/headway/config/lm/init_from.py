"""Initialising a run from another run of the same seed: pruning, fresh weights or rewinding before training.

A file names the arm. The run holds the id of that arm's run, which is thereby part of its own id.
"""

from typing import Literal

from pydantic import NonNegativeInt, PositiveInt

from headway.base.text import counted
from headway.config.lm.head_units import heads_to_keep, least_to_keep, units_of
from headway.config.lm.layout import HeadLayout
from headway.config.run import InitialRun
from headway.config.spec import Spec, whole

PruningMethod = Literal[
    "taylor", "ablation", "gates", "budget", "alike", "alike-either", "output", "magnitude", "random"
]
"""The name of a method in `headway.causal.importance` that orders heads for pruning."""


class StartPruning(Spec):
    """The heads to prune before training, chosen on the run's own training text."""

    by: PruningMethod
    """the rule that chooses heads, as in `headway prune`"""
    keep: PositiveInt | float | str
    """heads to keep: a number, or a share of the heads of `model`, such as 0.5 or 50%"""
    steps: PositiveInt = 1
    """number of pruning rounds; importance is measured before each round"""
    sequences: PositiveInt = 32
    """number of training sequences on which importance is measured"""

    def why_not_so_few(self, layout: HeadLayout) -> str:
        """Return why the method cannot leave so few of these heads; empty if it can."""
        units = units_of(layout)
        keep, least = heads_to_keep(self.keep, units), least_to_keep(self.by, units)
        if keep >= least:
            return ""
        able = (
            f"keep {least} or more"
            if least < layout.total
            else "none of these heads can be pruned; leave init_from.prune out"
        )
        return (
            f"prune.keep {self.keep}: that is {counted(keep, 'head')}, but {self.by} prunes one of two similar heads, "
            f"so each layer keeps its last head and the heads that share its keys and values; {able}, or take another "
            "method"
        )


class Start(InitialRun):
    """The run of the same seed that provides the initial weights; heads may be pruned or added back first.

    The optimizer and its learning rate start anew. Kept weights continue with the data where they left off; `fresh`
    weights have seen no data.
    """

    step: PositiveInt | Literal["last"] = "last"
    """step at which the other run's weights are taken"""
    prune: StartPruning | None = None
    """pruning of heads before training; null: none"""
    regrow: bool = False
    """whether pruned heads are added back with random weights, up to the heads that `model` declares"""
    weights: Literal["kept", "fresh", "rewound"] = "kept"
    """weights of the remaining heads and layers: trained (kept), re-initialised (fresh), or taken from step `rewind_to`
    (rewound)"""
    rewind_to: NonNegativeInt = 0
    """step of the other run to which weights are rewound; 0: initial weights"""

    @whole
    def _check_whole(self) -> None:
        if self.prune is not None and self.regrow:
            raise ValueError("prune and regrow were both given; use an arm for each")
        if self.rewind_to and self.weights != "rewound":
            raise ValueError(
                f"rewind_to {self.rewind_to} needs weights: rewound, but weights is {self.weights}; leave it out, or "
                "set weights"
            )
        if self.step != "last" and self.rewind_to > self.step:
            raise ValueError(f"rewind_to {self.rewind_to} is after step {self.step}; give an earlier one")
        if self.regrow and self.weights != "kept":
            raise ValueError(f"regrow needs weights: kept, but weights is {self.weights}; set it to kept")

    def pointless_reason(self, layout: HeadLayout, name: str, *, whole: bool) -> str:
        """Return why the requested start is impossible or without effect, as a sentence; empty if it can be done.

        Args:
            layout: the heads that `model` declares.
            name: the name of the other run's arm.
            whole: True if that run has all of these heads; otherwise, its heads are known only when the run begins.
        """
        if self.prune is None and self.weights == "fresh" and whole:
            return (
                f"nothing would be taken from {name}, since its weights are re-initialised and no head is pruned; "
                "leave init_from out, set init_from.prune, or keep the weights"
            )
        if self.prune is None and self.weights == "fresh" and self.step != "last":
            return (
                f"nothing would be taken from step {self.step:,} of {name}, since its weights are re-initialised and "
                "no head is pruned there; leave step out, or keep the weights"
            )
        return "" if self.prune is None or not whole else self.prune.why_not_so_few(layout)

    @property
    def required_checkpoints(self) -> tuple[int, ...]:
        """The steps of that run, beside its last, whose weights have to be stored there."""
        asked = {self.rewind_to} if self.weights == "rewound" else set()
        return tuple(sorted(asked | ({self.step} if self.step != "last" else set())))

    @property
    def sentence(self) -> str:
        """The changes made before training, in words; empty if there are none.

        Examples:
            >>> Start(run="run1-0", step=200, prune=StartPruning(by="taylor", keep=0.5), weights="fresh").sentence
            'at step 200, pruned by taylor to 50 %, weights re-initialised'
        """
        keep = "" if self.prune is None else self.prune.keep
        share = f"{100 * keep:g} %" if isinstance(keep, float) else f"{keep} heads" if isinstance(keep, int) else keep
        drawn = {
            "kept": "",
            "fresh": "weights re-initialised",
            "rewound": f"weights rewound to step {self.rewind_to:,}",
        }
        parts = (
            "" if self.step == "last" else f"at step {self.step:,}",
            "" if self.prune is None else f"pruned by {self.prune.by} to {share}",
            "lost heads re-initialised" if self.regrow else "",
            drawn[self.weights],
        )
        return ", ".join(filter(None, parts))
