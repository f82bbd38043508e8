"""Data, transformers on tokens: `examples` is what every task supplies.

* `text`: the tokens of a corpus, cut into batches by `packing`; `corpus` finds it, also on a hub (`hub`), `tokenizer`
  makes tokens of it, `cache` keeps them, `ngrams` says what is to be beaten;
* `stories`: a corpus of our own, written by `grammar` from `story_plots` and `story_words`.
"""

from headway.data.tokens.examples import open_examples
from headway.declare.tokens.run import TokensRun


def prepare(run: TokensRun) -> None:
    """Make what the examples of a run need, so that many workers then find it.

    Raises:
        UserError: when it is missing, not fit, or too little.
    """
    open_examples(run.task).steps_per_epoch(run.training.batch_size)
