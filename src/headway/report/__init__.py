"""Pictures and pages, made from run folders alone.

* `experiment`: the report of an experiment; `lm`, `regression`: what each laboratory adds to it;
* `models`: the pages of finished models; `charts`: what all pages share;
* `terminal`: what an experiment would cost; `progress`: how far it is.
"""
