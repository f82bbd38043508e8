"""Runs of other trainers, read from tables, and compared by Headway's statistical methods.

* `sources`: files and folders of runs; `table`: the rows and cells of a text or a DataFrame;
* `columns`: which column is an arm, a seed, a metric; `runs`: a value for each arm and seed, and what differs besides;
* `judge`: the verdicts.
"""
