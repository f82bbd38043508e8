"""Adding seeds until every comparison has an answer, by a plan fixed in advance.

* `until`: a plan of interim analyses, followed to its end; `messages`: what it tells.
"""
