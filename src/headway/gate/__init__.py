"""Decisions to keep or discard a change, with a bound on the probability of ever keeping a useless change.

* `evidence`: the test;
* `command`: a training command, and the metric in its output; `journal`: the record of a gate;
* `trial`: a challenger beside the champion, until a decision; `run_file`: runs that were made elsewhere.
"""
