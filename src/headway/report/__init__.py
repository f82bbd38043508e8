"""Show: pictures and pages, made from run folders alone.

* `report`: the report of an experiment; `icl`, `tokens`: what each laboratory adds to it;
* `xray`: the page of what the heads of a finished model do; `ablate`: of what it does without them;
* `look`: the page on which one looks at heads;
* `terminal`: what an experiment would cost, and how far it is;
* `shared`: what they share.
"""
