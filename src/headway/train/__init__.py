"""Train: a training run as an iterator of events.

* `loop`: from step to step, and what is measured on the way; `checkpoint`: what a run goes on from;
* `laboratory`: what a laboratory supplies; `icl`, `tokens`: what each does;
* `trainer`: the PyTorch trainer; `device`: where it computes, `elementary`: with the same bits whichever thread comes
  first; `process_memory`, `meter`: what that takes.
"""
