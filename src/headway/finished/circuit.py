"""Finished: how much of the loss of a text some heads of a finished model explain alone; what `headway.circuit` is."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import UserError, near
from headway.finished.batched_text import batched_text
from headway.finished.interventions import open_to_intervene
from headway.finished.two_texts import two_texts, with_targets
from headway.heads.causes.kinds import KINDS, Head, Kind

if TYPE_CHECKING:
    from headway.finished.opened import TokenIds
    from headway.heads.causes.faithful import Faithfulness
    from headway.model.intervenable import Intervenable
    from headway.model.transformer import Transformer


def circuit(
    model: "str | Path | Transformer",
    heads: Sequence[str],
    *,
    text: "str | Path | TokenIds",
    reference: "str | Path | TokenIds | None" = None,
    targets: "TokenIds | None" = None,
    kind: Kind = "mean",
    mean: str = "positions",
    draws: int = 50,
    tokenizer: str | None = None,
    sequences: int | None = None,
    length: int | None = None,
    device: str = "auto",
    seed: int = 0,
) -> "Faithfulness":
    """Take everything outside some heads away, and see how much of the loss they keep, beside random heads.

    Args:
        model: a path of a run, its checkpoint or a folder of Hugging Face; or one of Headway's models.
        heads: that stay, such as `["L0H3", "L1H0"]`.
        text: as of `headway.ablate`, like `reference`, `targets`, `tokenizer`, `sequences`, `length` and `device`.
        reference: see there.
        targets: see there.
        kind: what becomes of the other heads: `mean`, `zero` or `resample`.
        mean: what their mean is over, as of `headway.ablate`.
        draws: other circuits of as many heads, all different; all that there are where they are fewer.
        tokenizer: see there.
        sequences: see there.
        length: see there.
        device: see there.
        seed: of the random circuits, and of which sequences stand in for which.

    Raises:
        UserError: as `headway.ablate`; for heads that are not there, or all of them.
    """
    from headway.heads.causes.substitutes import check_mean_over

    over = check_mean_over(mean)
    if kind not in KINDS:
        raise UserError(f"kind {kind!r} is no way to take heads away; {near(str(kind), KINDS)}")
    opened, own = open_to_intervene(model, tokenizer, device)
    chosen = circuit_of(own, heads, draws)
    if targets is None:
        texts = two_texts(opened, text, reference, sequences=sequences, length=length)
    else:
        texts = with_targets(opened, text, targets, reference)
    work = batched_text(opened, own, texts, mean_over=over, seed=seed)
    return work.faithfulness(chosen, kinds=(kind,), draws=draws, seed=seed)[kind]


def circuit_of(model: "Intervenable", heads: Sequence[str], draws: int = 1) -> list[Head]:
    """Heads that somebody named, as a circuit of a model.

    Raises:
        UserError: for what is no head, and heads that are no circuit of it.
    """
    from headway.heads.causes.faithfulness import check_circuit

    found = [_head(name) for name in ([heads] if isinstance(heads, str) else heads)]
    check_circuit(model, found, draws)
    return found


def _head(name: str) -> Head:
    found = re.fullmatch(r"L(\d+)H(\d+)", str(name))
    if not found:
        raise UserError(f"heads: {name!r} is no head; write L0H3, layer and head from 0")
    return int(found[1]), int(found[2])
