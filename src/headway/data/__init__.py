"""Training and evaluation examples, as a pure function of task, seed and step.

* `regression`: prompts of in-context regression, drawn by `native` code or by numpy;
* `batch`: the interface of every task on tokens; `synthetic`: tasks with known answers and the user's own, checked by
  `task_laws`;
* `text`: batches of a corpus; `corpus`: where documents come from; `documents`: how files are read; `token_store`: the
  tokens of a corpus, kept in the `cache`; `tokenizer`: from text to tokens and back;
* `ngrams`: unigram and bigram baselines; `grammar`: stories, drawn from the rules in stories.json.
"""
