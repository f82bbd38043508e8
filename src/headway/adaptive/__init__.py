"""Seeds are added until every question has an answer, and no longer.

* `until`: a plan of interim analyses, followed to its end; `messages`: what it tells.
"""
