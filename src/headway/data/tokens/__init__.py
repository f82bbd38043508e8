"""Data, transformers on tokens: batches of sequences, as a pure function of task, seed and step.

* `examples`: what every kind of task supplies, and the one way to get at it;
* `text`: that of a corpus; `corpus_tokens` are its tokens, `packing` cuts them into batches, `ngrams` says what is
  to be beaten;
* `known`: examples that are drawn, or all inputs once: of `parity`, `endpoint`, `retrieval`, `hops`, `recall` and
  `induction`;
* `own_task`: those of a type of one's own, held to `own_laws`; `own_corpus`: documents that a function gives;
* `building` makes them: `corpus` finds documents, `documents` reads them from files, `hub` fetches them, `ids` takes
  tokens as they are, `one_document` parts a book, `tokenizer` makes tokens, `endless_tokenizer` without an end,
  `tokenizer_files` bounds what it may be, `text_kept` says how much of a text they give back, `token_cache` keeps them;
* `outlook`: what all this would say, before it is done;
* `stories`: a corpus of our own, written by `grammar` from `story_plots` and `story_words`.
"""

from headway.data.tokens.examples import expectations, open_examples
from headway.declare.tokens.run import TokensRun


def prepare(run: TokensRun) -> tuple[str, ...]:
    """Make what the examples of a run need, so that many workers then find it; what is to be said of it.

    Raises:
        UserError: when it is missing, not fit, or too little.
    """
    examples = open_examples(run.task)
    examples.steps_per_epoch(run.training.batch_size)
    return examples.notes


def foresee(run: TokensRun) -> tuple[str, ...]:
    """What `prepare` would say, as far as can be known without fetching, and with no more work than that takes.

    Raises:
        UserError: what `prepare` would raise, as far as it is looked at.
    """
    return expectations(run.task, run.training.batch_size)
