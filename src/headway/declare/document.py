"""Declare: the top level of an experiment's file."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator, model_validator

from headway.declare.contrasts import contrasts_of
from headway.declare.kept_weights import Asked
from headway.declare.limits import LONGEST_NAME
from headway.declare.spec import Spec
from headway.declare.starts import starts_of
from headway.errors import near, shortened

PARTS = ("task", "model", "training", "evaluation", "probes", "samples", "after")
"""The keys of a document that make up a run; arms and controls override them."""

OF_ARMS = ("label", "start")
"""What an arm may say beside."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


MOST_SEEDS = 10_000


class Logging(Spec):
    """How often a run writes a line, and what it keeps on its way; it changes no result."""

    every: PositiveInt = Field(1_000, description="steps between logged training losses")
    weights: Asked = Field(
        (),
        description="steps whose weights are kept, as a list or as `{log_spaced: N}`, so that `headway look` shows "
        "circuits and patterns while it trained",
    )

    @field_validator("weights")
    @classmethod
    def _once(cls, weights: Asked) -> Asked:
        if isinstance(weights, tuple) and (twice := [step for step, n in Counter(weights).items() if n > 1]):
            raise ValueError(f"{twice[0]} stands twice; keep one")
        return weights


class Group(Spec):
    """Arms that are compared among themselves."""

    arms: tuple[str, ...] = Field(description="names of its arms")
    baseline: str = Field(description="the arm of the group that the others are compared with")


class Document(Spec):
    """The top level of an experiment's file."""

    name: str = Field(description="names the results directory")
    about: str = Field("", description="what `headway list` has it below")
    question: str = Field("", description="what the experiment is to answer, in a sentence")
    task: dict[str, Any] = Field(description="what the model is asked to do")
    model: dict[str, Any] = Field({}, description="the model, as far as all arms share it")
    training: dict[str, Any] = Field({}, description="how it is trained")
    evaluation: dict[str, Any] = Field({}, description="on what it is judged")
    probes: dict[str, Any] = Field({}, description="what is measured in the heads")
    samples: dict[str, Any] | None = Field({}, description="what the model writes before and after training")
    after: dict[str, Any] = Field({}, description="what is done to the trained model")
    logging: Logging = Field(Logging(), description="how often a run writes a line, and what it keeps")
    plugins: tuple[str, ...] = Field(
        (),
        description="code of your own, which is run: paths of files, from this one, or names that packages offer; see "
        "docs/your-own.md",
    )
    arms: dict[str, dict[str, Any] | None] = Field(
        description="what differs, by name; `label` names it in figures, and `start` another arm that it starts from"
    )
    controls: dict[str, dict[str, Any]] = Field({}, description="variations that cross the arms when asked for")
    groups: dict[str, Group] = Field({}, description="arms that are compared among themselves")
    contrasts: dict[str, Any] = Field(
        {},
        description="questions of your own, by name: `a - b`, `[a, [b, c]]` or `{better: a, than: [b, c]}` (arms, or "
        "means of arms; `*` stands for anything), or `{a: 1, b: -1}` (weights that add up to 0)",
    )
    baseline: str | None = Field(None, description="the arm that the others are compared with")
    verdicts: Literal["blocks", "paired"] = Field(
        "blocks",
        description="how arms are compared: all differences of a question judged together, or `paired`, each by a t "
        "test of its own, as by Headway before",
    )
    margin: Annotated[float, Field(gt=0, le=100)] = Field(
        1.0, description="what matters, in per cent: a difference that is certainly smaller counts as the same"
    )
    statements: bool = Field(False, description="whether the published statements on heads are judged by its probes")
    seeds: Annotated[int, Field(gt=0, le=MOST_SEEDS)] | tuple[NonNegativeInt, ...] = Field(
        3, description="how many seeds (0 to N - 1), or which"
    )
    scale: str | None = Field(None, description="the scale this document was resolved for (written by Headway)")
    scales: dict[str, dict[str, Any]] = Field({}, description="overrides by scale, chosen with --scale")

    def control_label(self, control: str) -> str:
        """What figures and sentences call a control."""
        return str(self.controls[control].get("label", control))

    @model_validator(mode="after")
    def _names(self) -> "Document":
        for name in [self.name, *self.arms, *self.controls, *self.scales]:
            if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
                raise ValueError(
                    f"name {shortened(repr(name))} becomes part of a path; use letters, digits, dashes and underscores"
                    + (f", at most {LONGEST_NAME}" if len(name) > LONGEST_NAME else "")
                )
        if not self.arms:
            raise ValueError("arms: an experiment needs at least one arm, such as `plain: {}`")
        self._check_scales()
        contrasts_of(self.contrasts, self.arms)
        self._check_groups()
        self._check_overrides()
        if isinstance(self.seeds, tuple) and (not self.seeds or len(set(self.seeds)) < len(self.seeds)):
            raise ValueError(f"seeds {list(self.seeds)} must be one or more different numbers")
        return self

    def _check_scales(self) -> None:
        for scale, content in self.scales.items():
            arms = content.get("arms") or {}
            if not isinstance(arms, Mapping):
                raise ValueError(
                    f"scales.{scale}.arms: {shortened(repr(arms))} was given; it is a mapping, arms by name"
                )
            for name in arms:
                if name not in self.arms:
                    raise ValueError(f"scales.{scale}.arms.{name}: there is no arm {name!r}; {near(name, self.arms)}")

    def _check_groups(self) -> None:
        for where, arm in [
            ("baseline", self.baseline),
            *((f"groups.{g}.baseline", group.baseline) for g, group in self.groups.items()),
            *((f"groups.{g}.arms", arm) for g, group in self.groups.items() for arm in group.arms),
        ]:
            if arm is not None and arm not in self.arms:
                raise ValueError(f"{where}: there is no arm {arm!r}; {near(arm, self.arms)}")
        for name, group in self.groups.items():
            if group.baseline not in group.arms:
                raise ValueError(f"groups.{name}.baseline: {group.baseline!r} is not an arm of the group; add it there")

    def _check_overrides(self) -> None:
        """Keys and labels of arms and controls."""
        named = [
            (f"{where}.{name}", value) for where in ("arms", "controls") for name, value in getattr(self, where).items()
        ]
        for where, value in named:
            if not isinstance((value or {}).get("label", ""), str):
                raise ValueError(f"{where}.label: {(value or {})['label']!r} was given; a label is text, in quotes")
            for key in value or {}:
                known = (*PARTS, *OF_ARMS) if where.startswith("arms.") else (*PARTS, "label")
                if key not in known:
                    raise ValueError(f"{where}.{key}: there is no such key; {near(key, known)}")
        starts_of(self.arms)
        labels = [str((arm or {}).get("label", name)) for name, arm in self.arms.items()]
        if twice := [label for label, count in Counter(labels).items() if count > 1]:
            raise ValueError(
                f"arms: two arms have the label {shortened(repr(twice[0]))}, and a figure could not tell them apart"
            )
