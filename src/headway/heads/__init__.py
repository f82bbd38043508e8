"""Metrics of a model's heads: pure functions that turn a trace, or weights, into numbers per head.

Without torch:

* `scores`: the value of a metric for every head;
* `findings`: heads that stand out; `results`: all results of an x-ray, and the content of its page.

With torch:

* `measure`: metrics accumulated over batches; `attention`: what of an attention counts; `sums`: the sums that metrics
  are made of; `patterns`: attention weights of blocks of queries;
* `circuits`, `token_circuits`: circuits read off weights, in matrices and in tokens;
* `expected_values`: the value of a metric when nothing is going on, in closed form; `untrained`: metrics of
  re-initialised heads;
* `regularizers`: terms that make heads differ while a model trains.
"""
