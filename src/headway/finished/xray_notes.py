"""Finished: what limits the numbers of an x-ray, in sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from headway.declare.head_metrics import REPEATED
from headway.finished.opened import Opened
from headway.heads.model_on_text import AttentionHeads, labels_of
from headway.heads.names import metric_name
from headway.words import counted, listed

if TYPE_CHECKING:
    from headway.heads.scores import HeadScores


@dataclass(frozen=True, kw_only=True)
class XRayNotes:
    """What limits the numbers, in sentences."""

    said: list[str] = field(default_factory=list)

    def about_text(
        self, tokens: np.ndarray, length: int, sequences: int, attentions: tuple[AttentionHeads, ...]
    ) -> None:
        """Whether the text was shorter than asked for, too short to say much, and which layers have one head."""
        n_tokens = len(tokens) * tokens.shape[1]
        if tokens.shape[1] < length:
            self.said.append(f"the text has only {n_tokens:,} tokens: one sequence that is shorter than {length:,}")
        elif len(tokens) < sequences:
            self.said.append(f"the text gives only {len(tokens)} of {sequences} sequences of {length:,} tokens")
        wide = widest(attentions)
        if n_tokens < 2 * wide:
            self.said.append(
                f"on {n_tokens:,} positions heads that are {wide} wide look much alike whatever they do: give more text"
            )
        alone = sum(attention.n_heads == 1 for attention in attentions)
        if alone:
            self.said.append(
                f"{alone} of {len(attentions)} attentions have one head: a metric of pairs needs two heads"
            )

    def about_circuits(self, scores: "Mapping[str, HeadScores]") -> None:
        """What of circuits is not known of a model that others wrote."""
        of_text = scores["sink_score"].values
        plain = scores["qk_effective_rank"].values if "qk_effective_rank" in scores else {}
        if not plain:
            self.said.append(
                "circuits are not measured: the queries, keys and values of this model are no plain linear maps of the "
                "stream that its heads read"
            )
            return
        some = "" if len(plain) == len(of_text) else f" of {len(plain)} of {len(of_text)} attentions, the plain ones,"
        self.said.append(
            f"circuits{some} are read off W_Q, W_K, W_V and W_O as they read the normed stream; copying scores and "
            "composition, which need the norms between layers too, are those of Headway's own models"
        )

    def drawable(self, opened: Opened, tokens: np.ndarray, draws: int) -> int:
        """How many draws there are: none of a model that was brought without its matrices."""
        if not draws or not opened.brought:
            return draws
        if all(attention.plain is not None for attention in opened.reading(tokens[:1]).trace.attentions):
            return draws
        self.said.append(
            "no heads were drawn anew: the attentions that were brought do not say their matrices, as those of "
            "headway.plain_attention do"
        )
        return 0

    def about_draws(
        self,
        draws: int,
        attentions: Sequence[AttentionHeads],
        scores: "Mapping[str, HeadScores]",
        *,
        shuffled: bool,
    ) -> None:
        """What untrained heads are like here, and where they were not drawn."""
        if not draws:
            if any(note.startswith("no heads were drawn anew") for note in self.said):
                return
            self.said.append("no heads were drawn anew (draws 0): what stands out of untrained heads cannot be said")
            return
        if draws < 4:
            self.said.append(f"{counted(draws, 'draw')} of untrained heads: too few to say what stands out; give 4")
        if shuffled:
            self.said.append(
                "queries, keys and values come out of one matrix here: untrained heads have the entries of each of its "
                "rows shuffled, where others' are drawn"
            )
        wide = [at for at in attentions if at.n_heads > 1 and at.name not in scores["query_cka"].draws]
        if wide:
            labels = labels_of(attentions)
            pairs = listed([labels[at.name] for at in wide])
            self.said.append(f"pairs of {pairs} are not held against untrained ones: they are too many")

    def about_windows(self, attentions: Sequence[AttentionHeads], scores: "Mapping[str, HeadScores]") -> None:
        """Where windows hide what repeated tokens are there to show."""
        labels = labels_of(attentions)
        for metric in REPEATED:
            seen = scores[metric].values if metric in scores else {}
            hidden = [at for at in attentions if at.name not in seen or not np.isfinite(seen[at.name]).any()]
            if hidden:
                where = listed([labels[at.name] for at in hidden])
                called = metric_name(metric)
                self.said.append(f"{called} cannot be seen in {where}: its window hides what is looked for")


def widest(attentions: Sequence[AttentionHeads]) -> int:
    """The d_head of the widest heads that are compared with others."""
    return max((attention.d_head for attention in attentions if attention.n_heads > 1), default=0)
