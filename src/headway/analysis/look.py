"""The data of the page of `headway look`: the heads of finished models, for a reader who picks one.

`look` is `headway.look` and its verb. It traces patterns sequence by sequence and packs them at once, until the page
would be too large; the page names what was left out. The numbers are those of an x-ray on the same text.

`kept_steps` reads the steps whose weights a run kept: circuits, compositions, and as many patterns as fit.
`models_in` and `first_of_arms` choose the models of a page.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headway.analysis.inputs import TOKENS, ToRead, check_measurable, evaluating, length_of, positive, text_or_examples
from headway.analysis.look_tokens import (
    SMALLEST,
    PageRoom,
    Patterns,
    SeenModel,
    ShownPatterns,
    attended_pairs,
    circuit_tokens,
    occurring,
    shown_patterns,
    token_words,
)
from headway.analysis.model import Opened, model_folder, whole_numbers
from headway.analysis.open import open_in_memory, open_model
from headway.analysis.xray import measured, of_few, xray
from headway.base.text import counted
from headway.config.spec import MOST_MODELS
from headway.data.corpus import find_corpus
from headway.errors import UserError
from headway.heads.results import AttentionHeads, KeptStep, ModelView, PackedPatterns, XRay
from headway.store.run import Run

if TYPE_CHECKING:
    import torch

    from headway.analysis.model import TokenIds
    from headway.data.corpus import Corpus


_SMOOTHER = 2
"""The factor by which early patterns pack better, at best."""


@dataclass(frozen=True, kw_only=True)
class KeptSteps:
    """The heads at the steps whose weights a run kept.

    Attributes:
        steps: ascending.
        cuts: what was left out, in sentences.
    """

    steps: tuple[KeptStep, ...] = ()
    cuts: tuple[str, ...] = ()


def kept_steps(
    run: "Run | None",
    steps: Sequence[int],
    seen: SeenModel,
    shown: ShownPatterns,
    tokens: Sequence[int],
    *,
    below: str,
    composed: bool,
) -> KeptSteps:
    """Open the run's model at each of these steps, and measure what the page shows of the finished model.

    Args:
        run: that trained the model; None: nobody kept anything.
        steps: whose weights it kept.
        seen: the finished model.
        shown: its patterns, and the room that they left.
        tokens: between which circuits are read.
        below: why there is no more room, in words.
        composed: whether compositions are wanted.

    Raises:
        ResultsError: when kept weights are damaged.
    """
    from headway.heads.token_circuits import compositions, in_tokens, token_circuits

    if run is None or not steps:
        return KeptSteps()
    n = _fitting(shown, len(steps))
    found = []
    for step in steps:
        then = _at(run, step, seen)
        own = then.opened.own
        found.append(
            KeptStep(
                step=step,
                circuits=token_circuits(own, tokens) if in_tokens(own) else None,
                composition=compositions(own) if composed else None,
                patterns={
                    (name, at): packed
                    for at, sequence in enumerate(shown.sequences[:n])
                    for name, packed in then.packed(sequence).items()
                },
            )
        )
    fitted = _cut(found, n, shown.room)
    few, many = max((1 + at for step in fitted for _, at in step.patterns), default=0), len(shown.sequences)
    what = f"patterns of {few} of {counted(many, 'sequence')}" if few else "no patterns"
    said = f"while it trained, {what} are kept, {below}"
    return KeptSteps(steps=fitted, cuts=(said,) if few < many else ())


def _at(run: "Run", step: int, seen: SeenModel) -> SeenModel:
    """The model as it was at a step, to be seen as the finished one is."""
    device = next(seen.opened.module.parameters()).device
    model = run.model(step).to(device).eval()
    return replace(seen, opened=replace(seen.opened, module=model, ours=model, traced=model.trace))


def _fitting(shown: ShownPatterns, n_steps: int) -> int:
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
        steps = [replace(step, patterns=_below(step.patterns, n)) for step in steps]
    return tuple(steps)


def _below(patterns: Patterns, n: int) -> dict[tuple[str, int], PackedPatterns]:
    return {key: packed for key, packed in patterns.items() if key[1] < n}


EXPERIMENT = "experiment.yaml"
"""The file that every results directory has."""


def models_in(paths: Sequence[Path]) -> list[Path]:
    """Return the models of a page: paths as they are, and, for a results directory, a finished run of each arm.

    Raises:
        UserError: for a results directory without a finished run of language models, or too many models for a page.
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
            f"{directory}: it has no finished run of a language model, and nothing else has tokens to look at; "
            "`headway run` finishes its runs"
        )
    return [run.path for run in first]


