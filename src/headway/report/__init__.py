"""Figures and pages, made from run folders alone.

* `experiment`: the report of an experiment; `lm`, `regression`: each laboratory's part of it;
* `models`: the pages of finished models; `judged`: the page of judged runs; `charts`: the parts that all pages share;
* `plan`: the cost of an experiment; `progress`: the state of its runs; `terminal`: the console of both.
"""
