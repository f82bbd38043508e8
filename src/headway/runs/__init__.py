"""Runs: run folders, and running many of them.

* `folder`: one run, read; its `records`, written by the `recorder` of its owner, who holds the `lease`;
* `store`: a directory of them; its `growth` with its file; what was `dropped` from it;
* `local`: many runs worked on at once, with their `progress`, by workers that `places` start, on the `devices` there
  are; `worker` is such a process, `work` what it does, `stop` how it is asked to end; `execution` is how it computed;
* `planned_looks`: when the seeds of a directory are looked at, and what was found;
* `timing`: a step of each arm by itself; `memory`: whether runs fit; `costs`: what they would cost.
"""
