"""Runs of transformers on tokens, and the settings that keep a run out of a batched program of many runs."""

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from operator import attrgetter, or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError

from headway.base.identity import digest, without
from headway.config.head_metrics import REPEATED
from headway.config.lm import budget
from headway.config.lm.head_units import heads_to_keep, spread_evenly, units_of
from headway.config.lm.init_from import Start
from headway.config.lm.measurement import PROMPT, AfterTraining, HeadProbes, Samples, TokensEvaluation, about_importance
from headway.config.lm.model import SOFTMAX, LanguageModel, TransformerModel
from headway.config.lm.synthetic import EndpointTask, HopsTask, InductionTask, ParityTask, RecallTask, RetrievalTask
from headway.config.lm.task import TokensTask
from headway.config.lm.text import TextTask
from headway.config.lm.training import TokensTraining
from headway.config.run import Batching, Budget, Comparability, RunSpec, Traits, effective
from headway.config.spec import Spec, check_numbers, renamed, whole
from headway.errors import DeclarationError

UNBATCHABLE: Mapping[str, tuple[Any, str]] = {
    "model.dropout": (0.0, "dropout draws from one random generator, which all runs of a process share"),
    "training.drophead": (None, "each run drops its own random heads at every step"),
    "training.regularizers": ((), "regularizers need activations of heads, which the batched program does not record"),
    "training.precision": ("fp32", "batched matrix products in bf16 round differently"),
    "training.optimizer": ("adamw", "only AdamW can update many runs at once"),
    "training.grad_accumulation": (1, "a run that has to split its batches is large enough to be trained alone"),
    "model.attention": (SOFTMAX, "torch may be unable to vectorise a custom attention function"),
    "init_from": (None, "runs initialised from other runs may differ in number of heads"),
}
"""Settings that keep a run out of a batched program: by key, the value that does not, and the reason.

Each is in docs/running.md.
"""


TASKS: dict[str, type[TokensTask]] = {
    "text": TextTask,
    "parity": ParityTask,
    "endpoint": EndpointTask,
    "retrieval": RetrievalTask,
    "hops": HopsTask,
    "recall": RecallTask,
    "induction": InductionTask,
}
"""The tasks of transformers on tokens, by kind; plugins add theirs."""

if TYPE_CHECKING:
    AnyTask = TokensTask
else:
    AnyTask = Annotated[reduce(or_, TASKS.values()), Field(discriminator="kind")]

_MODEL: TypeAdapter[TransformerModel] = TypeAdapter(LanguageModel)

_OWN = {
    "training": ("learning_rate", "warmup_steps", "lr_schedule", "clip", "betas", "eps", "weight_decay"),
    "model": ("init_std", "embedding_init_std", "factor_init"),
}
"""The settings in which runs of one batched program may differ, by part."""

_CHEAP = 4e7
"""The most forward operations of a cheap step; larger steps gain nothing from running side by side."""

TEXT_KEPT = 0.99
"""The least share of a text that its tokens have to give back, for bits per byte of that text."""