def first_of_arms(runs: "Iterable[Run]") -> "list[Run]":
    """The first finished run of language models of each arm."""
    first: dict[str, Run] = {}
    for run in runs:
        if run.status == "done" and run.spec.n_ctx is not None:
            first.setdefault(run.name, run)
    return list(first.values())


def numbers(
    opened: Opened,
    read: ToRead,
    *,
    given: bool,
    attentions: Sequence[AttentionHeads],
    draws: int | None,
    seed: int,
) -> XRay:
    """Return an x-ray on the text; for a text that is too short for one, what few tokens can tell, and a note.

    Args:
        opened: the model, where it is to be.
        read: the text.
        given: whether these tokens are all there is, and no text of this name.
        attentions: those of the model.
        draws: as in `xray`.
        seed: as in `xray`.
    """
    if read.targets is not None:
        return measured(opened, read, draws, seed)
    if read.tokens.size <= 2 * max(attention.d_head for attention in attentions):
        return of_few(opened, read)
    if given:
        return xray(opened, tokens=read.tokens, draws=draws, seed=seed)
    return xray(opened, text=read.text, draws=draws, seed=seed)


SEQUENCES, LENGTH = 4, 128
"""The default numbers of sequences, of the text and of repeated tokens each, and of tokens in a sequence."""
LARGEST = 10_000_000
"""The default limit of a page, in bytes."""


