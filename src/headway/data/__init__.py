"""Examples as a pure function of task, seed and step.

* `regression`: prompts of in-context regression, drawn by `native` code or by numpy;
* `batch`: what every task on tokens supplies; `synthetic`: tasks with known answers and the user's own, held to
  `task_laws`;
* `text`: batches of a corpus; `corpus`: where documents come from; `documents`: how files are read; `token_store`: the
  tokens of a corpus, kept in the `cache`; `tokenizer`, `tokenizer_files`: from text to tokens and back;
* `ngrams`: what counting reaches; `grammar`: stories written from `stories_data`.
"""
