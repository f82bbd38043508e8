"""Add seeds until every question has an answer, and no longer.

* `goal`: what a call asks for, and the search for the best of many arms;
* `until`: a plan of interim analyses, followed to its end; `wording`: what an interim analysis found, in words.
"""
