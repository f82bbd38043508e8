"""Runs of transformers on tokens, and the settings that keep a run out of a batched program of many runs."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from headway.base.identity import digest
from headway.config.head_metrics import REPEATED
from headway.config.lm import budget
from headway.config.lm.head_units import heads_to_keep, spread_evenly, units_of
from headway.config.lm.init_from import Start
from headway.config.lm.measurement import PROMPT, AfterTraining, HeadProbes, Samples, TokensEvaluation, about_importance
from headway.config.lm.model import SOFTMAX, LanguageModel, TransformerModel
from headway.config.lm.task import TokensTask
from headway.config.lm.tasks import TASKS, any_of
from headway.config.lm.training import TokensTraining
from headway.config.run import Budget, RunSpec
from headway.config.spec import check_numbers
from headway.errors import DeclarationError

ALONE: Mapping[str, tuple[str, Callable[["TokensRun"], bool]]] = {
    "model.dropout": (
        "dropout draws while it computes, from one generator of the process",
        lambda run: bool(run.model.dropout),
    ),
    "training.drophead": (
        "the heads that are dropped are drawn for each step of each run",
        lambda run: run.training.drophead is not None,
    ),
    "training.regularizers": (
        "regularizers read what every head does, which the batched program does not record",
        lambda run: bool(run.training.regularizers),
    ),
    "training.precision": (
        "bf16 rounds products of matrices otherwise where they are batched",
        lambda run: run.training.precision != "fp32",
    ),
    "training.optimizer": (
        "only AdamW's step is written for many runs at once",
        lambda run: run.training.optimizer != "adamw",
    ),
    "training.accumulate": (
        "a batch that is put through in parts is one that is large enough alone",
        lambda run: run.training.accumulate > 1,
    ),
    "model.attention": (
        "an attention of one's own need not be one that torch can batch over weights",
        lambda run: run.model.attention != SOFTMAX,
    ),
    "start": (
        "runs that start from others may each have heads of their own",
        lambda run: run.start is not None,
    ),
}
"""Settings that keep a run out of a batched program: by key, the reason and the test. Each is in docs/running.md."""


def why_alone(run: "TokensRun") -> tuple[str, ...]:
    """Return why a run is trained alone, by key with its reason; none if it can be batched."""
    return tuple(f"{key}: {reason}" for key, (reason, has) in ALONE.items() if has(run))


if TYPE_CHECKING:
    AnyTask = TokensTask
else:
    AnyTask = any_of(TASKS)

_MODEL: TypeAdapter[TransformerModel] = TypeAdapter(LanguageModel)

PER_BYTE = "eval_bits_per_byte"
"""The metric that compares arms with different tokens."""

_OWN = {
    "training": ("learning_rate", "warmup_steps", "decay", "clip", "betas", "eps", "weight_decay"),
    "model": ("init_std", "embedding_init_std", "factor_init"),
}
"""The settings in which runs of one batched program may differ, by part."""

_SMALL = 4e7
"""The most forward operations of a cheap step; larger steps gain nothing from running side by side."""

TEXT_KEPT = 0.99
"""The least share of a text that its tokens have to give back, for bits per byte of that text."""


class TokensRun(RunSpec):
    """A run of a transformer on tokens."""

    laboratory: ClassVar[str] = "tokens"
    example: ClassVar[str] = "token"
    uses_gpu: ClassVar[bool] = True
    starts_others: ClassVar[bool] = True
    measures_own: ClassVar[bool] = True
    saves_memory: ClassVar[str] = "lower training.batch_size, or keep it and raise training.accumulate"

    task: AnyTask
    model: LanguageModel
    training: TokensTraining
    evaluation: TokensEvaluation = Field(TokensEvaluation(), description="on what the run is judged")
    probes: HeadProbes = Field(HeadProbes(), description="what is measured in the heads")
    samples: Samples | None = Field(Samples(), description="what the model writes before and after; null: nothing")
    after: AfterTraining = Field(AfterTraining(), description="what is done to the trained model")
    start: Start | None = Field(None, description="another run that it starts from; null: its initial weights")

    @model_validator(mode="after")
    def _size(self) -> "TokensRun":
        check_numbers(0, self.training.batch_size * self.task.n_ctx * self.model.d_model, "")
        return self

    @model_validator(mode="after")
    def _expressible(self) -> "TokensRun":
        self.task.check_model(self.model)
        self.task.check_training(self.training)
        return self

    @model_validator(mode="after")
    def _context(self) -> "TokensRun":
        if self.task.n_ctx > self.model.n_positions:
            raise ValueError(
                f"task.n_ctx {self.task.n_ctx} is longer than the model's {self.model.n_positions} positions; "
                "shorten it, or raise model.n_positions"
            )
        if self.model.attends == "future" and self.samples is not None:
            raise ValueError(
                "model.attends is future, and such a model cannot write: the text that it would look at is not there "
                "yet; set samples to null"
            )
        asked = self.samples is not None and self.samples.prompt != PROMPT
        if self.samples is not None and asked and (why := self.task.why_not_prompt(self.samples.prompt)):
            raise ValueError(f"samples.prompt {self.samples.prompt!r}: {why}")
        return self

    @model_validator(mode="after")
    def _heads_to_measure(self) -> "TokensRun":
        chosen, most = self.probes.chosen, max(self.model.layout.n_heads)
        repeated = [metric for metric in chosen if metric in REPEATED]
        if repeated and self.task.n_ctx < 4:
            raise ValueError(
                f"probes: {repeated[0]} repeats random tokens, and task.n_ctx {self.task.n_ctx} has no room for two "
                "of them twice; raise task.n_ctx to 4 or more, or leave the metric out"
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
        return self

    @model_validator(mode="after")
    def _begins(self) -> "TokensRun":
        if self.start is None and self.training.steps == 0:
            raise ValueError("training.steps 0: only a run that starts from another need not train; give 1 or more")
        if self.start is None:
            return self
        if self.start.prune is not None:
            try:
                heads_to_keep(self.start.prune.keep, units_of(self.model.layout))
            except ValueError as error:
                raise ValueError(f"start.prune.{error}") from None
        if self.start.regrow and any(rank is not None for rank in dict(self.model.ranks).values()):
            raise ValueError("start.regrow adds heads to whole matrices, and model.ranks has products; leave one out")
        return self

    @model_validator(mode="after")
    def _heads_to_ablate(self) -> "TokensRun":
        asked = "after.ablate" if self.after.ablate is not None else "probes.importance"
        if (self.after.ablate is not None or self.probes.importance) and not self.model.layout.total:
            raise ValueError(f"{asked}: it is of heads, but the model has none; leave it out")
        return self

    def effective(self) -> dict[str, Any]:
        """Return the content without choices of the model that have no effect in this run."""
        content = self.content()
        kept = {key: value for key, value in content["model"].items() if key not in self.model.idle}
        return {**content, "model": kept}

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
            training_bytes=budget.training_bytes(task, model, self.training),
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
    def expected_steps(self) -> int | None:
        """The number of steps, with an estimate where it counts epochs of a corpus."""
        sequences = self.task.expected_sequences
        if self.training.epochs is None or sequences is None:
            return self.declared_steps
        return max(1, int(self.training.epochs * sequences / self.training.batch_size))

    @property
    def tokens_per_step(self) -> int:
        """Tokens that a step trains on, padding among them."""
        return self.training.batch_size * self.task.n_ctx

    @property
    def n_ctx(self) -> int:
        """Tokens of a training sequence."""
        return self.task.n_ctx

    @property
    def heads(self) -> str:
        """The heads of each layer, before pruning by a run that starts from another."""
        return str(self.model.layout)

    @property
    def scheme(self) -> str | None:
        """The change of the number of heads from layer to layer; None if pruning decides the heads."""
        return None if self.start is not None else self.model.layout.scheme

    @property
    def parent(self) -> str | None:
        """The id of the run that it starts from."""
        return None if self.start is None else self.start.run

    def at_seed(self, seed: int, parent: str | None = None) -> "TokensRun":
        """Return this run with another seed and the id of that seed's parent run, as `RunSpec.at_seed` asks."""
        start = self.start if parent is None or self.start is None else self.start.model_copy(update={"run": parent})
        return self.model_copy(update={"seed": seed, "start": start})

    def starting_from(self, parent: RunSpec) -> "TokensRun":
        """Return this run with the number of heads it is expected to have after pruning.

        Heads that go are taken from all layers alike, since the real choice is not known yet.
        """
        assert isinstance(parent, TokensRun)
        assert self.start is not None
        if self.start.prune is not None:
            heads = heads_to_keep(self.start.prune.keep, units_of(self.model.layout))
            model = spread_evenly(self.model, heads)
        else:
            model = self.model if self.start.regrow else parent.model
        return self._with(model)

    def trained_as(self, beginning: Mapping[str, Any] | None) -> "TokensRun":
        """Return this run with the heads that pruning left, which its folder records."""
        if beginning is None:
            return self
        try:
            model = _MODEL.validate_python(beginning["model"], strict=False)
        except (KeyError, TypeError, ValidationError) as error:
            raise DeclarationError(f"what is said of how it began is no model ({type(error).__name__})") from None
        return self._with(model)

    def _with(self, model: TransformerModel) -> "TokensRun":
        # Made anew, since a copy would keep the budget that was counted; and not validated, since what is asked of
        # heads is asked of those that were declared.
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_construct(**fields | {"model": model})

    def why_not_from(self, parent: RunSpec, name: str) -> str:
        """Return why this run cannot start from another: a different model or task, or a step never reached.

        The sentence is empty if the run can start there, as in `RunSpec.why_not_from`.
        """
        assert self.start is not None
        mine, theirs = self.effective(), parent.effective()
        for part in ("model", "task"):
            if mine[part] != theirs[part]:
                return (
                    f"its {part} is not that of {name}, so that weights would not fit; say in start.prune what becomes "
                    f"of the heads, and give both arms one {part}"
                )
        steps = parent.declared_steps
        late = [step for step in self.start.stored_steps if steps is not None and step > steps]
        return f"step {late[0]:,} of {name} is asked for, and that is trained for {steps:,} steps" if late else ""

    def why_not_anew(self, ancestors: Sequence[RunSpec], name: str) -> str:
        """Return why this start should not be declared: it takes nothing over, or prunes more heads than possible.

        The sentence is empty if the start is sound, as in `RunSpec.why_not_anew`.
        """
        if self.start is None:
            return ""
        runs = [run for run in ancestors if isinstance(run, TokensRun)]
        whole = all(run.start is None or run.start.prune is None for run in runs)
        return self.start.why_not_anew(self.model.layout, name, whole=whole)

    @property
    def stored_for(self) -> tuple[int, ...]:
        """The steps of the parent run whose weights have to be stored there."""
        return () if self.start is None else self.start.stored_steps

    @property
    def beginning(self) -> str:
        """The changes that are made to the parent's weights, in words."""
        return "" if self.start is None else self.start.sentence

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about the cost of importance probes, and about positions that are never trained."""
        return (*about_importance(self.probes, self.training, self.expected_steps), *self._about_positions())

    def _about_positions(self) -> tuple[str, ...]:
        n_ctx, n_positions = self.task.n_ctx, self.model.n_positions
        if self.model.positions != "learned" or n_ctx == n_positions:
            return ()
        return (
            f"{n_positions - n_ctx:,} of {n_positions:,} learned positions are never trained, since task.n_ctx is "
            f"{n_ctx:,}; model.n_positions {n_ctx} would leave them out",
        )

    @property
    def shape(self) -> str | None:
        """The key of runs that can be trained as one batched program; None if a setting in `ALONE` forbids it."""
        if self.trained_alone:
            return None
        content = {key: value for key, value in self.content().items() if key != "seed"}
        for part, own in _OWN.items():
            content[part] = {key: value for key, value in content[part].items() if key not in own}
        return digest({**content, "steps": self.declared_steps})

    @property
    def trained_alone(self) -> tuple[str, ...]:
        """The settings that keep this run out of a batched program: keys of `ALONE`."""
        return why_alone(self)

    @property
    def small(self) -> bool:
        """True if examples are drawn and a step takes at most some million operations."""
        return not self.corpora and self.budget.flops_per_example * self.training.batch_size <= _SMALL

    @property
    def best_possible(self) -> Mapping[str, float]:
        """The bounds that the task states for the model, by metric."""
        return self.task.best_possible(self.model)

    @property
    def corpora(self) -> tuple[str, ...]:
        """The corpora that sequences are made from."""
        return self.task.corpora

    @property
    def files(self) -> tuple[Path, ...]:
        """The user's files that the task reads."""
        return self.task.files

    def has_units_of(self, other: RunSpec) -> bool:
        """Return whether both runs predict tokens of one tokenizer and corpus."""
        return texts_of(self) == texts_of(other)

    def no_merit(self, other: RunSpec, metric: str) -> str:
        """Return why a difference says nothing: one run sees its target token, or the tasks differ; else empty."""
        assert isinstance(other, TokensRun)
        # With bits per byte, another tokenizer is only another way to do one task.
        free = ("tokenizer",) if metric == PER_BYTE else ()
        mine, theirs = ({k: v for k, v in run.content()["task"].items() if k not in free} for run in (self, other))
        if mine != theirs:
            return "they are judged on different tasks"
        if self.model.attends != other.model.attends:
            return "one of them sees the token that it is to predict"
        return ""

    @classmethod
    def compared_by(cls, runs: Sequence[RunSpec]) -> str:
        """Return bits per byte if arms differ in tokenizer or corpus, since their nats per token are different units.

        Examples:
            >>> from headway.config.load import load
            >>> load("head-progression").primary
            'eval_loss_nats'
        """
        return PER_BYTE if len({texts_of(run) for run in runs}) > 1 else super().compared_by(runs)

    def fitting_batch(self, bytes_available: int) -> int | None:
        """Return the largest batch whose estimate fits into memory in the present number of parts."""
        return budget.fitting_batch(self.task, self.model, self.training, bytes_available)


def texts_of(run: RunSpec) -> tuple[object, ...]:
    """Return the tokenizer, corpus and validation set of a run; None for each that it does not have."""
    return tuple(getattr(run.task, key, None) for key in ("tokenizer", "corpus", "validation"))


def is_text(run: RunSpec) -> bool:
    """Return whether a run predicts the next token of a corpus, and not the answers of a synthetic task."""
    return texts_of(run)[1] is not None
