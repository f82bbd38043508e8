"""Runs of transformers on tokens, as frozen values.

* `task`: the members that every task has; `text`: the next token of a corpus; `synthetic`:
  tasks with known answers;
* `model`: the transformer; `layout`: the heads of each layer; `head_units`: heads that are pruned together;
  `budget`: the trained arrays and what they cost, with published sizes;
* `training`: optimizer and schedule; `init_from`: the run whose weights a run starts from; `measurement`: probes,
  evaluation, and what follows training;
* `run`: all of them together, and the table of tasks.
"""
