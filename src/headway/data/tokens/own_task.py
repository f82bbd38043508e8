"""Data: examples of tasks of one's own: a plugin's type declares them and draws them.

What a type draws is held to laws before anything is trained on it (`own_laws`).
"""

from functools import cached_property
from typing import ClassVar

import numpy as np

from headway.data.tokens.examples import Batch
from headway.data.tokens.known import KnownExamples
from headway.data.tokens.own_laws import broken, raised
from headway.declare.tokens.known import KnownTask
from headway.errors import UserError

_LIST = "let every() give a Batch(inputs=..., targets=...) of all inputs"


class OwnTask(KnownTask):
    """A task of one's own; a subclass has `kind`, `n_ctx`, `vocab_size`, and `draw` or `every`.

    Its other members may be given too: `title`, `n_answers` where answers are no tokens, `best_possible`, `primary`,
    the metric that arms are judged by, and `loss`, which is `mse` where answers are numbers.
    """

    examples: ClassVar[str] = "headway.data.tokens.own_task.open_examples"
    copies: ClassVar[bool] = False
    """Whether an answer may stand at one place of the input, to be found there: to copy it is what is asked."""

    def draw(self, random: np.random.Generator, n: int) -> Batch:  # noqa: ARG002
        """So many examples, from this generator alone.

        Raises:
            UserError: when the type neither draws nor lists its examples.
        """
        raise UserError(
            f"task.kind {self.kind}: it has no examples; give its type a method draw(random, n), or every()"
        )

    def every(self) -> Batch | None:
        """All inputs once, where they can be listed; None: they are drawn."""
        return None

    @cached_property
    def listed(self) -> Batch | None:
        """The same, made once.

        Raises:
            UserError: when `every` fails, or gives something else.
        """
        try:
            made = self.every()
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"task.kind {self.kind}: every() raised {raised(error)}; {_LIST}") from error
        if made is None or (isinstance(made, Batch) and len(made.inputs)):
            return made
        given = "no input" if isinstance(made, Batch) else f"a {type(made).__name__}"
        raise UserError(f"task.kind {self.kind}: every() gave {given}; {_LIST}")

    @property
    def n_inputs(self) -> int | None:
        """How many inputs there are."""
        return None if self.listed is None else len(self.listed.inputs)


def open_examples(task: OwnTask) -> KnownExamples:
    """What it draws, or all of its inputs once.

    Raises:
        UserError: when what it draws breaks a law.
    """
    examples = examples_of(task)
    for said in broken(task, examples):
        raise UserError(f"task.kind {task.kind}: {said}")
    return examples


def examples_of(task: OwnTask) -> KnownExamples:
    """The same, whatever laws it breaks."""
    draws = task.listed is None or type(task).draw is not OwnTask.draw
    return KnownExamples(task, every=task.listed, draw=task.draw if draws else None)