def look(
    path: "str | Path | torch.nn.Module | Opened",
    *,
    text: str | Path | None = None,
    tokens: "TokenIds | None" = None,
    heads: str | None = None,
    sequences: int | None = None,
    length: int | None = None,
    draws: int | None = None,
    tokenizer: str | None = None,
    largest: int = LARGEST,
    device: str = "auto",
    seed: int = 0,
    trust_code: bool = False,
) -> ModelView:
    """Measure a finished model for the page of `headway look`.

    Args:
        path: a run's folder, its checkpoint, or a local Hugging Face folder; or a model in memory, as for
            `headway.xray`.
        text: a text file with `<|endoftext|>` between documents, or any other corpus that a task can name;
            None, without tokens: the evaluation data of the run.
        tokens: instead of a text, whole numbers (sequence, pos) in an array, a tensor or lists.
        heads: the heads whose patterns are kept, such as `L0H3,L2`; None: all.
        sequences: the number of shown sequences, of the text and of repeated tokens each; None: 4.
        length: the tokens of a sequence; None: the model's context, at most 128, or all given tokens.
        draws: the number of re-initialisations of heads, as for `headway.xray`.
        tokenizer: another than the folder's: a folder, `bytes` or `gpt2`.
        largest: the largest page in bytes; patterns that do not fit are left out, with a note.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`; a model in memory stays where it is.
        seed: of the repeated random tokens.
        trust_code: whether to run code that comes with a Hugging Face folder, if the folder needs it.

    Raises:
        UserError: for a model or text that cannot be opened or measured, or no such head, before anything runs.
    """
    import torch

    from headway.heads.token_circuits import in_tokens, no_circuits, token_circuits
    from headway.train.device import find_device

    if largest < SMALLEST:
        raise UserError(f"largest {largest:,} bytes: a page without any patterns needs {SMALLEST:,}; give more")
    place = find_device(device)
    read = _Read.of(path, text, tokens, sequences, length, tokenizer, trust_code)
    opened = read.opened
    if isinstance(path, str | Path):
        opened.module.to(place)
    with torch.inference_mode(), evaluating(opened.module):
        seen = SeenModel.first(opened, read.read.tokens, heads)
        room = PageRoom(largest=largest, n_heads=seen.n_heads)
        among, steps = circuit_tokens(opened, read.read.tokens), room.steps(read.kept)
        shown = shown_patterns(seen, read.n, room.for_patterns(len(steps)), seed=seed, below=room.below)
        pairs = attended_pairs(seen)
        circuits = token_circuits(opened.ours, among) if in_tokens(opened.ours) else None
        found = numbers(opened, read.read, given=read.given, attentions=seen.attentions, draws=draws, seed=seed)
        kept = kept_steps(read.run, steps, seen, shown, among, below=room.below, composed=found.composition is not None)
    named = occurring(shown.sequences, pairs, [circuits, *(each.circuits for each in kept.steps)])
    return ModelView(
        name=opened.name,
        found=found,
        words=token_words(opened, named),
        sequences=shown.sequences,
        patterns=shown.patterns,
        pairs=pairs,
        pairs_from=len(read.read.tokens),
        circuits=circuits,
        no_circuits=no_circuits(opened.ours),
        run=None if read.run is None else read.run.path,
        kept=kept.steps,
        decodes=opened.kind == "encoder-decoder",
        notes=(*seen.notes(), *shown.cuts, *room.left_out(read.kept), *kept.cuts),
    )


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A model, and what it is to read.

    Attributes:
        opened: the model.
        read: as many sequences as numbers are from.
        given: whether the user gave tokens instead of a text.
        n: how many sequences are shown.
        run: that trained the model, if one of Headway's did.
    """

    opened: Opened
    read: ToRead
    given: bool
    n: int
    run: Run | None

    @classmethod
    def of(
        cls,
        path: "str | Path | torch.nn.Module | Opened",
        text: str | Path | None,
        tokens: "TokenIds | None",
        sequences: int | None,
        length: int | None,
        tokenizer: str | None,
        trust_code: bool,
    ) -> "_Read":
        """The model of a path or in memory, opened, and its tokens.

        Raises:
            UserError: as `look`.
        """
        n = positive(sequences, "sequences") or SEQUENCES
        folder = model_folder(path) if isinstance(path, str | Path) else None
        examples = None
        if text is None and tokens is None and isinstance(path, str | Path):
            text, examples = text_or_examples(path, length)
        if examples is not None:
            examples.check_tokens(path, "a look shows")
        if sum(each is not None for each in (text, tokens, examples)) != 1:
            raise UserError("a look needs either a text or tokens to read: give one of text= and tokens=")
        corpus = None if text is None else find_corpus(str(text), limit=None, asked="text")
        whole = None if tokens is None else whole_numbers(tokens)
        if isinstance(path, str | Path):
            opened = open_model(path, tokenizer, trust_code=trust_code)
        else:
            opened = open_in_memory(path, tokenizer, whole)
        check_measurable(opened)
        if examples is None:
            read = _read(opened, corpus, whole, str(text), n, length)
        else:
            read = ToRead.examples(examples, None)
        return cls(
            opened=opened,
            read=read,
            given=whole is not None,
            n=n,
            run=Run.open(folder.path) if folder is not None and folder.kind == "run" else None,
        )

    @property
    def kept(self) -> list[int]:
        """The steps whose weights the run kept."""
        return [] if self.run is None else self.run.weight_steps()


def _read(
    opened: Opened, corpus: "Corpus[str] | None", given: "np.ndarray | None", text: str, n: int, length: int | None
) -> ToRead:
    """A text as far as it is read, or tokens that were given.

    Raises:
        UserError: as `look`.
    """
    if corpus is None:
        assert given is not None
        found = opened.checked(given[:, : positive(length, "length")])
        if found.shape[1] < 2:
            raise UserError(f"sequences of {found.shape[1]} token were given: nothing is before it to look at")
        return ToRead(tokens=found, text="tokens that were given", length=found.shape[1], n=len(found))
    wanted = length_of(opened, length, LENGTH)
    found = opened.sequences(corpus.documents(), n=max(n, TOKENS // wanted), length=wanted)
    return ToRead(tokens=found, text=text, length=wanted, n=len(found))
