"""Runs of transformers on tokens, as frozen values.

* `tasks`: the table of tasks; `task`: what each says of itself; `text`: the next token of a corpus; `synthetic`: tasks
  with known answers;
* `model`: the transformer; `layout`: the heads of each layer; `head_units`: heads that go together; `parameters`: the
  trained arrays; `budget`: what they cost, with published sizes;
* `training`: how it learns; `init_from`: the run it starts from; `measurement`: probes, evaluation, and what follows;
* `run`: all of them together.
"""
