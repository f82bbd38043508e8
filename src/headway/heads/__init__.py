"""What the heads of a model do: pure functions from a trace, or from weights, to numbers for each head.

Without torch:

* `metric`: the functions of declared metrics by name; `scores`: what a metric says of every head;
* `findings`: what stands out, in sentences; `results`: all that an x-ray found, and what a page shows.

With torch:

* `measure`: metrics accumulated over batches; `attention`: the sums they are made of; `patterns`, `diversity`: metrics
  of attention patterns, and of how heads differ;
* `circuits`, `token_circuits`: what weights say, in matrices and in tokens;
* `nulls`: what a metric is when nothing is going on; `untrained`: the same from re-initialised heads;
* `regularizers`: terms that make heads differ while a model trains.
"""
