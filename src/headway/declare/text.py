"""Declare: language modelling on a corpus: its tokens, on what a model is judged, and what it writes."""

import json
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from headway.declare.head_metrics import HEAD_METRICS
from headway.declare.spec import Spec
from headway.errors import DeclarationError, near

CORPORA = ("stories", "tinystories")
"""Corpora that are known by name."""

TOKENIZERS = ("bytes", "gpt2", "bpe-N")
"""Tokenizers that are known by name, N a size of the vocabulary."""


class TextTask(Spec):
    """Predict the next token of a corpus."""

    kind: Literal["text"]
    corpus: str = Field(
        description="`stories` (Headway's own grammar), `tinystories` (from the hub), or the path of a file or folder, "
        "from the working directory"
    )
    validation: str | None = Field(None, description="a corpus that is held out; null: held_out of the corpus")
    held_out: float = Field(0.01, gt=0, lt=1, description="share of the documents that are held out")
    stories: PositiveInt | None = Field(
        None, description="documents that are taken, the held-out ones among them; null: all (20,000 of `stories`)"
    )
    tokenizer: str = Field(
        "bytes",
        description="`bytes`, `bpe-4096` (trained on the corpus), `gpt2` (from the hub), or the path of a folder, from "
        "the working directory, with vocab.json and merges.txt or tokenizer.json",
    )
    n_ctx: PositiveInt = Field(description="tokens of a training sequence")
    padding: Literal["packed", "published"] = Field(
        "packed", description="packed: documents one after the other; published: padded, and never told to stop"
    )

    @model_validator(mode="after")
    def _names_known(self) -> "TextTask":
        bpe = re.fullmatch(r"bpe-([0-9]{1,9})", self.tokenizer)
        if bpe and int(bpe[1]) < 258:
            raise ValueError(
                f"tokenizer {self.tokenizer}: a byte-level BPE needs 258 tokens or more (256 bytes, the end of a "
                "text, a merge); `bytes` takes 257"
            )
        if not bpe and self.tokenizer not in ("bytes", "gpt2") and not _is_path(self.tokenizer):
            raise ValueError(
                f"tokenizer {self.tokenizer!r} is not known; {near(self.tokenizer, TOKENIZERS)}; a folder is given by "
                f"a path with a slash, such as ./{self.tokenizer or 'gpt2'}"
            )
        corpora = [("corpus", self.corpus)] + ([] if self.validation is None else [("validation", self.validation)])
        for key, corpus in corpora:
            if corpus not in CORPORA and not _is_path(corpus) and "." not in corpus:
                raise ValueError(
                    f"{key} {corpus!r} is not known; {near(corpus, CORPORA)}; a folder is given by a path with a "
                    f"slash, such as ./{corpus or 'texts'}"
                )
        if self.validation is not None and self.held_out != type(self).model_fields["held_out"].default:
            raise ValueError(
                f"held_out {self.held_out} would change nothing, since validation {self.validation} is held out "
                "already; give one of them"
            )
        return self

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary.

        Raises:
            DeclarationError: when the tokenizer's folder cannot be read.
        """
        if self.tokenizer in ("bytes", "gpt2"):
            return {"bytes": 257, "gpt2": 50257}[self.tokenizer]
        if bpe := re.fullmatch(r"bpe-([0-9]+)", self.tokenizer):
            return int(bpe[1])
        return _vocab_size(Path(self.tokenizer).expanduser())


def _is_path(text: str) -> bool:
    # Not by looking whether it is there: what a stored run says must mean the same in every directory.
    return "/" in text or "\\" in text


def _vocab_size(folder: Path) -> int:
    try:
        if (folder / "tokenizer.json").is_file():
            content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
            ids = [*content["model"]["vocab"].values(), *(token["id"] for token in content.get("added_tokens", ()))]
        else:
            ids = list(json.loads((folder / "vocab.json").read_text(encoding="utf-8")).values())
        return max(ids) + 1
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DeclarationError(
            f"task.tokenizer: {str(folder)!r} is neither bytes, bpe-N, gpt2, nor a folder with a vocab.json and a "
            "merges.txt, or a tokenizer.json"
        ) from None


class TextEvaluation(Spec):
    """The fixed held-out sequences a language model is judged on; they depend on the task alone."""

    every: PositiveInt = Field(1_000, description="steps between evaluations during training")
    sequences_during: PositiveInt = Field(64, description="sequences of an evaluation during training")
    sequences: PositiveInt | None = Field(None, description="sequences of the final evaluation; null: all held out")


class Samples(Spec):
    """What a model is made to write before and after training."""

    prompt: str = Field("Once upon a time there was", description="how the text begins")
    tokens: PositiveInt = Field(500, description="tokens that are written, within the model's longest context")
    temperature: float = Field(0.9, ge=0, description="divides the logits; 0: always the likeliest token")
    top_k: PositiveInt | None = Field(None, description="only the k likeliest tokens; null: all")
    top_p: float | None = Field(None, gt=0, le=1, description="only the likeliest tokens of this joint probability")
    count: PositiveInt = Field(1, description="texts")


def _known(metric: str) -> str:
    if metric not in HEAD_METRICS:
        raise ValueError(f"{metric!r} is no metric of heads; {near(metric, HEAD_METRICS)}")
    return metric


class TextProbes(Spec):
    """What is measured in the heads while a language model trains: families of metrics, single ones, or nothing.

    The batch is a fixed one of held-out text, of random tokens for what needs repetition; measuring changes nothing in
    training.
    """

    every: PositiveInt = Field(500, description="steps between probes; the first and the last step are probed too")
    dense_until: NonNegativeInt = Field(0, description="every step up to this one is probed")
    sequences: PositiveInt = Field(8, description="held-out sequences, the same at every probe and for every seed")
    diversity: bool = Field(False, description="how alike a layer's heads are, raw and normalised")
    patterns: bool = Field(
        False, description="what heads attend to: entropy, sink, previous token, induction and others"
    )
    circuits: bool = Field(False, description="what the weights alone say: effective ranks and copying")
    published: bool = Field(False, description="metrics as a published code computes them, for comparison")
    metrics: tuple[
        Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": list(HEAD_METRICS)})], ...
    ] = Field((), description="single metrics by name, beside the families")

    @field_validator("metrics")
    @classmethod
    def _once(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [metric for metric in metrics if metrics.count(metric) > 1]:
            raise ValueError(f"{twice[0]} stands twice; keep one")
        return metrics

    @property
    def chosen(self) -> tuple[str, ...]:
        """The metrics that are measured, in their declared order; empty when nothing is."""
        return tuple(
            metric.name
            for metric in HEAD_METRICS.values()
            if getattr(self, metric.family) or metric.name in self.metrics
        )
