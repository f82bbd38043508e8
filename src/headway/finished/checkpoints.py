"""Door: the language model behind a path: a run's folder, its checkpoint, or a folder of Hugging Face."""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.declare.tokens.run import TokensRun
from headway.errors import UserError

if TYPE_CHECKING:
    from headway.data.tokens.tokenizer import Tokenizer
    from headway.model.transformer import Transformer
    from headway.runs.folder import Run

_PADDING = 0.05
"""Some pad a vocabulary to a multiple of 64; where more than this share is spare, it belongs to another tokenizer."""


_TOKENS = 200


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A trained language model, ready to write."""

    model: "Transformer"
    tokenizer: "Tokenizer | None"
    """None where the folder has none."""
    n_ctx: int
    """Tokens of the longest text that it was trained on."""

    def write(self, prompt: str, *, n_tokens: int | None = None, stop: bool = True, **sampling: Any) -> str:
        """A prompt and what the model writes after it; with an empty prompt, a text from its beginning.

        Args:
            prompt: how the text begins.
            n_tokens: at most so many are written; None: 200, or as many as fit into n_ctx.
            stop: whether the text ends with the end-of-text token, which is not given.
            sampling: as in `headway.model.generate`.

        Raises:
            UserError: when there is no tokenizer, or the text would be longer than the model's longest.
        """
        from headway.model.generate import generate

        if self.tokenizer is None:
            raise UserError(
                "the checkpoint has no tokenizer.json; give the tokenizer it was trained with: --tokenizer FOLDER, "
                "bytes or gpt2"
            )
        # With its special tokens: a Llama's text begins with one.
        begun = self.tokenizer.inner.encode(prompt).ids if prompt else []
        end = self.tokenizer.end_of_text
        start = begun or [end]
        wanted = n_tokens or min(_TOKENS, max(1, self.n_ctx - len(start)))
        written = generate(self.model, start, n_tokens=wanted, stop=end if stop else None, **sampling)
        if (length := len(start) + len(written)) > self.n_ctx:
            warnings.warn(
                f"the text has {length} tokens, but the model was trained on {self.n_ctx}; it never saw later ones",
                RuntimeWarning,
                stacklevel=2,
            )
        return prompt + self.tokenizer.decode([*begun, *written])[len(self.tokenizer.decode(begun)) :]


def open_model(path: str | Path, tokenizer: str | None = None) -> Opened:
    """The trained model, and its tokenizer where there is one.

    Args:
        path: of a run's folder, of its checkpoint, or of a folder of Hugging Face.
        tokenizer: another tokenizer than the folder's: a folder, `bytes` or `gpt2`.

    Raises:
        UserError: for a path that holds no language model, a run that is not done, or a tokenizer of another
            vocabulary.
    """
    from headway import hf

    path = Path(path)
    folder = path.parent if path.name == "checkpoint" else path
    if (folder / "run.json").is_file():
        model, n_ctx = _of_run(folder)
    elif (path / "config.json").is_file():
        model, folder = hf.load(path), path
        n_ctx = model.model.n_positions
    else:
        raise UserError(f"{path}: {_why_not(path)}")
    its = hf.tokenizer(folder) if tokenizer is None else named_tokenizer(tokenizer)
    if its is not None:
        check_tokenizer(its, model.vocab_size, str(folder) if tokenizer is None else f"--tokenizer {tokenizer}")
    return Opened(model=model, tokenizer=its, n_ctx=n_ctx)


def check_tokenizer(tokenizer: "Tokenizer", vocab_size: int, where: str) -> None:
    """Nothing, when the tokenizer has the vocabulary of the model, which may be padded to a multiple of 64.

    Raises:
        UserError: saying both sizes.
    """
    spare = vocab_size - tokenizer.vocab_size
    if spare and not (0 < spare < max(64, _PADDING * vocab_size) and vocab_size % 64 == 0):
        raise UserError(
            f"{where}: the tokenizer has {tokenizer.vocab_size} tokens, but the model has {vocab_size}; "
            "give the tokenizer that the model was trained with"
        )


def named_tokenizer(tokenizer: str) -> "Tokenizer":
    """The tokenizer that an option names: `bytes`, `gpt2`, or a folder.

    Raises:
        UserError: when it cannot be had.
    """
    from headway.data.tokens.tokenizer import open_tokenizer

    if re.fullmatch(r"bpe-\d+", tokenizer):
        raise UserError(f"--tokenizer {tokenizer} was trained on some corpus; give the folder of its tokenizer.json")
    return open_tokenizer(tokenizer, tuple)


def _of_run(folder: Path) -> "tuple[Transformer, int]":
    from headway.runs.folder import Run

    run = Run.open(folder)
    spec = run.spec
    if not isinstance(spec, TokensRun):
        raise UserError(f"{folder}: it is a run of the in-context laboratory, which has no language; give a text run")
    if run.status != "done":
        raise UserError(f"{folder}: {_how_far(run)}; `headway run` on its results directory finishes it")
    return run.model().eval(), spec.task.n_ctx


def _how_far(run: "Run") -> str:
    from headway.train import checkpoint

    found, _ = checkpoint.load(run.path / "checkpoint")
    of = f" of {run.steps}" if run.steps else ""
    where = "it has no checkpoint yet" if found is None else f"its checkpoint is of step {found.step}{of}"
    why = f" ({run.message})" if run.message else ""
    return f"the run is {run.status}{why}, and {where}"


def _why_not(path: Path) -> str:
    kinds = "a run's folder (DIR/runs/ARM/seed-N), its checkpoint, or a folder of Hugging Face with a config.json"
    if not path.exists():
        return f"there is no such folder; give {kinds}"
    if not path.is_dir():
        return f"it is a file; give {kinds}"
    runs = sorted(path.glob("runs/*/seed-*"))
    if runs:
        return f"it is a results directory with {len(runs)} runs; give one of them, such as {runs[0]}"
    if others := sorted(each.name for each in path.iterdir()):
        few = ", ".join(others[:4]) + ", ..." * (len(others) > 4)
        return (
            f"it holds no model that Headway reads (there is {few}); give {kinds}. A model of another format becomes "
            "one with transformers: save_pretrained(FOLDER), of its model and of its tokenizer"
        )
    return f"it is empty; give {kinds}"
