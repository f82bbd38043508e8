"""Finished: a model to be looked at head by head; what `headway.look` and the verb are.

Patterns are traced sequence by sequence and packed at once, until the page that they are for would be too large; what
was left out is said. The numbers are those of an x-ray on the same text.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headway.data.tokens.corpus import find_corpus
from headway.errors import UserError
from headway.finished.in_memory import open_in_memory
from headway.finished.kept_steps import kept_steps
from headway.finished.looked_at import numbers
from headway.finished.measurable import check_measurable, evaluating, length_of, positive
from headway.finished.model_folder import model_folder
from headway.finished.opened import Opened, whole_numbers
from headway.finished.opening import open_model
from headway.finished.page_room import SMALLEST, PageRoom
from headway.finished.shown_patterns import SeenModel, shown_patterns
from headway.finished.shown_tokens import attended_pairs, circuit_tokens, occurring
from headway.finished.to_read import TOKENS, ToRead, text_or_examples
from headway.finished.token_words import token_words
from headway.heads.view import ModelView
from headway.runs.folder import Run

if TYPE_CHECKING:
    import torch

    from headway.data.tokens.corpus import Corpus
    from headway.finished.opened import TokenIds

SEQUENCES, LENGTH = 4, 128
"""Sequences of the text, and as many of repeated tokens, and tokens of each, where nobody says."""
LARGEST = 10_000_000
"""Bytes of a page where nobody says."""


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
    """What there is to see when one looks at the heads of a finished model.

    Args:
        path: of a run's folder, of its checkpoint, or of any local folder of Hugging Face; or a model in memory, as in
            `headway.xray`.
        text: a text file, whose documents are parted by `<|endoftext|>`, or any other corpus that a task can name;
            None, without tokens: of a run what it was judged on.
        tokens: in place of a text, whole numbers (sequence, pos) in an array, a tensor or lists.
        heads: whose patterns are kept, such as `L0H3,L2`; None: all.
        sequences: how many of the text are shown, and as many of repeated tokens; None: 4.
        length: tokens of each; None: what the model was made for, at most 128; of given tokens all.
        draws: as in `headway.xray`, from which the numbers are.
        tokenizer: another than the folder's: a folder, `bytes` or `gpt2`.
        largest: bytes of a page: patterns that do not fit are left out, and a note says so.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`; a model in memory stays where it is.
        seed: of the repeated random tokens.
        trust_code: whether code that comes with a folder of Hugging Face is run where it cannot be opened without.

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
        given: whether somebody gave them, and no text.
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
