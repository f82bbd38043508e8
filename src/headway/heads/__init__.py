"""Heads: what the heads of a model do: pure functions from a trace, or from weights, to numbers per head.

* `scores`: what a metric says of every head of a model (numpy, no torch);
* `diversity`, `disagreement`, `patterns`, `published`: the metrics, each a function of `sums` over rows, or a mean of
  what the `looks` of a block of queries say;
* `subject`: which queries and keys count; `registry`: a function for each declared metric;
* `stream`: what metrics are made of, accumulated over any number of batches;
* `repeated`: random tokens, repeated; `grouped`: within and between groups of heads that share keys;
* `nulls`: what a metric is when nothing is going on;
* `circuits`: what can be read off the weights alone;
* `causes`: what a model does without some heads: ablation, attribution, pruning.
"""
