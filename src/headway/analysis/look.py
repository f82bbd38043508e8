"""The data of the page of `headway look`: the heads of finished models, for a reader who picks one.

`look` is `headway.look` and its verb. It traces patterns sequence by sequence and packs them at once, until the page
would be too large; the page names what was left out. The numbers are those of an x-ray on the same text.

`kept_steps` reads the steps whose weights a run kept: circuits, compositions, and as many patterns as fit.
`models_in` and `first_of_arms` choose the models of a page.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.analysis import look_tokens
from headway.analysis.evaluation import evaluating
from headway.analysis.inputs import TextInput, one_input, positive
from headway.analysis.model import Opened, model_folder
from headway.analysis.open import open_model
from headway.analysis.xray import LENGTH as XRAY_LENGTH
from headway.analysis.xray import is_too_few, measured, short_text_xray
from headway.base.words import say
from headway.config.spec import MOST_MODELS
from headway.errors import UserError
from headway.heads.results import KeptStep, ModelView, PackedPatterns, XRay
from headway.store.run import Run

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from headway.analysis.model import TokenIds


_SMOOTHER = 2
"""The factor by which early patterns pack better, at best."""


def kept_steps(
    run: "Run | None",
    steps: Sequence[int],
    seen: look_tokens.SeenModel,
    shown: look_tokens.ShownPatterns,
    tokens: Sequence[int],
    *,
    below: str,
    composed: bool,
) -> tuple[tuple[KeptStep, ...], tuple[str, ...]]:
    """Open the run's model at each of these steps; return what the page shows of it, and what was left out.

    Args:
        run: the run that trained the model; None: a model without kept weights.
        steps: the steps whose weights the run kept.
        seen: the finished model.
        shown: the shown patterns, and the room that they left.
        tokens: the tokens between which circuits are read.
        below: the reason why there is no more room, in words.
        composed: True to compute compositions.

    Raises:
        ResultsError: when kept weights are damaged.
    """
    from headway.heads.token_circuits import compositions, token_circuits

    if run is None or not steps:
        return (), ()
    n = _fitting(shown, len(steps))
    found = []
    for step in steps:
        then, patterns = _at(run, step, seen), dict[tuple[str, int], PackedPatterns]()
        own = then.opened.own
        for at, sequence in enumerate(shown.sequences[:n]):
            patterns |= {(name, at): packed for name, packed in then.packed(sequence).items()}
        composition = compositions(own) if composed else None
        found.append(
            KeptStep(step=step, circuits=token_circuits(own, tokens), composition=composition, patterns=patterns)
        )
    fitted = _cut(found, n, shown.room)
    few, many = max((1 + at for step in fitted for _, at in step.patterns), default=0), len(shown.sequences)
    if few == many:
        return fitted, ()
    kind = "kept_in_training" if few else "none_in_training"
    return fitted, (say(kind, n=few, all=many, below=below),)


def _at(run: "Run", step: int, seen: look_tokens.SeenModel) -> look_tokens.SeenModel:
    """The model as it was at a step, to be seen as the finished one is."""
    model = run.model(step).to(next(seen.opened.module.parameters()).device).eval()
    return replace(seen, opened=replace(seen.opened, module=model, ours=model, traced=model.trace))


def _fitting(shown: look_tokens.ShownPatterns, n_steps: int) -> int:
    """Return how many sequences may fit at every step; early, smooth patterns pack better than those of the end."""
    left = _SMOOTHER * shown.room
    for at in range(len(shown.sequences)):
        left -= n_steps * sum(len(packed.data) for (_, number), packed in shown.patterns.items() if number == at)
        if left < 0:
            return at
    return len(shown.sequences)


def _cut(steps: Sequence[KeptStep], n: int, room: int) -> tuple[KeptStep, ...]:
    """Return the steps with the patterns of only as many sequences as fit."""
    while n and sum(len(packed.data) for step in steps for packed in step.patterns.values()) > room:
        n -= 1
        steps = [
            replace(step, patterns={key: packed for key, packed in step.patterns.items() if key[1] < n})
            for step in steps
        ]
    return tuple(steps)


EXPERIMENT = "experiment.yaml"
"""The file that every results directory has."""


def models_in(paths: Sequence[Path]) -> list[Path]:
    """Return the models of a page: paths as they are, and, for a results directory, a finished run of each arm.

    Raises:
        UserError: if a results directory has no finished run of a language model, or a page cannot hold so many models.
    """
    found = [model for path in paths for model in (_of_arms(path) if (path / EXPERIMENT).is_file() else [path])]
    check_number(found)
    return found


def check_number(found: Sequence[Path]) -> None:
    """Raise UserError if one page cannot hold all the models.

    Raises:
        UserError: when they are too many.
    """
    if len(found) > MOST_MODELS:
        raise UserError(
            f"{len(found)} models were asked for, and a page holds {MOST_MODELS} at most; give some of them, such as "
            f"{found[0]} and {found[1]}"
        )


def _of_arms(directory: Path) -> list[Path]:
    """The first finished run of each arm."""
    from headway.store.directory import Store

    first = first_of_arms(Store.open(directory).runs())
    if not first:
        raise UserError(
            f"{directory}: it has no finished run of a language model, which this page needs; `headway run` finishes "
            "its runs"
        )
    return [run.path for run in first]


def first_of_arms(runs: "Iterable[Run]") -> "list[Run]":
    """The first finished run of language models of each arm."""
    first: dict[str, Run] = {}
    for run in runs:
        if run.status == "done" and run.spec.task.n_ctx is not None:
            first.setdefault(run.name, run)
    return list(first.values())


SEQUENCES, LENGTH = 4, 128
"""The default numbers of sequences, of the text and of repeated tokens each, and of tokens in a sequence."""
LARGEST = 10_000_000
"""The default limit of a page, in bytes."""


def look(
    path: "str | Path | torch.nn.Module | Opened",
    *,
    text: "str | Path | TokenIds | TextInput | None" = None,
    tokens: "TokenIds | None" = None,
    heads: str | None = None,
    sequences: int | None = None,
    length: int | None = None,
    draws: int | None = None,
    tokenizer: "str | PreTrainedTokenizerBase | None" = None,
    largest: int = LARGEST,
    device: str = "auto",
    seed: int = 0,
    trust_code: bool = False,
) -> ModelView:
    """Measure a finished model for the page of `headway look`.

    Args:
        path: a run's folder, its checkpoint, or a local Hugging Face folder; or a model in memory, as for
            `headway.xray`.
        text: a text file with `<|endoftext|>` between documents, any other corpus that a task can name, or tokens;
            None, without tokens: the evaluation data of the run.
        tokens: instead of a text, whole numbers (sequence, pos) in an array, a tensor or lists.
        heads: the heads whose patterns are kept, such as `L0H3,L2`; None: all.
        sequences: the number of shown sequences, of the text and of repeated tokens each; None: 4.
        length: the tokens of a sequence; None: the model's context, at most 128, or all given tokens.
        draws: the number of re-initialisations of heads, as for `headway.xray`.
        tokenizer: another than the folder's: a folder, `bytes`, `gpt2`, or a tokenizer of transformers.
        largest: the largest page in bytes; patterns that do not fit are left out, with a note.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`; a model in memory stays where it is.
        seed: the random seed of the repeated random tokens.
        trust_code: True to run code that comes with a Hugging Face folder, if the folder needs it.

    Raises:
        UserError: if the model or text cannot be opened or measured, or a head is unknown; it is raised before any
            measurement.
    """
    import torch

    from headway.heads.token_circuits import token_circuits, why_no_circuits

    if largest < look_tokens.SMALLEST:
        raise UserError(
            f"largest {largest:,} bytes: a page without any patterns needs {look_tokens.SMALLEST:,}; give more"
        )
    n = positive(sequences, "sequences") or SEQUENCES
    run = _run_of(path)
    source = one_input(path, text, tokens, "a look needs either a text or tokens to read")
    source.check_tokens(path, "a look shows")
    opened = open_model(path, tokenizer, for_="trace", tokens=source.inputs, device=device, trust_code=trust_code)
    read = source.read(opened, None, length, at_most=LENGTH, least=n)
    if read.length < 2:
        raise UserError(f"sequences of {read.length} token have no earlier token to attend to; give longer sequences")
    kept = [] if run is None else run.weight_steps()
    with evaluating(opened.module), torch.inference_mode():
        seen = look_tokens.SeenModel.first(opened, read.tokens, heads)
        room = look_tokens.PageRoom(largest=largest, n_heads=seen.n_heads)
        among, steps = look_tokens.circuit_tokens(opened, read.tokens), room.steps(kept)
        shown = look_tokens.shown_patterns(seen, n, room.for_patterns(len(steps)), seed=seed, below=room.below)
        pairs = look_tokens.attended_pairs(seen)
        circuits = token_circuits(opened.ours, among)
        found = _numbers(opened, source, read, seen, draws, seed)
        composed = found.composition is not None
        trained, cuts = kept_steps(run, steps, seen, shown, among, below=room.below, composed=composed)
    named = look_tokens.occurring(shown.sequences, pairs, [circuits, *(each.circuits for each in trained)])
    return ModelView(
        name=opened.name,
        found=found,
        words=look_tokens.token_words(opened, named),
        sequences=shown.sequences,
        patterns=shown.patterns,
        pairs=pairs,
        pairs_from=len(read),
        circuits=circuits,
        no_circuits=why_no_circuits(opened.ours),
        run=None if run is None else run.path,
        kept=trained,
        decodes=opened.kind == "encoder-decoder",
        notes=(*seen.notes(), *shown.cuts, *room.left_out(kept), *cuts),
    )


def _run_of(path: object) -> Run | None:
    """Return the run that trained the model of a path; None of any other model."""
    folder = model_folder(path) if isinstance(path, str | Path) else None
    return Run.open(folder.path) if folder is not None and folder.kind == "run" else None


def _numbers(
    opened: Opened, source: TextInput, read: TextInput, seen: look_tokens.SeenModel, draws: int | None, seed: int
) -> XRay:
    """Return the x-ray of the text; of a short text only the metrics that few tokens allow."""
    if is_too_few(read, seen.attentions):
        return short_text_xray(opened, read, seen.attentions)
    again = read if source.corpus is None else source.read(opened, None, None, at_most=XRAY_LENGTH)
    return measured(opened, again, draws, seed)
