"""Seeds are added until every question has an answer, and no longer.

* `goal`: the goal of a call, and the search for the best of many arms;
* `until`: a plan of interim analyses, followed to its end; `messages`: what it tells.
"""
