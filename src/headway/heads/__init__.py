"""Heads: what the heads of a model do: pure functions from a trace, or from weights, to numbers per head.

Without torch:

* `scores`: what a metric says of every head of a model, and how heads compose; `names`: what heads are called;
* `findings`: what stands out, in sentences; `chance`: how likely that is of heads that learnt nothing;
  `grouped`: within and between groups of heads that share keys;
* `model_on_text`: a finished model and the text it read; `xray`: all that was found of what its heads do;
* `scores_json`: scores as plain values;
* `registry`: a function for each declared metric, and what these are made of, by name;
* `view`: a model to be looked at head by head; `packed`: its patterns to 8 bits.

With torch:

* metrics: `diversity`, `disagreement`, `patterns`, `outputs`, `published`, each
  a function of `sums` over rows, or a mean of what the `query_blocks` of a block of queries say;
* `subject`: which queries and keys count; `nulls`: what a metric is when nothing is going on;
* `stream`: what metrics are made of, accumulated over any number of batches; `repeated`: random tokens, repeated;
* `circuits`: what can be read off the weights alone, kept as `factored` matrices; `compositions`: of pairs of heads;
* `examination`: all of these of one model, each on what it needs; `comparison`: the same beside untrained heads;
  `stream_null`: what these show by a formula; `some_rows`: CKA of many rows from some of them;
* `attended`: which tokens look at which, over a text; `token_circuits`: what circuits say in tokens;
* `terms`: what is added to a loss so that heads become different;
* `causes`: what a model does without some heads: ablation, attribution, pruning.
"""
