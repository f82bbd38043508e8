"""Show: pictures and pages, made from run folders alone.

* `report`: the report of an experiment; `icl`, `tokens`: what each laboratory adds to it;
* `xray`: the page of a finished model;
* `terminal`: what an experiment would cost, and how far it is;
* `shared`: what they share.
"""