class TokensRun(RunSpec):
    """A run of a transformer on tokens."""

    traits: ClassVar[Traits] = Traits(
        laboratory="tokens",
        example="token",
        uses_gpu=True,
        initialises_others=True,
        measures_user_metrics=True,
        memory_advice="lower training.batch_size, or keep it and raise training.grad_accumulation",
    )

    task: AnyTask
    model: LanguageModel
    training: TokensTraining
    evaluation: TokensEvaluation = TokensEvaluation()
    """the held-out examples on which the model is evaluated"""
    probes: HeadProbes = HeadProbes()
    """metrics of heads that are measured during training"""
    samples: Samples | None = Samples()
    """texts that the model writes before and after training; null: none"""
    after: AfterTraining = AfterTraining()
    """measurements of the trained model"""
    init_from: Start | None = None
    """the run whose weights this run starts from; null: random initial weights"""

    @whole
    def _check_whole(self) -> None:
        check_numbers(0, self.training.batch_size * self.task.n_ctx * self.model.d_model, "")
        self.task.check_model(self.model)
        self.task.check_training(self.training)
        self._check_context()
        self._check_heads()
        self._check_start()

    def _check_context(self) -> None:
        if self.task.n_ctx > self.model.n_positions:
            raise ValueError(
                f"task.n_ctx {self.task.n_ctx} is longer than the model's {self.model.n_positions} positions; "
                "shorten it, or raise model.n_positions"
            )
        if self.samples is None:
            return
        if self.model.mask == "future":
            raise ValueError("model.mask is future, and such a model cannot generate text; set samples to null")
        if self.samples.prompt != PROMPT and (why := self.task.why_not_prompt(self.samples.prompt)):
            raise ValueError(f"samples.prompt {self.samples.prompt!r}: {why}")

    def _check_heads(self) -> None:
        chosen, most = self.probes.chosen, max(self.model.layout.n_heads)
        repeated = [metric for metric in chosen if metric in REPEATED]
        if repeated and self.task.n_ctx < 4:
            raise ValueError(
                f"probes: {repeated[0]} repeats random tokens, and task.n_ctx {self.task.n_ctx} has no room for two "
                "repeated tokens; raise task.n_ctx to 4 or more, or leave the metric out"
            )
        if chosen and most == 0:
            raise ValueError(f"probes: {chosen[0]} measures heads, but the model has none; leave probes out")
        pairs = [f"regularizers: {term.metric}" for term in self.training.regularizers]
        pairs += [] if self.training.drophead is None else ["drophead"]
        if pairs and most < 2:
            raise ValueError(
                f"training.{pairs[0]} needs a layer with two heads or more, but the heads are {self.model.layout}; "
                "raise model.n_heads, or leave it out"
            )
        asked = "after.ablate" if self.after.ablate is not None else "probes.importance"
        if (self.after.ablate is not None or self.probes.importance) and not self.model.layout.total:
            raise ValueError(f"{asked}: the model has no heads; leave it out")

    def _check_start(self) -> None:
        if self.init_from is None and self.training.steps == 0:
            raise ValueError("training.steps 0: only a run that starts from another may have 0; give 1 or more")
        if self.init_from is None:
            return
        if self.init_from.prune is not None:
            try:
                heads_to_keep(self.init_from.prune.keep, units_of(self.model.layout))
            except ValueError as error:
                raise ValueError(f"init_from.prune.{error}") from None
        if self.init_from.regrow and any(rank is not None for rank in dict(self.model.ranks).values()):
            raise ValueError("init_from.regrow does not work with model.ranks; leave one out")

    @cached_property
    def budget(self) -> Budget:
        """The cost of this run.

        Raises:
            DeclarationError: when the size of a vocabulary stands in a tokenizer's folder that cannot be read.
        """
        task, model = self.task, self.model
        return Budget(
            parameters=budget.parameters_by_part(model, task.vocab_size),
            flops_per_example=budget.forward_flops(model, task.vocab_size, task.n_ctx),
            tokens_per_example=task.n_ctx,
            state_bytes=budget.state_bytes(task, model, self.training),
            example_bytes=budget.sequence_bytes(task, model, self.training),
            batch_size=self.training.batch_size,
            parts=self.training.grad_accumulation,
            steps=self._expected_steps,
        )

    @property
    def declared_steps(self) -> int | None:
        """Optimizer steps, as far as they can be known without the data: None where epochs are given.

        Examples:
            >>> from headway.config.load import load
            >>> load("head-progression", scale="paper").arm("constant-low").spec(0).declared_steps
            >>> load("head-progression").arm("constant-low").spec(0).declared_steps
            1464
        """
        training = self.training
        if training.tokens is not None:
            return max(1, training.tokens // (training.batch_size * self.task.n_ctx))
        return training.steps

    @property
    def _expected_steps(self) -> int | None:
        """The number of steps, with an estimate where it counts epochs of a corpus."""
        sequences = self.task.expected_sequences
        if self.training.epochs is None or sequences is None:
            return self.declared_steps
        return max(1, int(self.training.epochs * sequences / self.training.batch_size))

    @property
    def scheme(self) -> str | None:
        """The change of the number of heads from layer to layer; None if pruning decides the heads."""
        return None if self.init_from is not None else self.model.layout.scheme

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the cost of importance probes, and about positions that are never trained."""
        n_ctx, n_positions = self.task.n_ctx, self.model.n_positions
        untrained = (
            ()
            if self.model.positions != "learned" or n_ctx == n_positions
            else (
                f"{n_positions - n_ctx:,} of {n_positions:,} learned positions are never trained, since task.n_ctx is "
                f"{n_ctx:,}; model.n_positions {n_ctx} would leave them out",
            )
        )
        return (*about_importance(self.probes, self.training, self._expected_steps), *untrained)

    @cached_property
    def batching(self) -> Batching:
        """The settings that keep this run out of a batched program, keys of `UNBATCHABLE`; its key if there is none."""
        plain = ((key, value == attrgetter(key)(self), reason) for key, (value, reason) in UNBATCHABLE.items())
        obstacles = tuple(f"{key}: {reason}" for key, is_plain, reason in plain if not is_plain)
        content = without(self.content(), "seed")
        for part, own in _OWN.items():
            content[part] = without(content[part], *own)
        return Batching(
            key=None if obstacles else digest({**content, "steps": self.declared_steps}),
            obstacles=obstacles,
            # Examples are drawn, and a step takes at most some million operations.
            is_cheap=not self.task.corpora and self.budget.flops_per_example * self.training.batch_size <= _CHEAP,
        )

    @property
    def comparability(self) -> Comparability:
        """The task, its texts and tokenizer, and whether the model sees its targets."""
        units = tuple(getattr(self.task, key, None) for key in ("tokenizer", "corpus", "validation"))
        return Comparability(task=self.task, units=units, sees_targets=self.model.mask == "future")


def is_text(run: RunSpec) -> bool:
    """Return whether a run predicts the next token of a corpus, and not the answers of a synthetic task."""
    return getattr(run.task, "corpus", None) is not None


R = TypeVar("R", bound=RunSpec)


def with_model(run: R, model: Spec) -> R:
    """Return a run with another model, which is not validated: what is asked of heads is asked of declared heads."""
    # Made anew, since a copy would keep the budget that was counted.
    fields: dict[str, Any] = {name: getattr(run, name) for name in type(run).model_fields}
    return cast(R, type(run).model_construct(**fields | {"model": model}))


def initialised_from(run: RunSpec, other: RunSpec) -> RunSpec:
    """Return a run with the number of heads it is expected to have when it is initialised from another.

    Heads that go are taken from all layers alike, since the real choice is not known yet.
    """
    assert isinstance(run, TokensRun)
    assert run.init_from is not None
    if run.init_from.prune is not None:
        heads = heads_to_keep(run.init_from.prune.keep, units_of(run.model.layout))
        return with_model(run, spread_evenly(run.model, heads))
    return with_model(run, run.model if run.init_from.regrow else other.model)


def as_trained(run: R, beginning: Mapping[str, Any] | None) -> R:
    """Return a run with the heads that it began with, which its folder records; None: those that were declared.

    Raises:
        DeclarationError: when that is not what a run wrote.
    """
    if beginning is None:
        return run
    try:
        model = _MODEL.validate_python(renamed(beginning)["model"], strict=False)
    except (KeyError, TypeError, ValidationError) as error:
        raise DeclarationError(f"its record of the initial model is damaged ({type(error).__name__})") from None
    return with_model(run, model)


def impossible_init(run: RunSpec, other: RunSpec, name: str) -> str:
    """Return why a run cannot be initialised from another: another model or task, or a step never reached; else empty.

    Args:
        run: the run that is to start.
        other: the run whose weights it takes.
        name: the name of the other run's arm.
    """
    assert isinstance(run, TokensRun)
    assert run.init_from is not None
    mine, theirs = effective(run), effective(other)
    for part in ("model", "task"):
        if mine[part] != theirs[part]:
            return (
                f"its {part} is not that of {name}, so weights would not fit; set init_from.prune, which chooses the "
                f"heads, and give both arms the same {part}"
            )
    steps = other.declared_steps
    late = [step for step in run.init_from.required_checkpoints if steps is not None and step > steps]
    return f"step {late[0]:,} of {name} is asked for, and that is trained for {steps:,} steps" if late else ""


def pointless_init(run: RunSpec, ancestors: Sequence[RunSpec], name: str) -> str:
    """Return why a start should not be declared: it takes nothing over, or prunes more heads than it can; else empty.

    Directories that have such runs are still read.

    Args:
        run: the run that is to start.
        ancestors: the runs that it starts from, one after the other, the first of all first.
        name: the name of the last of these runs' arm.
    """
    assert isinstance(run, TokensRun)
    assert run.init_from is not None
    starts = [other.init_from for other in ancestors if isinstance(other, TokensRun)]
    whole = all(start is None or start.prune is None for start in starts)
    return run.init_from.pointless_reason(run.model.layout, name, whole=whole)
